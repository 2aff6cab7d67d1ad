//! A disk that fills up under load: creates are refused, running executions continue, nothing is lost, and service
//! resumes when space is free again.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pinfold_api::ErrorCode;
use pinfold_engine::Config;
use pinfold_lifecycle::HostReserve;
use rustix::fs::statvfs;
use serde_json::{Value, json};

use crate::fixture::{Fixture, sh, with_engine};

const DISK_MB: u64 = 192;
const KEEP_MB: u64 = 64;

/// A small file system, unmounted on drop even if files in it are open.
pub(crate) struct SmallDisk {
    pub(crate) at: PathBuf,
    _below: tempfile::TempDir,
}

impl SmallDisk {
    pub(crate) fn mount() -> Self {
        let below = tempfile::tempdir().unwrap();
        let at = below.path().join("disk");
        std::fs::create_dir(&at).unwrap();
        let size = format!("size={DISK_MB}m,mode=755");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&at).status();
        assert!(mounted.unwrap().success(), "could not mount the test's file system");
        Self { at, _below: below }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.at).status();
    }
}

fn left_mb(path: &Path) -> u64 {
    let found = statvfs(path).unwrap();
    (found.f_bavail * found.f_frsize) >> 20
}

/// Writes until at most `leave_mb` is left; with 0, until a write fails.
pub(crate) fn fill(file: &Path, leave_mb: u64) {
    let mut open = File::options().create(true).append(true).open(file).unwrap();
    let block = vec![7_u8; 64 << 10];
    while left_mb(file) > leave_mb || leave_mb == 0 {
        if open.write_all(&block).is_err() {
            return;
        }
    }
}

/// Creates that succeeded and that were refused under load, and whether the load must stop.
#[derive(Default)]
struct Tally {
    made: AtomicU64,
    refused: AtomicU64,
    over: AtomicBool,
}

/// Creates, uses and stops sandboxes until `over` is set.
async fn load(fixture: Arc<Fixture>, tally: Arc<Tally>) {
    while !tally.over.load(Ordering::Relaxed) {
        let made = fixture.post("/api/sandbox", json!({ "limits": { "memory_mb": 64 } })).await;
        if made.status != 201 {
            tally.refused.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        }
        tally.made.fetch_add(1, Ordering::Relaxed);
        let id = made.json()["id"].as_str().unwrap().to_owned();
        fixture.post(&format!("/api/sandbox/{id}/exec"), sh("echo work")).await;
        fixture.delete(&format!("/api/sandbox/{id}")).await;
    }
}

/// Repeats a create until its answer meets the condition.
async fn until_create(fixture: &Fixture, what: &str, met: impl Fn(u16, &Value) -> bool) -> Value {
    for _ in 0..300 {
        let answer = fixture.post("/api/sandbox", json!({ "limits": { "memory_mb": 64 } })).await;
        let reported = answer.json();
        if met(answer.status, &reported) {
            return reported;
        }
        if answer.status == 201 {
            fixture.delete(&format!("/api/sandbox/{}", reported["id"].as_str().unwrap())).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never: {what}");
}

fn is_short_of_disk(status: u16, reported: &Value) -> bool {
    let details = &reported["error"]["details"];
    status == 503
        && reported["error"]["code"] == json!(ErrorCode::LowCapacity)
        && details["resource"] == "disk"
        && details["needed_mb"] == KEEP_MB
        && details["available_mb"].as_u64().is_some_and(|left| left < KEEP_MB)
        && details["cleaned"].is_u64()
        && details["skipped"].is_u64()
}

async fn ticks(fixture: &Fixture, execution: &str) -> u64 {
    let page = fixture.get(&format!("/api/executions/{execution}")).await.json();
    assert_eq!(page["state"], "running", "{page:#}");
    let events = fixture.get(&format!("/api/executions/{execution}/output?after=0")).await.json();
    events["events"].as_array().unwrap().len() as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_refuses_only_creates_and_service_resumes() {
    let disk = SmallDisk::mount();
    let ballast = disk.at.join("ballast");
    let data = tempfile::tempdir_in(&disk.at).unwrap();
    let keep = HostReserve { disk_mb: KEEP_MB, ..Config::default().keep };
    with_engine(data, Config { keep, ..Config::default() }, |fixture| async move {
        let old = fixture.sandbox().await;
        let job = fixture.sh_in_background(&old, sh("while :; do echo tick; sleep 0.2; done")).await;
        let tally = Arc::new(Tally::default());
        let load_tasks: Vec<_> = (0..3).map(|_| tokio::spawn(load(fixture.clone(), tally.clone()))).collect();
        fixture
            .until("some sandboxes were created", "/api/sandbox/stats", |stats| {
                (stats["total_created"].as_u64() > Some(4)).then_some(())
            })
            .await;

        // Below the reserve: creates are refused with the measurements, and running executions continue.
        fill(&ballast, KEEP_MB / 2);
        until_create(&fixture, "a refusal with the measurements", is_short_of_disk).await;
        let before = ticks(&fixture, &job).await;
        let ran = fixture.sh(&old, "echo still here").await;
        assert_eq!((&ran["exit_code"], &ran["stdout"]), (&json!(0), &json!("still here\n")));
        assert!(tally.refused.load(Ordering::Relaxed) > 0 || tally.made.load(Ordering::Relaxed) > 4);

        // Completely full: creates are refused in the same way.
        fill(&ballast, 0);
        until_create(&fixture, "a refusal on a full disk", is_short_of_disk).await;
        tokio::time::sleep(Duration::from_secs(1)).await;

        // Space is free again: service resumes without intervention.
        std::fs::remove_file(&ballast).unwrap();
        let made_so_far = tally.made.load(Ordering::Relaxed);
        let new = until_create(&fixture, "a create is admitted again", |status, _| status == 201).await;
        let new = new["id"].as_str().unwrap();
        assert_eq!(fixture.sh(new, "echo hello > x && cat x").await["stdout"], "hello\n");
        assert_eq!(fixture.sh(&old, "echo still here").await["exit_code"], 0);
        let more = || tally.made.load(Ordering::Relaxed) > made_so_far;
        for _ in 0..400 {
            if more() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(more(), "the load creates sandboxes again");
        assert!(ticks(&fixture, &job).await > before, "the execution that ran throughout has continued");

        tally.over.store(true, Ordering::Relaxed);
        for one in load_tasks {
            one.await.unwrap();
        }
        for id in [old.as_str(), new] {
            let receipt = fixture.delete(&format!("/api/sandbox/{id}")).await;
            let checks = receipt.json()["checks"].as_array().unwrap().clone();
            assert!(checks.iter().all(|check| check["result"] == "absent"), "{:?}", receipt.bytes);
        }
        let stats = fixture.get("/api/sandbox/stats").await.json();
        assert_eq!(stats["total_created"], stats["total_destroyed"], "{stats:#}");
        assert_eq!(fixture.disagreements(), [] as [String; 0]);
    })
    .await;
}
