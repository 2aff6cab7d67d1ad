//! The judgement, in its order: while sandboxes are there, when all were asked to end, and when the server has ended.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pinfold_checker::{
    Answer, Api, Clock, Complaint, Kernel, Patience, Promises, Rows, deadlines_are_kept, keys_hold,
    nothing_is_a_lie, nothing_is_left, nothing_is_lost, nothing_is_stuck, nothing_outlives_the_server,
    sums_are_right, what_is_there_is_wanted,
};

use super::ground::Ground;
use super::leftovers;
use super::server::Server;

const ANSWER: Duration = Duration::from_secs(40);
const END_ALL: Duration = Duration::from_secs(90);
const AFTER_THE_SERVER: Duration = Duration::from_secs(5);

pub(super) struct Judge {
    pub(super) kernel: Kernel,
    pub(super) clock: Clock,
    data: PathBuf,
    /// How long it may take until everything is as it should be.
    settle: Duration,
}

impl Judge {
    /// Of a server that was there already: its store has the name by which its groups are known.
    pub(super) fn of(ground: &Ground, settle: Duration) -> Result<Self> {
        let rows = Rows::read(&ground.data)?;
        // Ourselves, and process 1 of the enclosure.
        let audience = [i32::try_from(std::process::id())?, 1];
        let kernel = Kernel::new(&ground.data, &rows.instance, &audience);
        fs::write(ground.directory.join(leftovers::INSTANCE), &rows.instance)?;
        Ok(Self { kernel, clock: Clock::of(&ground.data)?, data: ground.data.clone(), settle })
    }

    /// The first of these that does not hold in time has to explain itself: what comes later would only follow from it.
    pub(super) fn all(&self, server: Server, promises: &mut Promises) -> Result<Vec<Complaint>> {
        let mut found = self.while_live(&server, promises);
        if found.is_empty() {
            found = self.when_all_ended(&server, promises);
        }
        if !found.is_empty() {
            self.note_threads(server.pid())?;
            return Ok(found);
        }
        let status = server.end()?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(Patience::of(AFTER_THE_SERVER)
            .until_none(|| nothing_outlives_the_server(&self.kernel, &self.data)))
    }

    pub(super) fn while_live(&self, server: &Server, promises: &mut Promises) -> Vec<Complaint> {
        let (api, pid) = (&server.api, server.pid());
        let found = first_of(&[
            &|| self.in_time(|| nothing_is_stuck(&self.data, self.clock)),
            &|| deadlines_are_kept(&self.data, self.clock, Patience::of(self.settle)),
            &|| self.in_time(|| what_is_there_is_wanted(&self.kernel, &self.data, pid)),
            &|| self.in_time(|| nothing_is_a_lie(api, promises)),
        ]);
        if found.is_empty() { keys_hold(api, promises) } else { found }
    }

    pub(super) fn when_all_ended(&self, server: &Server, promises: &mut Promises) -> Vec<Complaint> {
        let (api, pid) = (&server.api, server.pid());
        end_all(api);
        let found = first_of(&[
            &|| self.in_time(|| nothing_is_left(&self.kernel, &self.data, pid)),
            &|| self.in_time(|| sums_are_right(api, &self.data)),
            &|| nothing_is_lost(api, promises),
        ]);
        if found.is_empty() { keys_hold(api, promises) } else { found }
    }

    /// What each thread of the server waits for, beside the round's own log.
    fn note_threads(&self, pid: i32) -> Result<()> {
        let mut told = String::new();
        for task in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
            let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let words = ["comm", "wchan", "syscall"].map(|name| read(name).trim().to_owned());
            told.push_str(&format!("{}: {}\n", task.file_name().display(), words.join(" ")));
        }
        fs::write(self.data.with_file_name("threads"), told).context("could not note the threads")
    }

    fn in_time(&self, look: impl FnMut() -> Vec<Complaint>) -> Vec<Complaint> {
        Patience::of(self.settle).until_none(look)
    }
}

fn first_of(looks: &[&dyn Fn() -> Vec<Complaint>]) -> Vec<Complaint> {
    looks.iter().map(|look| look()).find(|found| !found.is_empty()).unwrap_or_default()
}

/// Whoever is still there is asked to end, until nobody is or there is no more time. What is left then is told by others.
fn end_all(api: &Api) {
    Patience::of(END_ALL).until(|| {
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
    let list =
        api.get("/api/sandbox/list", ANSWER).ok().filter(Answer::is_good).context("the list is not told")?;
    let list = list.json();
    let list = list.as_array().context("the list is none")?;
    Ok(list.iter().filter_map(|sandbox| Some(sandbox["id"].as_str()?.to_owned())).collect())
}
