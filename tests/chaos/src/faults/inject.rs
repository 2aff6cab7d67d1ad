//! How each fault is injected: in the middle of the load, and within the round's own directories and cgroups.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pinfold_checker::{Deadline, Instance, Rows};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use super::fault::Fault;
use super::fixture::remove_cgroups;
use super::injection::Injection;
use super::round::Round;
use crate::failpoint_server::failpoints::{Call, CrashAt, Failpoint, Side};

/// How long the load may take to reach a failpoint, and an instance to appear. Under load that takes moments.
const REACHED: Duration = Duration::from_secs(20);

impl Round<'_> {
    pub(super) fn inject(&mut self) -> Result<Injection> {
        match self.fault {
            Fault::ServerKilled => self.kill_server(),
            Fault::ServerKilledTwice => {
                self.kill_server()?;
                std::thread::sleep(self.up_to(600));
                self.kill_server()
            }
            Fault::ServerDiesAtPoint => {
                let passing = self.rng.u64(1..60);
                self.crash_at(CrashAt { at: None, nth: passing })
            }
            Fault::ServerStopped => self.stop_server(),
            Fault::KeeperKilled => self.signal_keeper(Signal::KILL),
            Fault::KeeperStopped => self.signal_keeper(Signal::STOP),
            Fault::MountLost => self.lose_mount(),
            Fault::DirectoryLost => self.lose_directory(),
            Fault::GroupLost => self.lose_group(),
            Fault::DiskFull => self.fill_disk(),
            Fault::PidsExhausted => self.exhaust_pids(),
            Fault::HandlesExhausted => self.exhaust_handles(),
            Fault::ClockJumps => self.jump(),
            Fault::StoreLocked => self.lock_store(),
            Fault::StoreSlow => self.slow_store(),
            Fault::HalfMade => self.leave_half_made(),
        }
    }

    fn up_to(&mut self, ms: u64) -> Duration {
        Duration::from_micros(self.rng.u64(0..ms * 1_000))
    }

    fn kill_server(&mut self) -> Result<Injection> {
        self.server()?.kill()?;
        let pause = self.up_to(300);
        std::thread::sleep(pause);
        self.start_again()?;
        Ok(Injection::Injected(format!("down for {} ms", pause.as_millis())))
    }

    fn crash_at(&mut self, crash_at: CrashAt) -> Result<Injection> {
        let server = self.server()?;
        server.command(&format!("crash {crash_at}"))?;
        if !server.crashes_within(REACHED) {
            return Ok(Injection::Missed(format!("not reached: {crash_at}")));
        }
        let point = server.crash_point().unwrap_or_else(|| "an unknown point".into());
        self.start_again()?;
        Ok(Injection::Injected(point))
    }

    fn stop_server(&mut self) -> Result<Injection> {
        let time = Duration::from_millis(500) + self.up_to(2_500);
        let server = self.server()?;
        server.signal(Signal::STOP)?;
        std::thread::sleep(time);
        server.signal(Signal::CONT)?;
        Ok(Injection::Injected(format!("for {} ms", time.as_millis())))
    }

    /// Picks a running instance, within seconds.
    fn pick_instance(&mut self) -> Result<Instance> {
        let kernel = &self.verifier.kernel;
        let found = Deadline::after(Duration::from_secs(10))
            .poll(|| kernel.instances().ok().filter(|instances| !instances.is_empty()))
            .context("there is no instance")?;
        let index = self.rng.usize(0..found.len());
        found.into_iter().nth(index).context("there is no instance")
    }

    /// Tries one instance after another: one that was ended meanwhile cannot be hit.
    fn inject_into_instance(
        &mut self,
        mut inject: impl FnMut(&mut Self, Instance) -> Result<Injection>,
    ) -> Result<Injection> {
        let mut missed = String::new();
        let injected = Deadline::after(REACHED).poll(|| {
            match self.pick_instance().and_then(|instance| inject(self, instance)) {
                Ok(Injection::Missed(what)) => {
                    missed = what;
                    None
                }
                done => Some(done),
            }
        });
        injected.unwrap_or(Ok(Injection::Missed(missed)))
    }

    fn signal_keeper(&mut self, signal: Signal) -> Result<Injection> {
        self.inject_into_instance(|_, instance| {
            Ok(Injection::new(send(instance.keeper, signal)?, instance.name))
        })
    }

    fn lose_mount(&mut self) -> Result<Injection> {
        self.inject_into_instance(|_, instance| {
            let mut command = Command::new("nsenter");
            command.args(["--target", &instance.keeper.to_string(), "--mount", "--pid", "--root", "--wd=/"]);
            command.args(["umount", "--lazy", "/dev/shm"]);
            let output = command.stdin(Stdio::null()).output().context("could not run `nsenter`")?;
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            let is_lost = output.status.success();
            let what = if is_lost { "lost /dev/shm" } else { &said };
            Ok(Injection::new(is_lost, format!("{} {what}", instance.name)))
        })
    }

    fn lose_directory(&mut self) -> Result<Injection> {
        self.inject_into_instance(|round, instance| {
            let linux = round.fixture.data.join("linux");
            let directories =
                ["instances", "control"].map(|directory| linux.join(directory).join(&instance.name));
            let directories: Vec<_> =
                directories.into_iter().filter(|directory| directory.exists()).collect();
            ensure!(directories.len() <= 2, "unexpected directories");
            let Some(directory) = round.rng.choice(&directories) else {
                return Ok(Injection::Missed(format!("{} was gone", instance.name)));
            };
            let removed = fs::remove_dir_all(directory);
            Ok(Injection::new(removed.is_ok(), format!("{} {removed:?}", directory.display())))
        })
    }

    fn lose_group(&mut self) -> Result<Injection> {
        self.inject_into_instance(|round, instance| {
            let groups = round.verifier.kernel.groups();
            let own: Vec<_> = groups.iter().filter(|group| group.ends_with(&instance.name)).collect();
            let is_injected = send(instance.keeper, Signal::KILL)? && !own.is_empty();
            own.into_iter().for_each(|group| remove_cgroups(group));
            Ok(Injection::new(is_injected, instance.name))
        })
    }

    fn fill_disk(&mut self) -> Result<Injection> {
        let path = self.fixture.data.join("filler");
        let time = Duration::from_millis(300) + self.up_to(2_000);
        let mut file = File::create(&path).context("could not make the filler")?;
        // Bounded by the round's own file system.
        for size in [1 << 20, 4_096, 512] {
            while file.write_all(&vec![b'x'; size]).is_ok() {}
        }
        std::thread::sleep(time);
        fs::remove_file(path).context("could not remove the filler")?;
        Ok(Injection::Injected(format!("for {} ms", time.as_millis())))
    }

    fn exhaust_pids(&mut self) -> Result<Injection> {
        let Some(group) = self.fixture.counted.clone() else {
            return Ok(Injection::Unsupported("no pids controller".into()));
        };
        let (limit, time) = (group.join("pids.max"), Duration::from_millis(300) + self.up_to(2_000));
        let now: u64 = read_number(&group.join("pids.current"))?;
        let allowed = now + self.rng.u64(0..4);
        fs::write(&limit, allowed.to_string()).context("could not limit processes")?;
        std::thread::sleep(time);
        fs::write(&limit, "max").context("could not lift the limit of processes")?;
        Ok(Injection::Injected(format!("{now} and no more than {allowed} for {} ms", time.as_millis())))
    }

    fn exhaust_handles(&mut self) -> Result<Injection> {
        let time = Duration::from_millis(300) + self.up_to(2_000);
        let more = self.rng.u64(0..6);
        let number = self.server()?.pid();
        let pid = Pid::from_raw(number);
        let open = fs::read_dir(format!("/proc/{number}/fd")).context("could not count its handles")?.count();
        let allowed = u64::try_from(open)? + more;
        // The server inherits our limit and raises it if it may.
        let before =
            prlimit(pid, Resource::Nofile, Rlimit { current: Some(allowed), ..getrlimit(Resource::Nofile) })
                .context("could not limit its handles")?;
        std::thread::sleep(time);
        prlimit(pid, Resource::Nofile, before).context("could not lift the limit of its handles")?;
        Ok(Injection::Injected(format!("{open} and no more than {allowed} for {} ms", time.as_millis())))
    }

    fn jump(&mut self) -> Result<Injection> {
        let ms: i64 = match self.rng.u8(0..4) {
            0 => -self.rng.i64(1..5_000),
            1 => self.rng.i64(1..60_000),
            2 => self.rng.i64(60_000..700_000),
            _ => self.rng.i64(700_000..7_200_000),
        };
        let has_jumped = self.server()?.command(&format!("jump {ms}"))?;
        self.verifier.clock.jumped_ms += ms;
        Ok(Injection::new(has_jumped, format!("by {ms} ms")))
    }

    fn lock_store(&mut self) -> Result<Injection> {
        let time = Duration::from_millis(300) + self.up_to(6_000);
        Rows::lock_out(&self.fixture.data, || std::thread::sleep(time))?;
        Ok(Injection::Injected(format!("for {} ms", time.as_millis())))
    }

    fn slow_store(&mut self) -> Result<Injection> {
        let time = Duration::from_millis(1_000) + self.up_to(5_000);
        let ms = self.rng.u64(20..400);
        let server = self.server()?;
        let is_slow = server.command(&format!("slow {ms}"))?;
        std::thread::sleep(time);
        ensure!(server.command("slow 0")?, "could not remove the store latency");
        Ok(Injection::new(is_slow, format!("by {ms} ms for {} ms", time.as_millis())))
    }

    /// The server crashes just before a launch, and resources without a row are left.
    fn leave_half_made(&mut self) -> Result<Injection> {
        let sides = [(Side::Before, Call::Start), (Side::Before, Call::Permit), (Side::After, Call::Create)];
        let (side, call) = self.rng.choice(sides).unwrap_or(sides[0]);
        let server = self.server()?;
        server.command(&format!("crash {}", CrashAt { at: Some(Failpoint { side, call }), nth: 1 }))?;
        let crashed = server.crashes_within(REACHED);
        let letters = b"0123456789abcdefghjkmnpqrstvwxyz";
        let letters: String =
            (0..25).map(|_| char::from(letters[self.rng.usize(0..letters.len())])).collect();
        let name = format!("v1.sbx_0{letters}.1");
        fs::create_dir(self.fixture.data.join("linux/control").join(&name))
            .context("could not leave a stray")?;
        if let Some(base) = self.verifier.kernel.groups().into_iter().find(|group| is_base(group)) {
            fs::create_dir(base.join(&name)).context("could not leave a stray group")?;
        }
        if crashed {
            self.start_again()?;
        }
        Ok(Injection::new(crashed, format!("{side:?} {call:?}, and {name}")))
    }
}

fn is_base(group: &Path) -> bool {
    group.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pinfold."))
}

fn read_number(path: &Path) -> Result<u64> {
    let text = fs::read_to_string(path).with_context(|| format!("could not read `{}`", path.display()))?;
    text.trim().parse().with_context(|| format!("`{}` is no number", text.trim()))
}

/// Whether the process existed.
fn send(pid: i32, signal: Signal) -> Result<bool> {
    let pid = Pid::from_raw(pid).context("invalid pid")?;
    match kill_process(pid, signal) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(error) => Err(error).context("could not signal a keeper"),
    }
}
