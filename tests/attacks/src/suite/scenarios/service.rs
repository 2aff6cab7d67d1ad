//! Attacks on file requests from outside: each is answered in time and from inside the root, or refused.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::sync::mpsc;
use std::time::Duration;

use pinfold_provider::{FileContent, FileError, Files, InMemoryContent};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{a_moment, until};
use crate::entry::Verdict;
use crate::fixture::Fixture;

/// A slower answer counts as a hang.
const SOON: Duration = Duration::from_secs(8);

async fn soon<T>(
    request: impl Future<Output = Result<T, FileError>>,
) -> Result<Result<T, FileError>, Verdict> {
    let hangs = |_| Verdict::Through("a request hangs".to_owned());
    tokio::time::timeout(SOON, request).await.map_err(hangs)
}

/// Reads all content.
async fn all_of(mut content: FileContent) -> Result<Vec<u8>, FileError> {
    let mut all = Vec::new();
    while let Some(piece) = content.pieces.next().await? {
        all.extend(piece);
    }
    Ok(all)
}

/// Everything but regular files is refused without blocking.
pub(crate) async fn no_plain_files(fixture: &Fixture) -> Result<Verdict, String> {
    fixture.attempt(&["leave-special-files"]).await?;
    let paths = ["fifo", "socket", "/dev/zero", "/dev/tty", "/dev/ptmx", "/dev/full"];
    for path in paths {
        match soon(fixture.provider.read(fixture.instance, path.as_bytes(), 0, 10)).await {
            Ok(Err(_)) => {}
            Ok(Ok(_)) => return Ok(Verdict::Through(format!("{path} is read"))),
            Err(hangs) => return Ok(hangs),
        }
    }
    let mut content = InMemoryContent::new(b"x".to_vec());
    Ok(match soon(fixture.provider.write(fixture.instance, b"fifo", None, &mut content)).await {
        Ok(Err(error)) => Verdict::Held(error.to_string()),
        Ok(Ok(_)) => Verdict::Through("a pipe is written to".into()),
        Err(hangs) => hangs,
    })
}

/// Links to the host, to the serving process's descriptors, and to the keeper resolve to nothing.
pub(crate) async fn links(fixture: &Fixture) -> Result<Verdict, String> {
    let canary = fixture.canary().join("canary").display().to_string();
    let climbing = format!("../../../../../..{canary}");
    let targets =
        [canary.as_str(), &climbing, "/proc/self/fd/0", "/proc/self/exe", "/proc/1/root", "/proc/1/exe"];
    fixture.attempt(&[&["leave-links-to-outside"], &targets[..]].concat()).await?;
    let through_roots = [format!("link4{canary}"), format!("/proc/self/root{canary}")];
    let links = (0..targets.len()).map(|number| format!("link{number}"));
    let magic = ["/proc/1/environ", "/proc/1/exe", "/proc/self/exe", "/proc/self/fd/0"].map(str::to_owned);
    for path in links.chain(through_roots).chain(magic) {
        match soon(fixture.provider.read(fixture.instance, path.as_bytes(), 0, 100)).await {
            Ok(Err(_)) => {}
            Ok(Ok(_)) => return Ok(Verdict::Through(format!("{path} is read"))),
            Err(hangs) => return Ok(hangs),
        }
    }
    Ok(Verdict::Held("no link leads anywhere".into()))
}

/// A directory and a link to the host are swapped while files are written into it. The caller checks the canary.
pub(crate) async fn swapped(fixture: &Fixture) -> Result<Verdict, String> {
    let command = fixture.hostile(&["swap-while-it-is-removed"]);
    fixture.begin(&command, Some(10_000)).await.map_err(|error| error.to_string())?;
    let alive = fixture.inside("/tmp/alive")?;
    if !until(Duration::from_secs(5), async || alive.exists()).await {
        return Err("it did not begin".into());
    }
    let mut written = 0;
    for _ in 0..100 {
        let mut content = InMemoryContent::new(b"x".to_vec());
        match soon(fixture.provider.write(fixture.instance, b"a/new", None, &mut content)).await {
            Ok(result) => written += usize::from(result.is_ok()),
            Err(hangs) => return Ok(hangs),
        }
        if let Ok(Ok(content)) = soon(fixture.provider.read(fixture.instance, b"a/canary", 0, 100)).await {
            let found = all_of(content).await.map_err(|error| error.to_string())?;
            return Ok(Verdict::Through(format!("read {} bytes of the host", found.len())));
        }
    }
    if written == 0 {
        Err("nothing was written".into())
    } else {
        Ok(Verdict::Held(format!("{written} of 100 inside")))
    }
}

/// A read ends where the file ended when it began.
pub(crate) async fn growing(fixture: &Fixture) -> Result<Verdict, String> {
    let command = fixture.hostile(&["grow-a-file", "20"]);
    fixture.begin(&command, Some(10_000)).await.map_err(|error| error.to_string())?;
    let has_begun = async || {
        fixture.provider.stat(fixture.instance, b"log").await.is_ok_and(|found| found.size > 1 << 20)
    };
    if !until(Duration::from_secs(5), has_begun).await {
        return Err("it did not begin".into());
    }
    let Ok(content) = soon(fixture.provider.read(fixture.instance, b"log", 0, u64::MAX)).await else {
        return Ok(Verdict::Through("a request hangs".into()));
    };
    let content = content.map_err(|error| error.to_string())?;
    let size = content.metadata.size;
    Ok(match soon(all_of(content)).await {
        Ok(Ok(found)) => {
            Verdict::through_if(found.len() as u64 != size, format!("{} of {size} bytes", found.len()))
        }
        Ok(Err(error)) => Verdict::Through(error.to_string()),
        Err(hangs) => hangs,
    })
}

pub(crate) async fn deep(fixture: &Fixture) -> Result<Verdict, String> {
    fixture.attempt(&["leave-a-deep-tree", "200"]).await?;
    let name = "d".repeat(100);
    Ok(match soon(fixture.provider.remove(fixture.instance, name.as_bytes(), true)).await {
        Ok(Ok(removed)) => Verdict::through_if(removed != 200, format!("{removed} directories went")),
        Ok(Err(error)) => Verdict::Through(error.to_string()),
        Err(hangs) => hangs,
    })
}

/// The keeper serves a bounded number at a time, and answers meanwhile.
pub(crate) async fn many(fixture: &Fixture) -> Result<Verdict, String> {
    let mut watches = Vec::new();
    for _ in 0..64 {
        match fixture.provider.watch(fixture.instance, b"/workspace").await {
            Ok(watch) => watches.push(watch),
            Err(FileError::Busy { .. }) => {
                let answers = fixture.answers().await;
                return Ok(Verdict::through_if(!answers, format!("{} at a time", watches.len())));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(Verdict::Through("no limit on concurrent requests".into()))
}

/// The process that serves a request runs inside, with the ids of code inside.
pub(crate) async fn look_into_the_server(fixture: &Fixture) -> Result<Verdict, String> {
    let _watch =
        fixture.provider.watch(fixture.instance, b"/workspace").await.map_err(|error| error.to_string())?;
    a_moment(50).await;
    fixture.attempt(&["look-into-children-of-process-1"]).await
}

/// A naive read of a pipe without a writer blocks.
pub(crate) fn naive_read_waits() -> Result<Verdict, String> {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let pipe = place.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).map_err(|error| error.to_string())?;
    let (tell, hear) = mpsc::channel();
    let path = pipe.clone();
    let reader = std::thread::spawn(move || tell.send(fs::read(path).is_ok()));
    let waits = hear.recv_timeout(Duration::from_millis(300)).is_err();
    // Unblocks it.
    let opened = fs::OpenOptions::new().read(true).write(true).open(&pipe);
    drop(opened);
    let _ = reader.join();
    Ok(Verdict::through_if(waits, "a read of a pipe waits for a writer"))
}

/// A naive lookup resolves a path below a directory of the host.
pub(crate) fn naive_read_follows_links() -> Result<Verdict, String> {
    let look_up = || -> io::Result<Vec<u8>> {
        let (targets, root) = (tempfile::tempdir()?, tempfile::tempdir()?);
        fs::write(targets.path().join("canary"), "of the host")?;
        symlink(targets.path(), root.path().join("link"))?;
        fs::read(root.path().join("link/canary"))
    };
    Ok(Verdict::through_if(look_up().is_ok(), "a read through a link leaves the root"))
}
