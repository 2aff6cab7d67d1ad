//! What a keeper answers to each request.

use rustix::process::Signal;

use super::{Keeper, now_ms, wall_ms};
use crate::disk::Disk;
use crate::execution::Execution;
use crate::log::{Ring, Stream, Writer};
use crate::peers::Awaited;
use crate::plan::{NotStarted, Place, refused};
use crate::probe::{self, Probing};
use crate::used::Counted;
use crate::wire::{
    self, Ended, EndedBy, Exec, ProbeFailed, Reason, Request, Response, Survived, TerminalSize,
};

impl Keeper {
    /// The answer, or none yet.
    pub(super) fn respond(&mut self, peer: usize, request: Request) -> Option<Response> {
        Some(match request {
            Request::Go => self.go(),
            Request::Ping { nonce } => Response::Pong {
                nonce,
                secret: self.inheritance.secret.clone(),
                wanted: self.wanted,
                missing: probe::mounts(&self.inheritance.shared).err(),
            },
            Request::Probe { nonce, within_ms } => return self.probe(peer, nonce, within_ms),
            Request::Exec(exec) => self.exec(&exec),
            Request::Kill { execution } => self.kill(&execution),
            Request::Signal { execution, signal } => self.signal(&execution, signal),
            Request::Feed { execution, at, bytes, close } => self.feed(&execution, at, &bytes, close),
            Request::Resize { execution, size } => self.resize(&execution, size),
            Request::List => Response::Executions(self.list()),
            Request::Activity => self.activity(),
            Request::Usage => {
                Response::Usage { disk: Disk::look().ok(), counted: self.counts().then(Counted::look) }
            }
            Request::Wait { execution } => match self.ended.get(&execution) {
                Some(ended) => Response::Ended(*ended),
                None if self.running.contains_key(&execution) => {
                    self.peers[peer].waits_for = Some(Awaited::Execution(execution));
                    return None;
                }
                None => self.unknown(&execution),
            },
            Request::KeepAlive { left_ms } => {
                self.ends_at_ms = now_ms().saturating_add_unsigned(left_ms);
                Response::Done
            }
            Request::Files(_) => refuse(Reason::Failed, "it is not for the keeper itself"),
            Request::Terminate => {
                self.running.values().for_each(|execution| {
                    execution.signal(Signal::TERM);
                });
                Response::Done
            }
        })
    }

    fn go(&mut self) -> Response {
        match &self.inheritance.built {
            Err(why) => refuse(Reason::Failed, why),
            Ok(()) => {
                if !self.wanted {
                    self.wanted = true;
                    self.ends_at_ms = now_ms().saturating_add_unsigned(self.inheritance.left_ms);
                }
                Response::Done
            }
        }
    }

    fn exec(&mut self, exec: &Exec) -> Response {
        let id = &exec.execution;
        // Whoever asks again may not have heard the answer, and is to hear the same.
        if let Some((reason, why)) = self.void.get(id) {
            return refuse(*reason, why);
        }
        if !self.wanted {
            return self.refuse_for_ever(id, Reason::NotYet, "it was not told to go");
        }
        if self.running.contains_key(id) || self.ended.contains_key(id) {
            return Response::Done;
        }
        if !self.may_do_one_more() {
            return self.ended_for_operations(exec);
        }
        match self.start(exec) {
            Ok(execution) => {
                self.count_one();
                self.running.insert(id.clone(), execution);
                Response::Done
            }
            Err(NotStarted { reason: Reason::NotFound, why, .. }) => {
                self.ended_as_a_shell_would(exec, 127, &why)
            }
            Err(NotStarted { reason: Reason::NotExecutable, why, .. }) => {
                self.ended_as_a_shell_would(exec, 126, &why)
            }
            Err(NotStarted { reason, why, .. }) => self.refuse_for_ever(id, reason, &why),
        }
    }

    fn refuse_for_ever(&mut self, id: &str, reason: Reason, why: &str) -> Response {
        self.void.insert(id.to_owned(), (reason, why.to_owned()));
        refuse(reason, why)
    }

    fn start(&mut self, exec: &Exec) -> Result<Execution, NotStarted> {
        let log = self.log_of(exec)?;
        let devices = self.devices.as_ref().ok_or_else(|| refused("there is no world"))?;
        let given = (devices, &self.inheritance.work.counters, self.inheritance.limits);
        Execution::start(exec, log, self.place(), given, now_ms()).map_err(|(error, left)| {
            self.leaving.extend(left);
            error
        })
    }

    fn place(&self) -> Place<'_> {
        Place {
            work: self.inheritance.work.directory.as_ref(),
            joined: &self.inheritance.work_groups,
            confinement: &self.confinement,
        }
    }

    /// A command that is not there is the command's own failure: it ends with the code that says so.
    fn ended_as_a_shell_would(&mut self, exec: &Exec, code: i32, why: &str) -> Response {
        let ended =
            Ended { by: EndedBy::Itself, code: Some(code), signal: None, survived: Survived::NOTHING };
        self.ended_before_it_began(exec, ended, why)
    }

    pub(super) fn ended_before_it_began(&mut self, exec: &Exec, ended: Ended, why: &str) -> Response {
        self.count_one();
        if let Ok(mut log) = self.log_of(exec) {
            // What cannot be said is still told by how it ended.
            let _ = log.append(Stream::Stderr, wall_ms(), format!("pinfold: {why}\n").as_bytes());
            self.operations += log.pieces();
        }
        self.ended.insert(exec.execution.clone(), ended);
        Response::Done
    }

    /// Ids are names of files and groups, and no paths.
    fn log_of(&self, exec: &Exec) -> Result<Writer, NotStarted> {
        let id = &exec.execution;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if id.is_empty() || !id.bytes().all(is_plain) {
            return Err(refused("its id is not a plain name"));
        }
        Ok(Writer::begin(self.inheritance.output.try_clone()?, id, ring(), exec.output)?)
    }

    /// Counting processes one by one takes long where there are many, and groups know better.
    fn counts(&self) -> bool {
        self.inheritance.work.directory.is_none() || self.inheritance.work.counters.memory.is_none()
    }

    fn kill(&mut self, id: &str) -> Response {
        let killed = || (Reason::WasKilled, "it was killed before".to_owned());
        self.void.entry(id.to_owned()).or_insert_with(killed);
        if let Some(execution) = self.running.get_mut(id) {
            execution.end(EndedBy::Kill);
        }
        Response::Done
    }

    fn signal(&self, id: &str, number: i32) -> Response {
        let Some(execution) = self.running.get(id) else { return self.unknown(id) };
        match Signal::from_named_raw(number) {
            None => refuse(Reason::NoSuchSignal, &format!("{number} is no signal")),
            Some(signal) if execution.signal(signal) => Response::Done,
            Some(_) => refuse(Reason::NotRunning, "its first process has ended"),
        }
    }

    fn feed(&mut self, id: &str, at: u64, bytes: &[u8], close: bool) -> Response {
        if !self.running.contains_key(id) {
            return self.unknown(id);
        }
        let execution = self.running.get_mut(id);
        match execution.and_then(|execution| execution.input.as_mut()) {
            Some(input) => {
                let accepted = input.feed(at, bytes, close);
                Response::Fed { accepted, closed: input.is_closed() }
            }
            None => refuse(Reason::NotSoStarted, "it was started without an input"),
        }
    }

    fn resize(&self, id: &str, size: TerminalSize) -> Response {
        let Some(execution) = self.running.get(id) else { return self.unknown(id) };
        match execution.resize(size) {
            Some(Ok(())) => Response::Done,
            Some(Err(error)) => refuse(Reason::Failed, &error.to_string()),
            None => refuse(Reason::NotSoStarted, "it was started without a terminal"),
        }
    }

    fn unknown(&self, id: &str) -> Response {
        if self.ended.contains_key(id) {
            refuse(Reason::NotRunning, "it has ended")
        } else {
            refuse(Reason::NoSuchExecution, "it was never started here")
        }
    }

    fn list(&self) -> Vec<wire::Execution> {
        let now = now_ms();
        let running = self.running.values().map(|execution| wire::Execution {
            execution: execution.id.clone(),
            quiet_ms: u64::try_from(now - execution.last_output_ms).unwrap_or(0),
            ended: None,
        });
        let ended = self.ended.iter().map(|(id, ended)| wire::Execution {
            execution: id.clone(),
            quiet_ms: 0,
            ended: Some(*ended),
        });
        running.chain(ended).collect()
    }

    fn count_one(&mut self) {
        self.operations += 1;
        self.last_busy_ms = now_ms();
    }

    fn activity(&self) -> Response {
        let quiet_ms = u64::try_from(now_ms() - self.last_busy_ms).unwrap_or(0);
        Response::Activity { operations: self.all_operations(), quiet_ms }
    }

    fn probe(&mut self, peer: usize, nonce: String, within_ms: u64) -> Option<Response> {
        self.probes += 1;
        let ready = match &self.devices {
            None => Err(ProbeFailed::Files("there is no world".into())),
            Some(devices) => probe::places_and_files(&self.inheritance.shared).map(|()| devices),
        };
        let (begun, tree) = match ready {
            Ok(devices) => probe::program(self.place(), self.probes, devices),
            Err(failed) => (Err(failed), None),
        };
        match begun {
            Err(failed) => {
                self.leaving.extend(tree);
                Some(self.probed(nonce, Some(failed)))
            }
            Ok(pid) => {
                let ends_at_ms = now_ms().saturating_add_unsigned(within_ms);
                self.peers[peer].waits_for = Some(Awaited::Probe(pid));
                self.probing.push(Probing { pid, nonce, ends_at_ms, tree });
                None
            }
        }
    }

    pub(super) fn probed(&self, nonce: String, failed: Option<ProbeFailed>) -> Response {
        Response::Probed { nonce, secret: self.inheritance.secret.clone(), wanted: self.wanted, failed }
    }
}

fn ring() -> Ring {
    #[cfg(feature = "weakened")]
    if crate::weakness::has(&crate::weakness::Weakness::OutputWithoutEnd) {
        return Ring { segments: 128, ..Ring::DEFAULT };
    }
    Ring::DEFAULT
}

fn refuse(reason: Reason, why: &str) -> Response {
    Response::Refused { reason, why: why.to_owned() }
}
