//! How each fault is brought about: in the middle of the load, and within the round's own directories and groups.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pinfold_checker::{Body, Patience, Rows};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use super::blow::Blow;
use super::fault::Fault;
use super::ground::remove_groups;
use super::round::Round;
use crate::served::gates::{Call, Death, Point, Side};

/// How long the load has to come by a point, and a body to be there that can be struck. Under load that takes moments.
const REACHED: Duration = Duration::from_secs(20);

impl Round<'_> {
    pub(super) fn strike(&mut self) -> Result<Blow> {
        match self.fault {
            Fault::ServerKilled => self.kill_server(),
            Fault::ServerKilledTwice => {
                self.kill_server()?;
                std::thread::sleep(self.up_to(600));
                self.kill_server()
            }
            Fault::ServerDiesAtPoint => {
                let passing = self.rng.u64(1..60);
                self.die(Death { at: None, passing })
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

    fn kill_server(&mut self) -> Result<Blow> {
        self.server()?.kill()?;
        let pause = self.up_to(300);
        std::thread::sleep(pause);
        self.start_again()?;
        Ok(Blow::Struck(format!("down for {} ms", pause.as_millis())))
    }

    fn die(&mut self, death: Death) -> Result<Blow> {
        let server = self.server()?;
        server.tell(&format!("die {death}"))?;
        if !server.dies_within(REACHED) {
            return Ok(Blow::Missed(format!("lived past {death}")));
        }
        let point = server.last_word().unwrap_or_else(|| "an unknown point".into());
        self.start_again()?;
        Ok(Blow::Struck(point))
    }

    fn stop_server(&mut self) -> Result<Blow> {
        let time = Duration::from_millis(500) + self.up_to(2_500);
        let server = self.server()?;
        server.signal(Signal::STOP)?;
        std::thread::sleep(time);
        server.signal(Signal::CONT)?;
        Ok(Blow::Struck(format!("for {} ms", time.as_millis())))
    }

    /// One of the bodies that are there, within seconds.
    fn some_body(&mut self) -> Result<Body> {
        let kernel = &self.judge.kernel;
        let found = Patience::of(Duration::from_secs(10))
            .until(|| kernel.bodies().ok().filter(|bodies| !bodies.is_empty()))
            .context("there is no body")?;
        let index = self.rng.usize(0..found.len());
        found.into_iter().nth(index).context("there is no body")
    }

    /// One body after another: one that was ended meanwhile has nothing to lose.
    fn strike_some_body(&mut self, mut strike: impl FnMut(&mut Self, Body) -> Result<Blow>) -> Result<Blow> {
        let mut missed = String::new();
        let struck =
            Patience::of(REACHED).until(|| match self.some_body().and_then(|body| strike(self, body)) {
                Ok(Blow::Missed(what)) => {
                    missed = what;
                    None
                }
                done => Some(done),
            });
        struck.unwrap_or(Ok(Blow::Missed(missed)))
    }

    fn signal_keeper(&mut self, signal: Signal) -> Result<Blow> {
        self.strike_some_body(|_, body| Ok(Blow::new(send(body.keeper, signal)?, body.mark)))
    }

    fn lose_mount(&mut self) -> Result<Blow> {
        self.strike_some_body(|_, body| {
            let mut command = Command::new("nsenter");
            command.args(["--target", &body.keeper.to_string(), "--mount", "--pid", "--root", "--wd=/"]);
            command.args(["umount", "--lazy", "/dev/shm"]);
            let output = command.stdin(Stdio::null()).output().context("could not run `nsenter`")?;
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            let is_lost = output.status.success();
            let what = if is_lost { "lost /dev/shm" } else { &said };
            Ok(Blow::new(is_lost, format!("{} {what}", body.mark)))
        })
    }

    fn lose_directory(&mut self) -> Result<Blow> {
        self.strike_some_body(|round, body| {
            let grounds = round.ground.data.join("linux");
            let places = ["bodies", "control"].map(|place| grounds.join(place).join(&body.mark));
            let places: Vec<_> = places.into_iter().filter(|place| place.exists()).collect();
            ensure!(places.len() <= 2, "these are not its directories");
            let Some(place) = round.rng.choice(&places) else {
                return Ok(Blow::Missed(format!("{} was gone", body.mark)));
            };
            let removed = fs::remove_dir_all(place);
            Ok(Blow::new(removed.is_ok(), format!("{} {removed:?}", place.display())))
        })
    }

    fn lose_group(&mut self) -> Result<Blow> {
        self.strike_some_body(|round, body| {
            let groups = round.judge.kernel.groups();
            let own: Vec<_> = groups.iter().filter(|group| group.ends_with(&body.mark)).collect();
            let has_struck = send(body.keeper, Signal::KILL)? && !own.is_empty();
            own.into_iter().for_each(|group| remove_groups(group));
            Ok(Blow::new(has_struck, body.mark))
        })
    }

    fn fill_disk(&mut self) -> Result<Blow> {
        let path = self.ground.data.join("filler");
        let time = Duration::from_millis(300) + self.up_to(2_000);
        let mut file = File::create(&path).context("could not make the filler")?;
        // Bounded by the filesystem, which is the round's own.
        for size in [1 << 20, 4_096, 512] {
            while file.write_all(&vec![b'x'; size]).is_ok() {}
        }
        std::thread::sleep(time);
        fs::remove_file(path).context("could not remove the filler")?;
        Ok(Blow::Struck(format!("for {} ms", time.as_millis())))
    }

    fn exhaust_pids(&mut self) -> Result<Blow> {
        let Some(group) = self.ground.counted.clone() else {
            return Ok(Blow::NoMeans("nothing counts processes here".into()));
        };
        let (limit, time) = (group.join("pids.max"), Duration::from_millis(300) + self.up_to(2_000));
        let now: u64 = read_number(&group.join("pids.current"))?;
        let allowed = now + self.rng.u64(0..4);
        fs::write(&limit, allowed.to_string()).context("could not limit processes")?;
        std::thread::sleep(time);
        fs::write(&limit, "max").context("could not lift the limit of processes")?;
        Ok(Blow::Struck(format!("{now} and no more than {allowed} for {} ms", time.as_millis())))
    }

    fn exhaust_handles(&mut self) -> Result<Blow> {
        let time = Duration::from_millis(300) + self.up_to(2_000);
        let more = self.rng.u64(0..6);
        let number = self.server()?.pid();
        let pid = Pid::from_raw(number);
        let open = fs::read_dir(format!("/proc/{number}/fd")).context("could not count its handles")?.count();
        let allowed = u64::try_from(open)? + more;
        // Whoever starts it gives it what we have ourselves, and it asks for more if it may.
        let before =
            prlimit(pid, Resource::Nofile, Rlimit { current: Some(allowed), ..getrlimit(Resource::Nofile) })
                .context("could not limit its handles")?;
        std::thread::sleep(time);
        prlimit(pid, Resource::Nofile, before).context("could not lift the limit of its handles")?;
        Ok(Blow::Struck(format!("{open} and no more than {allowed} for {} ms", time.as_millis())))
    }

    fn jump(&mut self) -> Result<Blow> {
        let ms: i64 = match self.rng.u8(0..4) {
            0 => -self.rng.i64(1..5_000),
            1 => self.rng.i64(1..60_000),
            2 => self.rng.i64(60_000..700_000),
            _ => self.rng.i64(700_000..7_200_000),
        };
        let has_jumped = self.server()?.tell(&format!("jump {ms}"))?;
        self.judge.clock.jumped_ms += ms;
        Ok(Blow::new(has_jumped, format!("by {ms} ms")))
    }

    fn lock_store(&mut self) -> Result<Blow> {
        let time = Duration::from_millis(300) + self.up_to(6_000);
        Rows::lock_out(&self.ground.data, || std::thread::sleep(time))?;
        Ok(Blow::Struck(format!("for {} ms", time.as_millis())))
    }

    fn slow_store(&mut self) -> Result<Blow> {
        let time = Duration::from_millis(1_000) + self.up_to(5_000);
        let ms = self.rng.u64(20..400);
        let server = self.server()?;
        let is_slow = server.tell(&format!("slow {ms}"))?;
        std::thread::sleep(time);
        ensure!(server.tell("slow 0")?, "its store stays slow");
        Ok(Blow::new(is_slow, format!("by {ms} ms for {} ms", time.as_millis())))
    }

    /// The server dies when it is about to launch, and things lie about that no record speaks of.
    fn leave_half_made(&mut self) -> Result<Blow> {
        let sides = [(Side::Before, Call::Start), (Side::Before, Call::Permit), (Side::After, Call::Create)];
        let (side, call) = self.rng.choice(sides).unwrap_or(sides[0]);
        let server = self.server()?;
        server.tell(&format!("die {}", Death { at: Some(Point { side, call }), passing: 1 }))?;
        let died = server.dies_within(REACHED);
        let letters = b"0123456789abcdefghjkmnpqrstvwxyz";
        let letters: String =
            (0..25).map(|_| char::from(letters[self.rng.usize(0..letters.len())])).collect();
        let mark = format!("v1.sbx_0{letters}.1");
        fs::create_dir(self.ground.data.join("linux/control").join(&mark))
            .context("could not leave a stray")?;
        if let Some(base) = self.judge.kernel.groups().into_iter().find(|group| is_base(group)) {
            fs::create_dir(base.join(&mark)).context("could not leave a stray group")?;
        }
        if died {
            self.start_again()?;
        }
        Ok(Blow::new(died, format!("{side:?} {call:?}, and {mark}")))
    }
}

fn is_base(group: &Path) -> bool {
    group.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pinfold."))
}

fn read_number(path: &Path) -> Result<u64> {
    let text = fs::read_to_string(path).with_context(|| format!("could not read `{}`", path.display()))?;
    text.trim().parse().with_context(|| format!("`{}` is no number", text.trim()))
}

/// Whether anybody was there to get it.
fn send(pid: i32, signal: Signal) -> Result<bool> {
    let pid = Pid::from_raw(pid).context("it has no number")?;
    match kill_process(pid, signal) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(error) => Err(error).context("could not signal a keeper"),
    }
}
