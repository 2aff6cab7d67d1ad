//! The commands of the fake's shell: builtins, programs that scripts of tests use, and four of the fake itself: `hang`,
//! `compute` (silent, for ever), `starve` (like `compute`, but never gets a CPU) and `work MS CODE` (counts as active).

use std::time::Duration;

use super::Shared;
use super::expand::{OWN_PID, unescape};
use super::parse::parse;
use super::run::{Activity, Task, Thread, Wait};
use super::streams::ReadResult;
use super::syntax::{Node, Stream};
use crate::FileError;
use crate::fake::file_tree::{Content, absolute};

/// Names of signals that scripts use.
const SIGNALS: [(&str, i32); 7] =
    [("HUP", 1), ("INT", 2), ("QUIT", 3), ("KILL", 9), ("USR1", 10), ("SEGV", 11), ("TERM", 15)];
const NOT_FOUND: i32 = 127;
const USAGE_ERROR: i32 = 2;

impl Thread {
    /// Runs a command of at least one word.
    pub(super) fn run_command(&mut self, argv: Vec<String>, shared: &mut Shared<'_>) -> Option<Wait> {
        let mut words: Vec<_> = argv.iter().map(String::as_str).collect();
        let name = words.first().copied().unwrap_or_default();
        words[0] = name.strip_prefix("/bin/").or(name.strip_prefix("/usr/bin/")).unwrap_or(name);
        self.program = words[0].to_owned();
        let sleeping = Activity::Sleeps;
        match words.as_slice() {
            [":" | "true", ..] => {}
            ["false", ..] => self.status = 1,
            ["exit", code @ ..] => {
                self.status = code.first().map_or(0, |code| code.parse().unwrap_or(USAGE_ERROR));
                self.leave_scope();
            }
            ["exec", command @ ..] if !command.is_empty() => {
                self.leave_scope();
                return self.run_command(command.iter().map(ToString::to_string).collect(), shared);
            }
            ["sh", "-c", script, ..] => self.run_script(script, shared),
            ["sh", file, ..] => self.run_file(file, shared),
            ["sh"] => {
                self.begin_scope();
                self.push(Task::RunLine { line: Vec::new() });
            }
            ["echo", "-n", words @ ..] => self.print(shared, Stream::Stdout, words.join(" ").as_bytes()),
            ["echo", words @ ..] => {
                self.print(shared, Stream::Stdout, format!("{}\n", words.join(" ")).as_bytes());
            }
            ["printf", format] => self.print(shared, Stream::Stdout, &unescape(format)),
            ["sleep", seconds] => match duration_ms(seconds) {
                Some(ms) => return Some(Wait::Until(self.now.after_ms(ms), sleeping)),
                None => self.fail(shared, USAGE_ERROR, &format!("sleep: invalid time interval `{seconds}`")),
            },
            ["hang"] => return Some(Wait::Forever(sleeping)),
            ["compute"] => return Some(Wait::Forever(Activity::Computes)),
            ["starve"] => return Some(Wait::Forever(Activity::Starves)),
            ["work", ms, code] => {
                self.status = code.parse().unwrap_or(USAGE_ERROR);
                let end = self.now.after_ms(ms.parse().unwrap_or(0));
                return Some(Wait::Until(end, Activity::Works));
            }
            ["wait"] => return Some(Wait::Others),
            ["cat"] | ["cat", "-"] => self.push(Task::CopyInput),
            ["cat", file] => {
                let content = shared.files.read(&self.path(file)).map(<[u8]>::to_vec);
                self.report("cat", content, shared);
            }
            ["cat", files @ ..] => {
                for file in files.iter().rev() {
                    self.push(Task::Run(Node::command(&["cat".to_owned(), (*file).to_owned()])));
                }
            }
            ["tee" | "grep" | "wc", ..] => self.push(Task::Gather { argv, input: Vec::new() }),
            ["read", name] => {
                self.push(Task::ReadLine { name: (*name).to_owned(), line: Vec::new() });
            }
            ["trap", action, signals @ ..] => {
                for signal in signals.iter().filter_map(|name| signal_number(name)) {
                    self.traps.insert(signal, (*action).to_owned());
                }
            }
            ["kill", signal, pid] => {
                let number = signal.strip_prefix('-').and_then(signal_number);
                if *pid == OWN_PID && number.is_some() {
                    shared.raised = number;
                    return Some(Wait::Until(self.now, sleeping));
                }
                self.fail(shared, 1, &format!("kill: ({pid}) - No such process"));
            }
            ["[", test @ .., "]"] | ["test", test @ ..] => {
                self.status = self.test(test, shared).map_or(USAGE_ERROR, |met| i32::from(!met));
            }
            ["mkdir" | "mkfifo" | "rm" | "ls" | "stat" | "head" | "stty", ..] => {
                let done = self.file_command(&words, shared);
                self.report(words[0], done, shared);
            }
            _ => self.run_file(&argv[0], shared),
        }
        None
    }

    /// Continues a command that reads.
    pub(super) fn read_on(&mut self, task: Task, shared: &mut Shared<'_>) -> Option<Wait> {
        let read = match self.read(shared) {
            ReadResult::NotYet(wait) => {
                self.push(task);
                return Some(wait);
            }
            ReadResult::Bytes(bytes) => Some(bytes),
            ReadResult::End => None,
        };
        match (task, read) {
            (Task::CopyInput, Some(bytes)) => {
                self.print(shared, Stream::Stdout, &bytes);
                self.push(Task::CopyInput);
            }
            (Task::Gather { argv, mut input }, Some(bytes)) => {
                input.extend(bytes);
                self.push(Task::Gather { argv, input });
            }
            (Task::Gather { argv, input }, None) => self.finish_gathered(&argv, &input, shared),
            (Task::ReadLine { name, line }, read) => {
                let ends = read.is_none();
                match self.complete_line(line, read, shared) {
                    Ok(line) => {
                        self.status = i32::from(ends);
                        self.variables.insert(name, String::from_utf8_lossy(&line).trim().to_owned());
                    }
                    Err(line) => self.push(Task::ReadLine { name, line }),
                }
            }
            (Task::RunLine { line }, read) => {
                let ends = read.is_none();
                let line = self.complete_line(line, read, shared);
                if !ends {
                    let rest = line.as_ref().err().cloned().unwrap_or_default();
                    self.push(Task::RunLine { line: rest });
                }
                match line.map(|line| parse(&String::from_utf8_lossy(&line))) {
                    Ok(Ok(node)) => self.push(Task::Run(node)),
                    Ok(Err(error)) => self.fail(shared, USAGE_ERROR, &error.to_string()),
                    Err(_) => {}
                }
            }
            _ => {}
        }
        None
    }

    /// Adds what was read to a line. The line, if it is complete, or else as it is so far.
    fn complete_line(
        &mut self,
        mut line: Vec<u8>,
        read: Option<Vec<u8>>,
        shared: &mut Shared<'_>,
    ) -> Result<Vec<u8>, Vec<u8>> {
        let Some(bytes) = read else { return Ok(line) };
        match bytes.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                line.extend(&bytes[..end]);
                self.unread(bytes[end + 1..].to_vec(), shared);
                Ok(line)
            }
            None => {
                line.extend(bytes);
                Err(line)
            }
        }
    }

    /// Ends a command that has read all its input.
    fn finish_gathered(&mut self, argv: &[String], input: &[u8], shared: &mut Shared<'_>) {
        let words: Vec<_> = argv.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["wc", "-c"] => self.print(shared, Stream::Stdout, format!("{}\n", input.len()).as_bytes()),
            ["grep", "-c", word] => {
                let text = String::from_utf8_lossy(input);
                let count = text.lines().filter(|line| line.contains(word)).count();
                self.status = i32::from(count == 0);
                self.print(shared, Stream::Stdout, format!("{count}\n").as_bytes());
            }
            ["tee", file] => {
                let written = shared.files.write(self.path(file), None, input.to_vec(), self.now);
                self.report("tee", written.map(|()| input.to_vec()), shared);
            }
            _ => self.fail(shared, USAGE_ERROR, &format!("{}: not supported", words.join(" "))),
        }
    }

    /// Commands on files, and `stty size`. Returns what they print.
    fn file_command(&self, words: &[&str], shared: &mut Shared<'_>) -> Result<Vec<u8>, FileError> {
        let nothing = |()| Vec::new();
        match words {
            ["mkdir", "-p", path] => shared.files.make_directories(&self.path(path), self.now).map(nothing),
            ["mkdir", path] => shared.files.make(self.path(path), Content::Directory, self.now).map(nothing),
            ["mkfifo", path] => shared.files.make(self.path(path), Content::Pipe, self.now).map(nothing),
            ["rm", path] => shared.files.remove(&self.path(path), false).map(|_| Vec::new()),
            ["ls", path] => {
                let listing = shared.files.list(&self.path(path), usize::MAX)?;
                Ok(listing.entries.into_iter().flat_map(|entry| [&entry.name[..], b"\n"].concat()).collect())
            }
            ["stat", "-c", "%a", path] => {
                Ok(format!("{:o}\n", shared.files.get(&self.path(path))?.metadata().mode).into_bytes())
            }
            ["head", "-c", count, "/dev/zero"] => Ok(vec![0; count.parse().unwrap_or(0)]),
            ["stty", "size"] => match shared.terminal {
                Some((columns, rows)) => Ok(format!("{rows} {columns}\n").into_bytes()),
                None => Err(FileError::Failed { why: "not a terminal".into() }),
            },
            _ => Err(FileError::Failed { why: format!("{} is not supported", words.join(" ")) }),
        }
    }

    /// Runs a script from an executable file.
    fn run_file(&mut self, name: &str, shared: &mut Shared<'_>) {
        let script = name.contains('/').then(|| self.path(name)).and_then(|path| {
            let is_executable = shared.files.follow(&path).is_ok_and(|file| file.is_executable());
            shared.files.read(&path).ok().filter(|_| is_executable).map(<[u8]>::to_vec)
        });
        match script {
            Some(script) => self.run_script(&String::from_utf8_lossy(&script), shared),
            None => self.fail(shared, NOT_FOUND, &format!("{name}: not found")),
        }
    }

    fn test(&self, words: &[&str], shared: &Shared<'_>) -> Option<bool> {
        let number = |word: &str| word.parse::<i64>().ok();
        match words {
            ["!", rest @ ..] => self.test(rest, shared).map(|met| !met),
            ["-e", path] => Some(shared.files.follow(&self.path(path)).is_ok()),
            ["-t", _] => Some(shared.terminal.is_some()),
            [left, "=", right] => Some(left == right),
            [left, "!=", right] => Some(left != right),
            [left, "-lt", right] => Some(number(left)? < number(right)?),
            [left, "-le", right] => Some(number(left)? <= number(right)?),
            _ => None,
        }
    }

    fn path(&self, name: &str) -> Vec<u8> {
        absolute(&self.directory, name.as_bytes())
    }

    fn report<T: AsRef<[u8]>>(&mut self, name: &str, done: Result<T, FileError>, shared: &mut Shared<'_>) {
        match done {
            Ok(bytes) => self.print(shared, Stream::Stdout, bytes.as_ref()),
            Err(error) => self.fail(shared, 1, &format!("{name}: {error}")),
        }
    }

    fn fail(&mut self, shared: &mut Shared<'_>, status: i32, why: &str) {
        self.status = status;
        self.complain(shared, why);
    }
}

fn duration_ms(seconds: &str) -> Option<u64> {
    let duration = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
    u64::try_from(duration.as_millis()).ok()
}

fn signal_number(name: &str) -> Option<i32> {
    let name = name.strip_prefix("SIG").unwrap_or(name);
    SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}
