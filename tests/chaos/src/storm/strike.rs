//! How each fault is brought about: in the middle of the load, and within the round's own directories and groups.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pinfold_checker::{Body, Patience, Rows};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use super::fault::Fault;
use super::ground::remove_groups;
use super::round::Round;
use crate::served::gates::{Call, Death, Point, Side};

impl Round<'_> {
    /// Says what was done, for whoever reads the line.
    pub(super) fn strike(&mut self) -> Result<String> {
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
            Fault::HalfMade => self.leave_half_made(),
        }
    }

    fn up_to(&mut self, ms: u64) -> Duration {
        Duration::from_micros(self.rng.u64(0..ms * 1_000))
    }

    fn kill_server(&mut self) -> Result<String> {
        self.server()?.kill()?;
        let pause = self.up_to(300);
        std::thread::sleep(pause);
        self.start_again()?;
        Ok(format!("down for {} ms", pause.as_millis()))
    }

    fn die(&mut self, death: Death) -> Result<String> {
        let server = self.server()?;
        server.tell(&format!("die {death}"))?;
        if !server.dies_within(Duration::from_secs(5)) {
            return Ok(format!("lived past {death}"));
        }
        let point = server.last_word().unwrap_or_else(|| "an unknown point".into());
        self.start_again()?;
        Ok(point)
    }

    fn stop_server(&mut self) -> Result<String> {
        let time = Duration::from_millis(500) + self.up_to(2_500);
        let server = self.server()?;
        server.signal(Signal::STOP)?;
        std::thread::sleep(time);
        server.signal(Signal::CONT)?;
        Ok(format!("for {} ms", time.as_millis()))
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

    fn signal_keeper(&mut self, signal: Signal) -> Result<String> {
        let body = self.some_body()?;
        send(body.keeper, signal)?;
        Ok(body.mark)
    }

    fn lose_mount(&mut self) -> Result<String> {
        let body = self.some_body()?;
        let mut command = Command::new("nsenter");
        command.args(["--target", &body.keeper.to_string(), "--mount", "--pid", "--root", "--wd=/"]);
        command.args(["umount", "--lazy", "/dev/shm"]);
        let output = command.stdin(Stdio::null()).output().context("could not run `nsenter`")?;
        // One that was ended meanwhile has nothing to lose.
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Ok(format!("{} {}", body.mark, if output.status.success() { "lost /dev/shm" } else { &said }))
    }

    fn lose_directory(&mut self) -> Result<String> {
        let body = self.some_body()?;
        let grounds = self.ground.data.join("linux");
        let places = ["bodies", "control"].map(|place| grounds.join(place).join(&body.mark));
        let places: Vec<_> = places.into_iter().filter(|place| place.exists()).collect();
        ensure!(places.len() <= 2, "these are not its directories");
        let Some(place) = self.rng.choice(&places) else { return Ok(format!("{} was gone", body.mark)) };
        let removed = fs::remove_dir_all(place);
        Ok(format!("{} {removed:?}", place.display()))
    }

    fn lose_group(&mut self) -> Result<String> {
        let body = self.some_body()?;
        let groups = self.judge.kernel.groups();
        let own = groups.iter().filter(|group| group.ends_with(&body.mark));
        send(body.keeper, Signal::KILL)?;
        own.for_each(|group| remove_groups(group));
        Ok(body.mark)
    }

    fn fill_disk(&mut self) -> Result<String> {
        let path = self.ground.data.join("filler");
        let time = Duration::from_millis(300) + self.up_to(2_000);
        let mut file = File::create(&path).context("could not make the filler")?;
        // Bounded by the filesystem, which is the round's own.
        for size in [1 << 20, 4_096, 512] {
            while file.write_all(&vec![b'x'; size]).is_ok() {}
        }
        std::thread::sleep(time);
        fs::remove_file(path).context("could not remove the filler")?;
        Ok(format!("for {} ms", time.as_millis()))
    }

    fn exhaust_pids(&mut self) -> Result<String> {
        let Some(group) = self.ground.counted.clone() else {
            return Ok("nothing counts processes here".into());
        };
        let (limit, time) = (group.join("pids.max"), Duration::from_millis(300) + self.up_to(2_000));
        let now: u64 = read_number(&group.join("pids.current"))?;
        let allowed = now + self.rng.u64(0..4);
        fs::write(&limit, allowed.to_string()).context("could not limit processes")?;
        std::thread::sleep(time);
        fs::write(&limit, "max").context("could not lift the limit of processes")?;
        Ok(format!("{now} and no more than {allowed} for {} ms", time.as_millis()))
    }

    fn exhaust_handles(&mut self) -> Result<String> {
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
        Ok(format!("{open} and no more than {allowed} for {} ms", time.as_millis()))
    }

    fn jump(&mut self) -> Result<String> {
        let ms: i64 = match self.rng.u8(0..4) {
            0 => -self.rng.i64(1..5_000),
            1 => self.rng.i64(1..60_000),
            2 => self.rng.i64(60_000..700_000),
            _ => self.rng.i64(700_000..7_200_000),
        };
        self.server()?.tell(&format!("jump {ms}"))?;
        self.judge.clock.jumped_ms += ms;
        Ok(format!("by {ms} ms"))
    }

    fn lock_store(&mut self) -> Result<String> {
        let time = Duration::from_millis(300) + self.up_to(6_000);
        Rows::lock_out(&self.ground.data, || std::thread::sleep(time))?;
        Ok(format!("for {} ms", time.as_millis()))
    }

    /// The server dies when it is about to launch, and things lie about that no record speaks of.
    fn leave_half_made(&mut self) -> Result<String> {
        let sides = [(Side::Before, Call::Start), (Side::Before, Call::Permit), (Side::After, Call::Create)];
        let (side, call) = self.rng.choice(sides).unwrap_or(sides[0]);
        let server = self.server()?;
        server.tell(&format!("die {}", Death { at: Some(Point { side, call }), passing: 1 }))?;
        let died = server.dies_within(Duration::from_secs(10));
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
        Ok(format!("{side:?} {call:?}, and {mark}"))
    }
}

fn is_base(group: &Path) -> bool {
    group.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pinfold."))
}

fn read_number(path: &Path) -> Result<u64> {
    let text = fs::read_to_string(path).with_context(|| format!("could not read `{}`", path.display()))?;
    text.trim().parse().with_context(|| format!("`{}` is no number", text.trim()))
}

/// A process that has ended meanwhile is as good as one that is ended.
fn send(pid: i32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(pid).context("it has no number")?;
    match kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error).context("could not signal a keeper"),
    }
}
