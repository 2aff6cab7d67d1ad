//! Handlers of the control socket's requests.

use rustix::process::Signal;

use super::{Keeper, now_ms, wall_ms};
use crate::connection::AwaitedEnd;
use crate::disk;
use crate::execution::Execution;
use crate::launch::{LaunchContext, LaunchError, launch_failed};
use crate::probe::{self, PendingProbe};
use crate::usage;
use pinfold_keeper_wire::{
    Ended, EndedBy, Exec, ExecutionStatus, LimitHits, ProbeFailure, RefusalReason, Request, Response,
    TerminalSize,
};
use pinfold_output_log::{LogWriter, OutputStream, RingSize};

impl Keeper {
    /// Handles a request. None: it is answered later.
    pub(super) fn respond(&mut self, connection: usize, request: Request) -> Option<Response> {
        Some(match request {
            Request::Confirm => self.confirm(),
            Request::Ping { nonce } => Response::Pong {
                nonce,
                secret: self.init.secret.clone(),
                confirmed: self.confirmed,
                missing: probe::check_mounts(&self.init.shared).err(),
            },
            Request::Probe { nonce, within_ms } => return self.probe(connection, nonce, within_ms),
            Request::Exec(exec) => self.exec(&exec),
            Request::Kill { execution } => self.kill(&execution),
            Request::Signal { execution, signal } => self.signal(&execution, signal),
            Request::WriteInput { execution, at, bytes, close } => {
                self.write_input(&execution, at, &bytes, close)
            }
            Request::Resize { execution, size } => self.resize(&execution, size),
            Request::List => Response::Executions(self.list()),
            Request::Activity => self.activity(),
            Request::Usage => Response::Usage {
                disk: disk::measure().ok(),
                process_usage: self.sums_usage().then(usage::measure),
            },
            Request::Wait { execution } => match self.ended.get(&execution) {
                Some(ended) => Response::Ended(*ended),
                None if self.running.contains_key(&execution) => {
                    self.connections[connection].waits_for = Some(AwaitedEnd::Execution(execution));
                    return None;
                }
                None => self.unknown(&execution),
            },
            Request::KeepAlive { left_ms } => {
                self.ends_at_ms = now_ms().saturating_add_unsigned(left_ms);
                Response::Done
            }
            Request::Files(_) => {
                refuse(RefusalReason::Failed, "file requests are served by a child of the keeper")
            }
            Request::Terminate => {
                self.running.values().for_each(|execution| {
                    execution.signal(Signal::TERM);
                });
                Response::Done
            }
        })
    }

    fn confirm(&mut self) -> Response {
        match &self.init.setup_result {
            Err(why) => refuse(RefusalReason::Failed, why),
            Ok(()) => {
                if !self.confirmed {
                    self.confirmed = true;
                    self.ends_at_ms = now_ms().saturating_add_unsigned(self.init.lifetime_ms);
                }
                Response::Done
            }
        }
    }

    fn exec(&mut self, exec: &Exec) -> Response {
        let id = &exec.execution;
        // A repeated request gets the same answer: the first one may have been lost.
        if let Some((reason, why)) = self.refused_ids.get(id) {
            return refuse(*reason, why);
        }
        if !self.confirmed {
            return self.refuse_permanently(id, RefusalReason::NotConfirmed, "the launch was not confirmed");
        }
        if self.running.contains_key(id) || self.ended.contains_key(id) {
            return Response::Done;
        }
        if !self.has_operation_left() {
            return self.refuse_for_operations(exec);
        }
        match self.start(exec) {
            Ok(execution) => {
                self.count_operation();
                self.running.insert(id.clone(), execution);
                Response::Done
            }
            Err(LaunchError { reason: RefusalReason::NotFound, why, .. }) => {
                self.end_like_a_shell(exec, 127, &why)
            }
            Err(LaunchError { reason: RefusalReason::NotExecutable, why, .. }) => {
                self.end_like_a_shell(exec, 126, &why)
            }
            Err(LaunchError { reason, why, .. }) => self.refuse_permanently(id, reason, &why),
        }
    }

    fn refuse_permanently(&mut self, id: &str, reason: RefusalReason, why: &str) -> Response {
        self.refused_ids.insert(id.to_owned(), (reason, why.to_owned()));
        refuse(reason, why)
    }

    fn start(&mut self, exec: &Exec) -> Result<Execution, LaunchError> {
        let log = self.log_of(exec)?;
        self.disk.check_before_start(now_ms());
        let devices = self.devices.as_ref().ok_or_else(|| launch_failed("the sandbox setup failed"))?;
        let given = (devices, &self.init.workload.counters, self.init.limits);
        Execution::start(exec, log, self.launch_context(), given, now_ms()).map_err(|(error, left)| {
            self.dying_trees.extend(left);
            error
        })
    }

    fn launch_context(&self) -> LaunchContext<'_> {
        LaunchContext {
            workload: self.init.workload.directory.as_ref(),
            cgroups_to_join: &self.init.workload_cgroups,
            confinement: &self.confinement,
        }
    }

    /// A missing command is reported like a shell does: the execution ends with code 126 or 127.
    fn end_like_a_shell(&mut self, exec: &Exec, code: i32, why: &str) -> Response {
        let ended =
            Ended { by: EndedBy::Itself, code: Some(code), signal: None, limit_hits: LimitHits::NOTHING };
        self.record_unstarted(exec, ended, why)
    }

    pub(super) fn record_unstarted(&mut self, exec: &Exec, ended: Ended, why: &str) -> Response {
        self.count_operation();
        if let Ok(mut log) = self.log_of(exec) {
            // If the message cannot be written, the exit code still shows the failure.
            let _ = log.append(OutputStream::Stderr, wall_ms(), format!("pinfold: {why}\n").as_bytes());
            self.operations += log.chunks();
        }
        self.ended.insert(exec.execution.clone(), ended);
        Response::Done
    }

    /// Opens the log. Ids become names of files and cgroups, so they must not contain path separators.
    fn log_of(&self, exec: &Exec) -> Result<LogWriter, LaunchError> {
        let id = &exec.execution;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if id.is_empty() || !id.bytes().all(is_plain) {
            return Err(launch_failed("the execution id must be letters, digits and `_`"));
        }
        Ok(LogWriter::begin(self.init.output.try_clone()?, id, ring(), exec.output)?)
    }

    /// Whether usage is summed over processes. Slow with many processes, so only where cgroups do not count it.
    fn sums_usage(&self) -> bool {
        self.init.workload.directory.is_none() || self.init.workload.counters.memory.is_none()
    }

    fn kill(&mut self, id: &str) -> Response {
        let killed = || (RefusalReason::WasKilled, "the execution was killed before".to_owned());
        self.refused_ids.entry(id.to_owned()).or_insert_with(killed);
        if let Some(execution) = self.running.get_mut(id) {
            execution.end(EndedBy::Kill);
        }
        Response::Done
    }

    fn signal(&self, id: &str, number: i32) -> Response {
        let Some(execution) = self.running.get(id) else { return self.unknown(id) };
        match Signal::from_named_raw(number) {
            None => refuse(RefusalReason::NoSuchSignal, &format!("{number} is not a signal number")),
            Some(signal) if execution.signal(signal) => Response::Done,
            Some(_) => refuse(RefusalReason::NotRunning, "the first process of the execution has exited"),
        }
    }

    fn write_input(&mut self, id: &str, at: u64, bytes: &[u8], close: bool) -> Response {
        if !self.running.contains_key(id) {
            return self.unknown(id);
        }
        let execution = self.running.get_mut(id);
        match execution.and_then(|execution| execution.input.as_mut()) {
            Some(input) => {
                let accepted = input.accept(at, bytes, close);
                Response::InputAccepted { accepted, closed: input.is_closed() }
            }
            None => refuse(RefusalReason::NotAttached, "the execution was started without an input"),
        }
    }

    fn resize(&self, id: &str, size: TerminalSize) -> Response {
        let Some(execution) = self.running.get(id) else { return self.unknown(id) };
        match execution.resize(size) {
            Some(Ok(())) => Response::Done,
            Some(Err(error)) => refuse(RefusalReason::Failed, &error.to_string()),
            None => refuse(RefusalReason::NotAttached, "the execution was started without a terminal"),
        }
    }

    fn unknown(&self, id: &str) -> Response {
        if self.ended.contains_key(id) {
            refuse(RefusalReason::NotRunning, "the execution has ended")
        } else {
            refuse(RefusalReason::NoSuchExecution, "the execution was never started in this sandbox")
        }
    }

    fn list(&self) -> Vec<ExecutionStatus> {
        let now = now_ms();
        let running = self.running.values().map(|execution| ExecutionStatus {
            execution: execution.id.clone(),
            idle_ms: u64::try_from(now - execution.last_output_ms).unwrap_or(0),
            ended: None,
        });
        let ended = self.ended.iter().map(|(id, ended)| ExecutionStatus {
            execution: id.clone(),
            idle_ms: 0,
            ended: Some(*ended),
        });
        running.chain(ended).collect()
    }

    fn count_operation(&mut self) {
        self.operations += 1;
        self.last_busy_ms = now_ms();
    }

    fn activity(&self) -> Response {
        let quiet_ms = u64::try_from(now_ms() - self.last_busy_ms).unwrap_or(0);
        Response::Activity { operations: self.total_operations(), idle_ms: quiet_ms }
    }

    fn probe(&mut self, connection: usize, nonce: String, within_ms: u64) -> Option<Response> {
        self.probes += 1;
        let ready = match &self.devices {
            None => Err(ProbeFailure::Files("the sandbox setup failed".into())),
            Some(devices) => probe::check_files(&self.init.shared).map(|()| devices),
        };
        let (started, tree) = match ready {
            Ok(devices) => probe::start_program(self.launch_context(), self.probes, devices),
            Err(failed) => (Err(failed), None),
        };
        match started {
            Err(failed) => {
                self.dying_trees.extend(tree);
                Some(self.probe_response(nonce, Some(failed)))
            }
            Ok(pid) => {
                let ends_at_ms = now_ms().saturating_add_unsigned(within_ms);
                self.connections[connection].waits_for = Some(AwaitedEnd::Probe(pid));
                self.pending_probes.push(PendingProbe { pid, nonce, ends_at_ms, tree });
                None
            }
        }
    }

    pub(super) fn probe_response(&self, nonce: String, failed: Option<ProbeFailure>) -> Response {
        Response::Probed { nonce, secret: self.init.secret.clone(), confirmed: self.confirmed, failed }
    }
}

fn ring() -> RingSize {
    #[cfg(feature = "weakened")]
    if crate::disabled_guards::is_disabled(&pinfold_keeper_wire::DisabledGuard::UnlimitedOutput) {
        return RingSize { segments: 128, ..RingSize::DEFAULT };
    }
    RingSize::DEFAULT
}

fn refuse(reason: RefusalReason, why: &str) -> Response {
    Response::Refused { reason, why: why.to_owned() }
}
