//! The keeper at work: one loop over its control socket, the outputs of what runs, ended children and deadlines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::process::{WaitOptions, wait};
use rustix::time::{ClockId, clock_gettime};

use crate::confine::{Confinement, Profile};
use crate::execution::{Execution, NotStarted};
use crate::kernel;
use crate::log::{Stream, Writer};
use crate::peers::Peer;
use crate::wire::{self, Ended, EndedBy, Exec, Reason, Request, Response};

/// What a keeper is born with.
pub(crate) struct Inheritance {
    pub(crate) listener: UnixListener,
    pub(crate) output: OwnedFd,
    pub(crate) work_groups: Vec<OwnedFd>,
    pub(crate) secret: String,
    pub(crate) left_ms: u64,
    /// Becomes readable when whoever this sandbox belongs to is gone.
    pub(crate) caller: Option<OwnedFd>,
    /// Whether its world could be built, or why not.
    pub(crate) built: Result<(), String>,
}

/// How long it waits to be told that it is wanted.
const BIRTH_MS: i64 = 10_000;

struct Keeper {
    inheritance: Inheritance,
    /// For what it runs.
    confinement: Confinement,
    signals: OwnedFd,
    wanted: bool,
    ends_at_ms: i64,
    running: BTreeMap<String, Execution>,
    ended: BTreeMap<String, Ended>,
    /// Ids that will never be started here: killed, or refused once.
    void: BTreeSet<String>,
    peers: Vec<Peer>,
    /// Children have ended that were not reaped in their turn.
    more_have_ended: bool,
}

/// Serves until the end of its time. When process 1 ends, the kernel ends everything else inside.
pub(crate) fn run(inheritance: Inheritance) -> io::Result<()> {
    let now = now_ms();
    inheritance.listener.set_nonblocking(true)?;
    let profile = Profile::default();
    #[cfg(feature = "weakened")]
    let profile = crate::weakness::profile(profile);
    let mut confinement = Confinement::prepare(&profile).map_err(io::Error::other)?;
    // Code inside has the same ids: from here on it cannot look into this process or reach for what it holds.
    confinement.apply_to_keeper().map_err(io::Error::other)?;
    #[cfg(feature = "weakened")]
    crate::weakness::uncover_keeper()?;
    let mut keeper = Keeper {
        confinement,
        signals: kernel::signals_as_descriptor(&[libc::SIGCHLD])?,
        wanted: false,
        ends_at_ms: now.saturating_add(BIRTH_MS),
        inheritance,
        running: BTreeMap::new(),
        ended: BTreeMap::new(),
        void: BTreeSet::new(),
        peers: Vec::new(),
        more_have_ended: false,
    };
    while now_ms() < keeper.ends_at_ms {
        keeper.turn()?;
    }
    Ok(())
}

/// How many children are reaped before everything else has its turn: what runs inside can make them without end.
const REAPED_AT_ONCE: usize = 64;

/// The kernel's counter: no change of the clock makes a sandbox live longer.
fn now_ms() -> i64 {
    milliseconds(ClockId::Boottime)
}

fn milliseconds(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
}

/// What woke the keeper up.
enum Woken {
    Signal,
    Visitor,
    CallerGone,
    Peer(usize),
    Output(String, usize),
}

impl Keeper {
    fn turn(&mut self) -> io::Result<()> {
        // From the back, so that what is removed does not move what is still to come.
        for woken in self.sleep()?.into_iter().rev() {
            match woken {
                Woken::Signal => self.reap(),
                Woken::Visitor => self.welcome(),
                // Process 1 ends, and with it everything inside.
                Woken::CallerGone => self.ends_at_ms = now_ms(),
                Woken::Peer(index) => self.listen(index),
                Woken::Output(id, index) => self.drain(&id, index),
            }
        }
        if self.more_have_ended {
            self.reap();
        }
        self.enforce_deadlines();
        self.settle_ended();
        Ok(())
    }

    fn sleep(&self) -> io::Result<Vec<Woken>> {
        let mut sources = vec![Woken::Signal, Woken::Visitor];
        let mut descriptors = vec![
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::new(&self.inheritance.listener, PollFlags::IN),
        ];
        if let Some(caller) = &self.inheritance.caller {
            sources.push(Woken::CallerGone);
            descriptors.push(PollFd::new(caller, PollFlags::IN));
        }
        for (index, peer) in self.peers.iter().enumerate() {
            sources.push(Woken::Peer(index));
            descriptors.push(PollFd::new(&peer.stream, PollFlags::IN));
        }
        for execution in self.running.values() {
            for (index, (_, pipe)) in execution.outputs.iter().enumerate() {
                sources.push(Woken::Output(execution.id.clone(), index));
                descriptors.push(PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN));
            }
        }
        let deadlines = self.running.values().filter_map(Execution::next_deadline);
        let next = deadlines.chain([self.ends_at_ms]).min().unwrap_or(self.ends_at_ms);
        let left = if self.more_have_ended { 0 } else { next.saturating_sub(now_ms()).max(0) };
        let timeout = Timespec { tv_sec: left / 1_000, tv_nsec: (left % 1_000) * 1_000_000 };
        match poll(&mut descriptors, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<_> = descriptors.iter().map(|descriptor| !descriptor.revents().is_empty()).collect();
        Ok(sources.into_iter().zip(ready).filter_map(|(source, ready)| ready.then_some(source)).collect())
    }

    /// Ended children, ours and those whose parents have left them to process 1.
    fn reap(&mut self) {
        let mut told = [0; 128];
        let _ = rustix::io::read(&self.signals, &mut told);
        for _ in 0..REAPED_AT_ONCE {
            let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) else {
                self.more_have_ended = false;
                return;
            };
            for execution in self.running.values_mut() {
                if execution.reaped(pid, status) {
                    break;
                }
            }
        }
        self.more_have_ended = true;
    }

    fn welcome(&mut self) {
        while let Ok((stream, _)) = self.inheritance.listener.accept() {
            if let Ok(peer) = Peer::new(stream) {
                self.peers.push(peer);
            }
        }
    }

    fn listen(&mut self, index: usize) {
        let Ok(requests) = self.peers[index].read() else {
            self.peers.remove(index);
            return;
        };
        for request in requests {
            let response = self.respond(index, request);
            if let Some(response) = response
                && self.peers[index].answer(&response).is_err()
            {
                self.peers.remove(index);
                return;
            }
        }
    }

    /// The answer, or none yet.
    fn respond(&mut self, peer: usize, request: Request) -> Option<Response> {
        Some(match request {
            Request::Go => self.go(),
            Request::Ping { nonce } => {
                Response::Pong { nonce, secret: self.inheritance.secret.clone(), wanted: self.wanted }
            }
            Request::Exec(exec) => self.exec(&exec),
            Request::Kill { execution } => self.kill(&execution),
            Request::List => Response::Executions(self.list()),
            Request::Wait { execution } => match self.ended.get(&execution) {
                Some(ended) => Response::Ended(*ended),
                None if self.running.contains_key(&execution) => {
                    self.peers[peer].waits_for = Some(execution);
                    return None;
                }
                None => refuse(Reason::NoSuchExecution, "it was never started here"),
            },
            Request::Probe { path } => probe_files(&path),
            Request::KeepAlive { left_ms } => {
                self.ends_at_ms = now_ms().saturating_add_unsigned(left_ms);
                Response::Done
            }
            Request::Terminate => {
                self.running.values().for_each(Execution::terminate);
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
        if !self.wanted {
            return refuse(Reason::NotYet, "it was not told to go");
        }
        if self.void.contains(id) {
            return refuse(Reason::WasKilled, "it was killed or refused before");
        }
        if self.running.contains_key(id) || self.ended.contains_key(id) {
            return Response::Done;
        }
        let started = self.log_of(id).map_err(NotStarted::from).and_then(|log| self.start(exec, log));
        match started {
            Ok(execution) => {
                self.running.insert(id.clone(), execution);
                Response::Done
            }
            Err(NotStarted { reason: Reason::NotFound, why }) => self.ended_as_a_shell_would(id, 127, &why),
            Err(NotStarted { reason: Reason::NotExecutable, why }) => {
                self.ended_as_a_shell_would(id, 126, &why)
            }
            Err(NotStarted { reason, why }) => {
                self.void.insert(id.clone());
                refuse(reason, &why)
            }
        }
    }

    /// A command that is not there is the command's own failure: it ends with the code that says so.
    fn ended_as_a_shell_would(&mut self, id: &str, code: i32, why: &str) -> Response {
        if let Ok(log) = self.log_of(id) {
            let said = format!("pinfold: {why}\n");
            // What cannot be said is still told by the code.
            let _ = Writer::new(log).append(Stream::Stderr, milliseconds(ClockId::Realtime), said.as_bytes());
        }
        self.ended.insert(id.to_owned(), Ended { by: EndedBy::Itself, code: Some(code), signal: None });
        Response::Done
    }

    fn start(&self, exec: &Exec, log: File) -> Result<Execution, NotStarted> {
        Execution::start(exec, log, &self.inheritance.work_groups, &self.confinement, now_ms())
    }

    fn log_of(&self, id: &str) -> io::Result<File> {
        if !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = OFlags::CREATE | OFlags::APPEND | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(&self.inheritance.output, format!("{id}.log"), flags, Mode::RUSR | Mode::WUSR)?;
        Ok(file.into())
    }

    fn kill(&mut self, id: &str) -> Response {
        self.void.insert(id.to_owned());
        if let Some(execution) = self.running.get_mut(id) {
            execution.end(EndedBy::Kill);
        }
        Response::Done
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

    fn drain(&mut self, id: &str, index: usize) {
        if let Some(execution) = self.running.get_mut(id)
            && execution.drain(index, now_ms(), milliseconds(ClockId::Realtime)).is_err()
        {
            // Output that cannot be kept is not lost in silence: the execution ends with it.
            execution.end(EndedBy::OutputLimit);
            execution.outputs.clear();
        }
    }

    fn enforce_deadlines(&mut self) {
        let now = now_ms();
        for execution in self.running.values_mut() {
            if let Some(by) = execution.is_overdue(now) {
                execution.end(by);
            }
        }
    }

    fn settle_ended(&mut self) {
        let over: Vec<_> = self.running.values().filter_map(|e| Some((e.id.clone(), e.ended()?))).collect();
        for (id, ended) in over {
            self.running.remove(&id);
            self.peers.retain_mut(|peer| {
                if peer.waits_for.as_ref() != Some(&id) {
                    return true;
                }
                peer.waits_for = None;
                peer.answer(&Response::Ended(ended)).is_ok()
            });
            self.ended.insert(id, ended);
        }
    }
}

fn refuse(reason: Reason, why: &str) -> Response {
    Response::Refused { reason, why: why.to_owned() }
}

/// A real round trip through a real file, where work is done. The file is new, and no link is followed: what runs
/// inside may have put anything in its place, and must not lead the keeper astray or make it wait.
fn probe_files(path: &str) -> Response {
    let round_trip = || -> io::Result<()> {
        let mut file = File::from(make_anew(path)?);
        file.write_all(b"pinfold")?;
        let mut read = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.read_to_end(&mut read)?;
        std::fs::remove_file(path)?;
        if read == b"pinfold" { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    };
    match round_trip() {
        Ok(()) => Response::Done,
        Err(error) => refuse(Reason::Failed, &format!("`{path}`: {error}")),
    }
}

fn make_anew(path: &str) -> io::Result<OwnedFd> {
    let (mode, flags) = (Mode::RUSR | Mode::WUSR, OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC);
    #[cfg(feature = "weakened")]
    if crate::weakness::has(&crate::weakness::Weakness::ProbeFollowsAnything) {
        return Ok(openat(CWD, path, (flags - OFlags::RDWR) | OFlags::WRONLY, mode)?);
    }
    Ok(openat2(CWD, path, flags | OFlags::EXCL | OFlags::NONBLOCK, mode, ResolveFlags::NO_SYMLINKS)?)
}
