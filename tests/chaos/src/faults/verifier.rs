//! Runs the checks in order: while sandboxes exist, after all were asked to end, and after the server has exited.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pinfold_checker::{
    Answer, Api, Clock, Deadline, Kernel, Promises, Rows, Violation, check_deadlines, check_idempotency_keys,
    check_nothing_left, check_nothing_lost, check_nothing_outlives_server, check_nothing_stuck,
    check_resources_match_rows, check_status_is_true, check_totals,
};

use super::fixture::Fixture;
use super::leftovers;
use super::server::Server;

const ANSWER: Duration = Duration::from_secs(40);
const END_ALL: Duration = Duration::from_secs(90);
const AFTER_THE_SERVER: Duration = Duration::from_secs(5);

pub(super) struct Verifier {
    pub(super) kernel: Kernel,
    pub(super) clock: Clock,
    data: PathBuf,
    /// How long the system may take to settle.
    settle: Duration,
}

impl Verifier {
    /// For a server that has run: its store has the id in its cgroups' names.
    pub(super) fn of(fixture: &Fixture, settle: Duration) -> Result<Self> {
        let rows = Rows::read(&fixture.data)?;
        // This process, and process 1 of the pid namespace.
        let audience = [i32::try_from(std::process::id())?, 1];
        let kernel = Kernel::new(&fixture.data, &rows.instance, &audience);
        fs::write(fixture.directory.join(leftovers::INSTANCE), &rows.instance)?;
        Ok(Self { kernel, clock: Clock::of(&fixture.data)?, data: fixture.data.clone(), settle })
    }

    /// Returns the first group of violations: later ones would only follow from it.
    pub(super) fn all(&self, server: Server, promises: &mut Promises) -> Result<Vec<Violation>> {
        let mut violations = self.while_live(&server, promises);
        if violations.is_empty() {
            violations = self.when_all_ended(&server, promises);
        }
        if !violations.is_empty() {
            self.note_threads(server.pid())?;
            return Ok(violations);
        }
        let status = server.end()?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(Deadline::after(AFTER_THE_SERVER)
            .poll_until_empty(|| check_nothing_outlives_server(&self.kernel, &self.data)))
    }

    pub(super) fn while_live(&self, server: &Server, promises: &mut Promises) -> Vec<Violation> {
        let (api, pid) = (&server.api, server.pid());
        let violations = first_of(&[
            &|| self.in_time(|| check_nothing_stuck(&self.data, self.clock)),
            &|| check_deadlines(&self.data, self.clock, Deadline::after(self.settle)),
            &|| self.in_time(|| check_resources_match_rows(&self.kernel, &self.data, pid)),
            &|| self.in_time(|| check_status_is_true(api, promises)),
        ]);
        if violations.is_empty() { check_idempotency_keys(api, promises) } else { violations }
    }

    pub(super) fn when_all_ended(&self, server: &Server, promises: &mut Promises) -> Vec<Violation> {
        let (api, pid) = (&server.api, server.pid());
        end_all(api);
        let violations = first_of(&[
            &|| self.in_time(|| check_nothing_left(&self.kernel, &self.data, pid)),
            &|| self.in_time(|| check_totals(api, &self.data)),
            &|| check_nothing_lost(api, promises),
        ]);
        if violations.is_empty() { check_idempotency_keys(api, promises) } else { violations }
    }

    /// Writes what each thread of the server waits for beside the round's log.
    fn note_threads(&self, pid: i32) -> Result<()> {
        let mut report = String::new();
        for task in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
            let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let fields = ["comm", "wchan", "syscall"].map(|name| read(name).trim().to_owned());
            report.push_str(&format!("{}: {}\n", task.file_name().display(), fields.join(" ")));
        }
        fs::write(self.data.with_file_name("threads"), report).context("could not note the threads")
    }

    fn in_time(&self, check: impl FnMut() -> Vec<Violation>) -> Vec<Violation> {
        Deadline::after(self.settle).poll_until_empty(check)
    }
}

fn first_of(checks: &[&dyn Fn() -> Vec<Violation>]) -> Vec<Violation> {
    checks.iter().map(|check| check()).find(|violations| !violations.is_empty()).unwrap_or_default()
}

/// Deletes all listed sandboxes until none is left or the time is up. The checks report what is left.
fn end_all(api: &Api) {
    Deadline::after(END_ALL).poll(|| {
        let ids = listed(api).ok()?;
        if ids.is_empty() {
            return Some(());
        }
        std::thread::scope(|scope| {
            for id in &ids {
                scope.spawn(move || api.delete(&format!("/api/sandbox/{id}?wait=30"), ANSWER));
            }
        });
        None
    });
}

fn listed(api: &Api) -> Result<Vec<String>> {
    let list = api
        .get("/api/sandbox/list", ANSWER)
        .ok()
        .filter(Answer::is_good)
        .context("could not list sandboxes")?;
    let list = list.json();
    let list = list.as_array().context("the list of sandboxes is no JSON array")?;
    Ok(list.iter().filter_map(|sandbox| Some(sandbox["id"].as_str()?.to_owned())).collect())
}
