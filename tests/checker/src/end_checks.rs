//! Checks after every sandbox was asked to end, and after the server has exited.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::resources::UNNAMED;
use crate::{Api, Kernel, Rows, Violation, ViolationKind};

const ANSWER: Duration = Duration::from_secs(15);

/// Only pooled instances exist, and no row waits for anything.
#[must_use]
pub fn check_nothing_left(kernel: &Kernel, data: &Path, server: i32) -> Vec<Violation> {
    let (resources, rows) = match (kernel.resources(Some(server)), Rows::read(data)) {
        (Ok(resources), Ok(rows)) => (resources, rows),
        (resources, rows) => {
            let text =
                format!("could not read the host or the store: {:?} {:?}", resources.err(), rows.err());
            return vec![Violation::new(ViolationKind::Leak, text)];
        }
    };
    let mut violations = Vec::new();
    let pooled = |name: &str| {
        rows.sandboxes.iter().any(|row| row.is_pooled && !row.is_settled && row.instance_name() == name)
    };
    for (name, resources) in &resources {
        let left: Vec<_> = resources
            .iter()
            .filter(|resource| name != UNNAMED || !resource.starts_with("cgroup: "))
            .collect();
        if !left.is_empty() && !pooled(name) {
            violations.push(Violation::new(ViolationKind::Leak, format!("left of {name}: {left:?}")));
        }
    }
    for row in rows.sandboxes.iter().filter(|row| !row.is_settled && !row.is_pooled) {
        violations.push(Violation::new(
            ViolationKind::Stuck,
            format!("{} should have ended: {}", row.id, row.state),
        ));
    }
    for open in &rows.open_executions {
        violations.push(Violation::new(
            ViolationKind::Stuck,
            format!("{} of {} has no outcome", open.id, open.sandbox),
        ));
    }
    violations
}

/// Created minus destroyed equals what is present, in the rows and in the API's statistics.
#[must_use]
pub fn check_totals(api: &Api, data: &Path) -> Vec<Violation> {
    let response = api.get("/api/sandbox/stats", ANSWER);
    match (response, Rows::read(data)) {
        (Ok(answer), Ok(rows)) if answer.is_good() => wrong_totals(&rows, &answer.json()),
        (response, rows) => {
            let text = format!("could not read the host or the store: {response:?} {:?}", rows.err());
            vec![Violation::new(ViolationKind::Totals, text)]
        }
    }
}

fn wrong_totals(rows: &Rows, stats: &Value) -> Vec<Violation> {
    let count = |wanted: &dyn Fn(&crate::Row) -> bool| {
        i64::try_from(rows.sandboxes.iter().filter(|row| wanted(row)).count()).unwrap_or(i64::MAX)
    };
    let present = count(&|row| !row.is_settled && !row.is_pooled);
    let reported = |name: &str| stats[name].as_i64().unwrap_or(-1);
    let sums = [
        ("created − destroyed", rows.created - rows.destroyed, "rows that are present", present),
        (
            "created",
            rows.created,
            "rows, strays and deleted rows",
            count(&|row| !row.is_pooled) + rows.strays + rows.gone,
        ),
        ("pooled", rows.pooled, "rows in the pool", count(&|row| !row.is_settled && row.is_pooled)),
        ("created, as reported", reported("total_created"), "created", rows.created),
        ("destroyed, as reported", reported("total_destroyed"), "destroyed", rows.destroyed),
        ("present, as reported", reported("present"), "rows that are present", present),
    ];
    let wrong = sums.into_iter().filter(|(_, left, _, right)| left != right);
    wrong
        .map(|(what, left, than, right)| {
            Violation::new(ViolationKind::Totals, format!("{what}: {left}; {than}: {right}"))
        })
        .collect()
}

/// After a clean server exit only its records are left, and the store is intact.
#[must_use]
pub fn check_nothing_outlives_server(kernel: &Kernel, data: &Path) -> Vec<Violation> {
    let mut violations = Vec::new();
    match kernel.resources(None) {
        Ok(resources) => violations.extend(resources.iter().map(|(name, resources)| {
            Violation::new(ViolationKind::Leak, format!("left behind the server, of {name}: {resources:?}"))
        })),
        Err(error) => violations.push(Violation::new(
            ViolationKind::Leak,
            format!("could not read the host or the store: {error}"),
        )),
    }
    if let Some(volatile) = kernel.runtime_directory().filter(|path| path.exists()) {
        violations.push(Violation::new(ViolationKind::Leak, format!("{} is left", volatile.display())));
    }
    match Rows::damage(data) {
        Ok(None) => {}
        response => violations
            .push(Violation::new(ViolationKind::Lost, format!("the store is damaged: {response:?}"))),
    }
    violations
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
    fn totals_that_agree_give_no_violation() {
        let stats = json!({ "total_created": 4, "total_destroyed": 3, "present": 1 });

        assert_eq!(wrong_totals(&rows(), &stats), []);
    }

    #[test]
    fn each_total_off_by_one_is_a_violation() {
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

            assert!(!wrong_totals(&rows, &stats).is_empty());
        }
        for name in ["total_created", "total_destroyed", "present"] {
            let mut stats = stats.clone();
            stats[name] = json!(7);

            assert_eq!(wrong_totals(&rows(), &stats).len(), 1, "{name}");
        }
    }
}
