//! Attacks by code inside on file requests from outside.

use std::time::Duration;

use pinfold_lifecycle::ProbeResult;
use pinfold_provider::{FileError, Files, InMemoryContent, Provider};

use crate::fixture::{Fixture, INSTANCE};

/// Fails a request that hangs, which these tests look for.
async fn soon<T>(request: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), request).await.unwrap()
}

#[test]
fn a_pipe_a_socket_and_a_device_do_not_hold_up_a_read_or_a_write() {
    Fixture::run(async |fixture| {
        let socket = "import socket; socket.socket(socket.AF_UNIX).bind('/workspace/socket')";
        fixture.sh(&format!("mkfifo /workspace/pipe; python3 -c \"{socket}\"")).await;

        for path in ["/workspace/pipe", "/dev/zero", "/dev/tty", "/dev/ptmx"] {
            let read = soon(fixture.provider.read(INSTANCE, path.as_bytes(), 0, 10)).await.err();
            assert!(
                matches!(read, Some(FileError::NotAFile { .. } | FileError::Failed { .. })),
                "{path}: {read:?}"
            );
        }
        let written =
            soon(fixture.provider.write(INSTANCE, b"pipe", None, &mut InMemoryContent::new(b"x".to_vec())))
                .await;
        assert!(matches!(written, Err(FileError::NotAFile { .. })), "{written:?}");
        assert_eq!(fixture.provider.ping(INSTANCE).await, ProbeResult::Passed);
    });
}

#[test]
fn symlinks_never_lead_outside() {
    let canary = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(canary.path(), "secret of the host").unwrap();
    Fixture::run(async |fixture| {
        let outside = canary.path().display().to_string();
        fixture.sh(&format!("cd /workspace; ln -s {outside} out; ln -s ../../../../{outside} up")).await;
        fixture
            .sh("cd /workspace; ln -s /proc/self/fd/0 magic; ln -s /proc/1/root root; ln -s loop loop")
            .await;

        for path in ["out", "up", "magic", "root/etc/passwd", "loop", "/proc/1/environ", "/proc/self/exe"] {
            let read = soon(fixture.provider.read(INSTANCE, path.as_bytes(), 0, 100)).await;
            assert!(read.is_err(), "{path}");
        }
        assert_eq!(std::fs::read_to_string(canary.path()).unwrap(), "secret of the host");
    });
}

#[test]
fn a_write_through_a_link_replaces_the_link_and_not_what_it_leads_to() {
    Fixture::run(async |fixture| {
        fixture.sh("cd /workspace; echo mine > target; ln -s target link").await;

        fixture
            .provider
            .write(INSTANCE, b"link", None, &mut InMemoryContent::new(b"new".to_vec()))
            .await
            .unwrap();

        assert_eq!(fixture.read_all("target").await, b"mine\n");
        assert_eq!(fixture.read_all("link").await, b"new");
    });
}

#[test]
fn a_symlink_swapped_concurrently_never_leads_outside() {
    let canary = tempfile::tempdir().unwrap();
    std::fs::write(canary.path().join("file"), "secret of the host").unwrap();
    Fixture::run(async |fixture| {
        let outside = canary.path().display();
        let swap = format!(
            "cd /workspace; mkdir real; echo inside > real/file; ln -s {outside} out; ln -s real d; \
             (for i in $(seq 2000); do ln -sfn out d; ln -sfn real d; done; touch over) > /dev/null 2>&1 &"
        );
        fixture.sh(&format!("setsid sh -c '{swap}'")).await;

        for _ in 0..200 {
            if let Ok(mut content) = soon(fixture.provider.read(INSTANCE, b"d/file", 0, 100)).await {
                assert_eq!(content.pieces.next().await.unwrap(), Some(b"inside\n".to_vec()));
            }
            let _ = soon(fixture.provider.write(
                INSTANCE,
                b"d/new",
                None,
                &mut InMemoryContent::new(b"x".to_vec()),
            ))
            .await;
        }

        assert!(!canary.path().join("new").exists());
    });
}

#[test]
fn a_file_that_grows_while_it_is_read_has_an_end() {
    Fixture::run(async |fixture| {
        let grow = "cd /workspace; head -c 1000000 /dev/zero > log; \
                    (for i in $(seq 3000); do head -c 10000 /dev/zero >> log; done) > /dev/null 2>&1 &";
        fixture.sh(&format!("setsid sh -c '{grow}'")).await;

        let mut content = soon(fixture.provider.read(INSTANCE, b"log", 0, u64::MAX)).await.unwrap();
        let mut read = 0;
        while let Some(piece) = soon(content.pieces.next()).await.unwrap() {
            read += piece.len() as u64;
        }

        assert_eq!(read, content.metadata.size);
    });
}

#[test]
fn a_very_deep_tree_is_removed() {
    Fixture::run(async |fixture| {
        let dig = "perl -e 'chdir q(/workspace); for (q(deep), (q(d)) x 10000) { mkdir $_ and chdir $_ or die }' \
                   -e 'open(F, q(>file)) or die'";
        assert_eq!(fixture.sh(dig).await.exit_code, Some(0));

        let removed = soon(fixture.provider.remove(INSTANCE, b"deep", true)).await;

        assert_eq!(removed, Ok(10_002));
    });
}

#[test]
fn the_file_server_process_is_hidden_inside_and_unprivileged() {
    Fixture::run(async |fixture| {
        // A watch keeps a file server process alive while code inside searches for it.
        let _changes = fixture.provider.watch(INSTANCE, b"/workspace").await.unwrap();
        let search = "for p in /proc/[0-9]*; do n=${p#/proc/}; [ $n = 1 ] || [ $n = $$ ] && continue; \
                    grep -q 'PPid:.1$' $p/status || continue; \
                    cat $p/mem > /dev/null 2>&1 && exit 3; ls $p/fd/ > /dev/null 2>&1 && exit 4; \
                    grep -q 'NoNewPrivs:.1' $p/status || exit 5; grep -q 'Seccomp:.2' $p/status || exit 6; \
                    grep -E 'CapEff|Seccomp_filters' $p/status > /workspace/theirs; done; \
                    grep -E 'CapEff|Seccomp_filters' /proc/self/status > /workspace/ours; \
                    cmp /workspace/theirs /workspace/ours || exit 7";

        let outcome = fixture.sh(search).await;

        assert_eq!(outcome.exit_code, Some(0));
    });
}

#[test]
fn file_requests_beyond_the_limit_are_refused_and_the_keeper_answers() {
    Fixture::run(async |fixture| {
        let mut watches = Vec::new();
        let refused = loop {
            match fixture.provider.watch(INSTANCE, b"/workspace").await {
                Ok(watch) => watches.push(watch),
                Err(error) => break error,
            }
            assert!(watches.len() < 100);
        };

        assert!(matches!(refused, FileError::Busy { .. }), "{refused:?}");
        assert_eq!(fixture.provider.ping(INSTANCE).await, ProbeResult::Passed);
        drop(watches);
        let end = tokio::time::Instant::now() + Duration::from_secs(20);
        while fixture.provider.stat(INSTANCE, b"/workspace").await.is_err() {
            assert!(tokio::time::Instant::now() < end);
        }
    });
}
