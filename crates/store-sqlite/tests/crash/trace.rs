//! Checks a trace of strace: whether each acknowledged write was synced before its acknowledgement.

/// A relevant line of a trace.
#[derive(Debug, PartialEq, Eq)]
enum Call<'a> {
    /// The data of a write into a file.
    Wrote {
        file: &'a str,
        data: &'a str,
    },
    SyncBegan {
        thread: &'a str,
        file: &'a str,
    },
    SyncDone {
        thread: &'a str,
    },
    Synced {
        file: &'a str,
    },
    Acknowledged {
        token: &'a str,
    },
}

/// The number of acknowledgements, each of which follows its sync. An error: the first that does not.
pub(crate) fn count_synced_acknowledgements(trace: &str) -> Result<usize, String> {
    let calls: Vec<Call<'_>> = trace.lines().filter_map(parse).collect();
    let mut seen = 0;
    for (index, call) in calls.iter().enumerate() {
        let Call::Acknowledged { token } = call else {
            continue;
        };
        let before = &calls[..index];
        let written =
            before.iter().position(|call| matches!(call, Call::Wrote { data, .. } if data.contains(token)));
        let Some(written) = written else {
            return Err(format!("{token} was acknowledged and not written"));
        };
        let Call::Wrote { file, .. } = &before[written] else { unreachable!("found as a write") };
        if !is_synced(&before[written..], file) {
            return Err(format!("{token} was acknowledged before it was synced"));
        }
        seen += 1;
    }
    Ok(seen)
}

/// Whether a sync of the file began and succeeded within these calls.
fn is_synced(calls: &[Call<'_>], wanted: &str) -> bool {
    let mut begun = Vec::new();
    for call in calls {
        match call {
            Call::Synced { file } if *file == wanted => return true,
            Call::SyncBegan { thread, file } if *file == wanted => begun.push(*thread),
            Call::SyncDone { thread } if begun.contains(thread) => return true,
            _ => {}
        }
    }
    false
}

/// Parses `PID name(fd, "data"..., …) = result`, or one half of a call that strace printed in two.
fn parse(line: &str) -> Option<Call<'_>> {
    let (thread, call) = line.trim_start().split_once(char::is_whitespace)?;
    let call = call.trim_start();
    if let Some(resumed) = call.strip_prefix("<... ") {
        let is_sync = resumed.starts_with("fdatasync") || resumed.starts_with("fsync");
        return (is_sync && resumed.ends_with("= 0")).then_some(Call::SyncDone { thread });
    }
    let (name, rest) = call.split_once('(')?;
    let file = rest.split([',', ')', ' ']).next()?;
    match name {
        "pwrite64" => Some(Call::Wrote { file, data: rest }),
        "fdatasync" | "fsync" if rest.contains("unfinished") => Some(Call::SyncBegan { thread, file }),
        "fdatasync" | "fsync" if rest.ends_with("= 0") => Some(Call::Synced { file }),
        "write" if file == "2" && rest.contains("ack ") => {
            let token = &rest[rest.find("token-")?..];
            let end = token.rfind('-')? + 1;
            Some(Call::Acknowledged { token: &token[..end] })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: &str = "7 pwrite64(5, \"..token-1-1-..\", 4096, 56) = 4096\n";
    const SYNC: &str = "7 fdatasync(5) = 0\n";
    const ACK: &str = "8 write(2, \"\\nack 1 2 false token-1-1-\\n\", 25) = 25\n";

    #[test]
    fn acknowledgement_after_its_sync_is_counted() {
        let split =
            "7 fdatasync(5 <unfinished ...>\n8 write(1, \"x\", 1) = 1\n7 <... fdatasync resumed>) = 0\n";

        assert_eq!(count_synced_acknowledgements(&[WRITE, SYNC, ACK].concat()), Ok(1));
        assert_eq!(count_synced_acknowledgements(&[WRITE, split, ACK].concat()), Ok(1));
    }

    #[test]
    fn acknowledgement_before_its_sync_is_an_error() {
        let failed = "7 fdatasync(5) = -1 EIO (Input/output error)\n";
        let other_file = "7 fdatasync(6) = 0\n";
        let begun = "7 fdatasync(5 <unfinished ...>\n";

        for trace in [
            [WRITE, ACK, SYNC],
            [SYNC, WRITE, ACK],
            [WRITE, failed, ACK],
            [WRITE, other_file, ACK],
            [WRITE, begun, ACK],
            [SYNC, ACK, WRITE],
        ] {
            assert!(count_synced_acknowledgements(&trace.concat()).is_err());
        }
    }
}
