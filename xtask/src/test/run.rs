//! One test run: puts builds and stages into the queue, starts what may start, and collects what ended.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, Sender};

use anyhow::{Context, Result, bail};

use super::job::{self, Count, Job, Outcome};
use super::queue::{Lane, Queue};
use super::stages::{BUILDS, STAGES, Stage, What};
use super::summary::Summary;
use super::tally::Tally;
use super::{Options, programs};
use crate::builds::Build;
use crate::cargo;

pub(super) struct Run<'a> {
    options: &'a Options,
    stages: Vec<&'static Stage>,
    queue: Queue<Task>,
    summary: Summary,
    /// For the logs of jobs and a copy of this program. Removed at the end.
    directory: PathBuf,
    started: usize,
    sender: Sender<Ended>,
    receiver: Receiver<Ended>,
}

/// What waits in the queue.
enum Task {
    Build(&'static Build),
    Stage(&'static Stage),
    Job(Box<Job>),
}

struct Ended {
    lane: Lane,
    build: Option<&'static Build>,
    stage: Option<&'static str>,
    name: String,
    outcome: Result<Outcome>,
}

impl<'a> Run<'a> {
    pub(super) fn begin(options: &'a Options) -> Result<Self> {
        let directory =
            cargo::repository_root().join("target/xtask").join(format!("run-{}", std::process::id()));
        fs::create_dir_all(&directory)
            .with_context(|| format!("could not create `{}`", directory.display()))?;
        // The build of the tests replaces this program in cargo's directory.
        fs::copy("/proc/self/exe", directory.join("xtask")).context("could not copy this program")?;
        let (sender, receiver) = mpsc::channel();
        let stages = STAGES.iter().filter(|stage| stage.is_wanted(options)).collect();
        let queue = Queue::new();
        let summary = Summary::default();
        Ok(Self { options, stages, queue, summary, directory, started: 0, sender, receiver })
    }

    pub(super) fn finish(mut self) -> Result<Summary> {
        for build in BUILDS {
            if self.stages.iter().any(|stage| stage.build.is_some_and(|needed| needed.name == build.name)) {
                self.queue.push(Lane::Build, None, Task::Build(build));
            }
        }
        for stage in &self.stages {
            self.queue.push(stage.lane, stage.build.map(|build| build.name), Task::Stage(stage));
        }
        loop {
            while let Some((lane, task)) = self.queue.start_next() {
                self.start(lane, task)?;
            }
            if self.queue.is_idle() {
                break;
            }
            let ended = self.receiver.recv().context("no job reports any more")?;
            self.end(ended);
        }
        if !self.queue.is_empty() {
            bail!("some stages wait for a build that is not made");
        }
        // A directory left under target/ is not worth failing a run for.
        let _ = fs::remove_dir_all(&self.directory);
        Ok(self.summary)
    }

    fn start(&mut self, lane: Lane, task: Task) -> Result<()> {
        match task {
            Task::Build(build) => {
                let (command, messages) = build.command(self.options.all)?;
                let name = format!("build of {}", build.name);
                let job = Job { stage: None, name, command, messages: Some(messages), count: Count::Nothing };
                self.spawn(lane, Some(build), job);
            }
            Task::Stage(stage) => match (stage.what, stage.build) {
                (What::TestPrograms, Some(build)) => {
                    self.queue.end(lane);
                    self.queue_jobs(stage, programs::jobs(stage.name, build, &self.options.filter));
                }
                (What::ServerTestsOnFake, Some(build)) => {
                    self.queue.end(lane);
                    self.queue_jobs(stage, programs::server_on_fake(stage.name, build, &self.options.filter));
                }
                _ => {
                    let job = self.job_of(stage);
                    self.spawn(lane, None, job);
                }
            },
            Task::Job(job) => self.spawn(lane, None, *job),
        }
        Ok(())
    }

    fn queue_jobs(&mut self, stage: &'static Stage, jobs: Result<Vec<(Lane, Job)>>) {
        match jobs {
            Ok(jobs) => {
                jobs.into_iter().for_each(|(lane, job)| self.queue.push(lane, None, Task::Job(Box::new(job))))
            }
            Err(error) => {
                println!("{}: {error:#}", stage.name);
                self.summary.add_failure(stage.name);
            }
        }
    }

    fn job_of(&self, stage: &'static Stage) -> Job {
        let (command, count) = match stage.what {
            What::Cargo(arguments) => (cargo::command(arguments), Count::ExitStatus),
            What::CountedCargo(arguments) => {
                let mut command = cargo::command(arguments);
                command.args(&self.options.filter);
                (command, Count::EveryResult)
            }
            What::Check(_) | What::Counted(_) | What::TestPrograms | What::ServerTestsOnFake => {
                let mut command = Command::new(self.directory.join("xtask"));
                command.args(["stage", stage.name]).current_dir(cargo::repository_root());
                (command, Count::LastLine)
            }
        };
        Job { stage: Some(stage.name), name: stage.name.to_owned(), command, messages: None, count }
    }

    fn spawn(&mut self, lane: Lane, build: Option<&'static Build>, job: Job) {
        self.started += 1;
        let files = job::files(&self.directory, self.started);
        let sender = self.sender.clone();
        println!("-- begins: {}", job.name);
        std::thread::spawn(move || {
            let (stage, name) = (job.stage, job.name.clone());
            let outcome = job.run(lane.niceness(), &files);
            // The receiver lives as long as the run.
            let _ = sender.send(Ended { lane, build, stage, name, outcome });
        });
    }

    fn end(&mut self, ended: Ended) {
        self.queue.end(ended.lane);
        let outcome = match ended.outcome {
            Ok(outcome) => {
                println!("== {} ({:.1} s)", ended.name, outcome.took.as_secs_f32());
                print!("{}", outcome.output);
                Some(outcome)
            }
            Err(error) => {
                println!("== {}\n{error:#}", ended.name);
                None
            }
        };
        if let Some(build) = ended.build {
            self.end_build(build, outcome);
            return;
        }
        let (stage, name) = (ended.stage.unwrap_or_default(), ended.name);
        match outcome {
            Some(outcome) => self.summary.add(stage, &name, &outcome),
            None => self.summary.add_failure(stage),
        }
    }

    fn end_build(&mut self, build: &'static Build, outcome: Option<Outcome>) {
        let mut succeeded = outcome.as_ref().is_some_and(|outcome| outcome.succeeded);
        if let Some(outcome) = &outcome {
            self.summary.add_build(build.name, outcome.took);
        }
        if succeeded && let Err(error) = build.keep_programs() {
            println!("build of {}: {error:#}", build.name);
            succeeded = false;
        }
        if succeeded {
            self.queue.release(build.name);
            return;
        }
        for task in self.queue.cancel(build.name) {
            if let Task::Stage(stage) = task {
                println!("{}: its build failed", stage.name);
                self.summary.add_failure(stage.name);
            }
        }
    }
}

/// Only for a stage without an outcome.
impl Summary {
    fn add_failure(&mut self, stage: &'static str) {
        self.add_tally(stage, Tally::of_one(false));
    }
}
