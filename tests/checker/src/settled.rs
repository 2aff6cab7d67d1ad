//! What must hold when everything was asked to end.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::kernel::NO_MARK;
use crate::{Api, Broken, Complaint, Kernel, Rows};

const ANSWER: Duration = Duration::from_secs(15);

/// Nothing is there but what waits in the pool, and no row waits for anything.
#[must_use]
pub fn nothing_is_left(kernel: &Kernel, data: &Path, server: i32) -> Vec<Complaint> {
    let (things, rows) = match (kernel.things(Some(server)), Rows::read(data)) {
        (Ok(things), Ok(rows)) => (things, rows),
        (things, rows) => {
            let text = format!("could not look: {:?} {:?}", things.err(), rows.err());
            return vec![Complaint::new(Broken::Leak, text)];
        }
    };
    let mut complaints = Vec::new();
    let pooled =
        |mark: &str| rows.sandboxes.iter().any(|row| row.is_pooled && !row.is_settled && row.mark() == mark);
    for (mark, things) in &things {
        let left: Vec<_> =
            things.iter().filter(|thing| mark != NO_MARK || !thing.starts_with("cgroup: ")).collect();
        if !left.is_empty() && !pooled(mark) {
            complaints.push(Complaint::new(Broken::Leak, format!("left of {mark}: {left:?}")));
        }
    }
    for row in rows.sandboxes.iter().filter(|row| !row.is_settled && !row.is_pooled) {
        complaints.push(Complaint::new(
            Broken::Stuck,
            format!("{} was to end, and has not: {}", row.id, row.state),
        ));
    }
    for open in &rows.open_executions {
        complaints
            .push(Complaint::new(Broken::Stuck, format!("{} of {} has no outcome", open.id, open.sandbox)));
    }
    complaints
}

/// Created minus destroyed is what is present, in the rows and as it is told.
#[must_use]
pub fn sums_are_right(api: &Api, data: &Path) -> Vec<Complaint> {
    let told = api.get("/api/sandbox/stats", ANSWER);
    match (told, Rows::read(data)) {
        (Ok(answer), Ok(rows)) if answer.is_good() => wrong_sums(&rows, &answer.json()),
        (told, rows) => {
            let text = format!("could not look: {told:?} {:?}", rows.err());
            vec![Complaint::new(Broken::Sum, text)]
        }
    }
}

fn wrong_sums(rows: &Rows, stats: &Value) -> Vec<Complaint> {
    let count = |wanted: &dyn Fn(&crate::Row) -> bool| {
        i64::try_from(rows.sandboxes.iter().filter(|row| wanted(row)).count()).unwrap_or(i64::MAX)
    };
    let present = count(&|row| !row.is_settled && !row.is_pooled);
    let told = |name: &str| stats[name].as_i64().unwrap_or(-1);
    let sums = [
        ("created − destroyed", rows.created - rows.destroyed, "rows that are present", present),
        (
            "created",
            rows.created,
            "rows, strays and what is forgotten",
            count(&|row| !row.is_pooled) + rows.strays + rows.gone,
        ),
        ("pooled", rows.pooled, "rows in the pool", count(&|row| !row.is_settled && row.is_pooled)),
        ("created, as told", told("total_created"), "created", rows.created),
        ("destroyed, as told", told("total_destroyed"), "destroyed", rows.destroyed),
        ("present, as told", told("present"), "rows that are present", present),
    ];
    let wrong = sums.into_iter().filter(|(_, left, _, right)| left != right);
    wrong
        .map(|(what, left, than, right)| {
            Complaint::new(Broken::Sum, format!("{what}: {left}; {than}: {right}"))
        })
        .collect()
}

/// The server has ended in order: nothing at all is there but its records, and those are sound.
#[must_use]
pub fn nothing_outlives_the_server(kernel: &Kernel, data: &Path) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    match kernel.things(None) {
        Ok(things) => complaints.extend(things.iter().map(|(mark, things)| {
            Complaint::new(Broken::Leak, format!("left behind the server, of {mark}: {things:?}"))
        })),
        Err(error) => complaints.push(Complaint::new(Broken::Leak, format!("could not look: {error}"))),
    }
    if let Some(volatile) = kernel.volatile().filter(|path| path.exists()) {
        complaints.push(Complaint::new(Broken::Leak, format!("{} is left", volatile.display())));
    }
    match Rows::damage(data) {
        Ok(None) => {}
        told => complaints.push(Complaint::new(Broken::Lost, format!("the store is damaged: {told:?}"))),
    }
    complaints
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Row;

    fn row(is_settled: bool, is_pooled: bool) -> Row {
        Row {
            id: "sbx_a".into(),
            generation: 1,
            next_deadline: None,
            is_settled,
            is_pooled,
            state: Value::Null,
        }
    }

    fn rows() -> Rows {
        Rows {
            instance: String::new(),
            sandboxes: vec![row(true, false), row(false, false), row(false, true), row(true, true)],
            created: 4,
            destroyed: 3,
            pooled: 1,
            gone: 1,
            open_executions: Vec::new(),
            strays: 1,
        }
    }

    #[test]
    fn sums_that_agree_are_no_complaint() {
        let stats = json!({ "total_created": 4, "total_destroyed": 3, "present": 1 });

        assert_eq!(wrong_sums(&rows(), &stats), []);
    }

    #[test]
    fn each_sum_that_is_off_by_one_is_found() {
        let stats = json!({ "total_created": 4, "total_destroyed": 3, "present": 1 });
        let wrong: [fn(&mut Rows); 4] = [
            |rows| rows.created += 1,
            |rows| rows.destroyed -= 1,
            |rows| rows.pooled += 1,
            |rows| rows.gone += 1,
        ];
        for change in wrong {
            let mut rows = rows();
            change(&mut rows);

            assert!(!wrong_sums(&rows, &stats).is_empty());
        }
        for name in ["total_created", "total_destroyed", "present"] {
            let mut stats = stats.clone();
            stats[name] = json!(7);

            assert_eq!(wrong_sums(&rows(), &stats).len(), 1, "{name}");
        }
    }
}
