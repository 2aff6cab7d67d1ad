//! Agent runs in their own sandboxes: provisioned automatically, limited, isolated, and gone afterwards.

use std::path::Path;

use futures_util::future::join_all;
use pinfold_api::{Cause, LeaseState, LimitsRequest, LogSource, State};
use pinfold_test_support::until_some;
use serde_json::{Value, json};

use super::{HEAVY, HELD, begin, end_of, is_proof, let_go, ms_between, run, sandbox, sh, small, stdout};
use crate::fixture::with_server;

#[tokio::test(flavor = "multi_thread")]
async fn automatic_sandbox_provisioning_for_agent_execution() {
    with_server(|fixture| async move {
        let client = fixture.client();
        assert_eq!(client.stats().await.unwrap().total_created, 0);

        let run = run(&client, "ELICITATION", "echo done; cat /proc/1/comm").await;

        assert_eq!((run.exit_code, run.cause), (Some(0), Some(Cause::Completed)), "{run:#?}");
        assert_eq!(stdout(&run).lines().next(), Some("done"));
        assert_ne!(
            stdout(&run).lines().nth(1),
            std::fs::read_to_string("/proc/1/comm").unwrap().lines().next()
        );
        assert_eq!((run.attempts.len(), run.attempts[0].generation), (1, 1));
        let made = client.sandbox(&run.sandbox_id).await.unwrap();
        assert_eq!(
            (made.agent_type.as_deref(), made.task_id.as_deref()),
            (Some("ELICITATION"), Some("task_1"))
        );
        let limits = made.limits;
        assert_eq!((limits.memory_mb, limits.network_requests), (Some(256), Some(10)));
        assert_eq!((limits.cpu_time_ms, limits.timeout_ms), (Some(30_000), Some(300_000)));
        assert!(made.ready_at.unwrap() <= run.started_at.unwrap(), "it started before its sandbox was ready");
        assert_eq!(client.stats().await.unwrap().total_created, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exceeding_the_operation_limit_stops_the_sandbox_and_is_reported() {
    with_server(|fixture| async move {
        let client = fixture.client();
        let id = sandbox(&client, LimitsRequest { operations: Some(4), ..small() }).await;

        let modest = sh(&client, &id, "echo on").await;
        let chatty = sh(&client, &id, "while :; do echo on; sleep 0.1; done").await;
        let late = sh(&client, &id, "echo ran").await;

        assert_eq!((modest.cause, modest.exit_code), (Cause::Completed, Some(0)));
        assert_eq!((chatty.cause, chatty.exit_code), (Cause::OperationLimit, Some(137)));
        assert_eq!((late.cause, late.exit_code), (Cause::OperationLimit, None));
        assert_eq!(late.output.stdout.as_deref(), Some(""));
        assert_eq!(client.sandbox(&id).await.unwrap().limits.operations, Some(4));
        let events = fixture.get(&format!("/api/sandbox/{id}/events")).await.json().to_string();
        assert_eq!(events.matches(r#""cause":"operation_limit""#).count(), 2, "{events}");
    })
    .await;
}

/// Traces of a sandbox on the host: processes in its cgroups, directories and mounts.
fn traces(data: &Path, sandbox: &str) -> Vec<String> {
    let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    let reported = |path: &Path| std::fs::read_to_string(path).unwrap_or_default().contains(sandbox);
    let processes = entries(Path::new("/proc")).map(|it| it.path().join("cgroup"));
    let disks = entries(Path::new("/sys/block")).map(|it| it.path().join("loop/backing_file"));
    let directories = ["instances", "control"].map(|it| data.join("linux").join(it));
    let directories = directories.iter().flat_map(|it| entries(it).map(|it| it.path()));
    let directories = directories.filter(|it| it.to_string_lossy().contains(sandbox));
    let found = processes.chain(disks).filter(|it| reported(it)).chain(directories);
    found.map(|it| it.display().to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn sandbox_logs_in_execution_metadata() {
    with_server(|fixture| async move {
        let client = fixture.client();

        let run = run(&client, "VALIDATION", "echo one; echo two >&2; exit 4").await;
        let again = end_of(&client, &run).await;
        let log = client.logs(&run.sandbox_id, "").await.unwrap();

        let output = run.output.as_ref().unwrap();
        assert_eq!((output.stdout.as_deref(), output.stderr.as_deref()), (Some("one\n"), Some("two\n")));
        assert_eq!(
            (again.output.as_ref(), again.exit_code),
            (Some(output), Some(4)),
            "after its sandbox is gone"
        );
        assert_eq!(run.links.logs, format!("/api/sandbox/{}/logs", run.sandbox_id));
        let written = |source| {
            let of_source = log.entries.iter().filter(move |entry| entry.source == source);
            of_source.map(|entry| (entry.execution_id.as_deref(), entry.text.as_deref())).collect::<Vec<_>>()
        };
        let own = Some(run.execution_id.as_str());
        assert_eq!(written(LogSource::Stdout), [(own, Some("one\n"))]);
        assert_eq!(written(LogSource::Stderr), [(own, Some("two\n"))]);
        assert!(log.over && log.entries.len() > 4, "control entries are part of the log: {log:#?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_agent_execution_support() {
    const TYPES: [&str; 6] =
        ["ELICITATION", "TEST_WRITER", "IMPLEMENTATION", "CONTEXT_GATHERING", "VALIDATION", "VALIDATION"];
    with_server(|fixture| async move {
        let client = fixture.client();
        let context = |number: usize| json!({ "script": format!("{HELD}; echo {number}") });

        let begun = TYPES.iter().enumerate().map(|(number, of)| begin(&client, of, context(number)));
        let begun = join_all(begun).await;
        let meanwhile = client.stats().await.unwrap();
        join_all(begun.iter().map(|run| let_go(&client, run))).await;
        let ended = join_all(begun.iter().map(|run| end_of(&client, run))).await;

        assert_eq!((meanwhile.running, meanwhile.present), (6, 6), "all at once");
        for (number, run) in ended.iter().enumerate() {
            assert_eq!((run.exit_code, stdout(run)), (Some(0), format!("ready\n{number}\n").as_str()));
            assert_eq!(run.agent_type.as_deref(), Some(TYPES[number]));
            assert!(run.attempts.len() == 1 && is_proof(run.receipt.as_ref()), "{run:#?}");
        }
        let after = client.stats().await.unwrap();
        assert_eq!((after.total_created, after.total_destroyed, after.present), (6, 6, 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lifecycle_duration_monitoring() {
    with_server(|fixture| async move {
        let client = fixture.client();

        let run = run(&client, "VALIDATION", "sleep 0.7").await;
        let made = client.sandbox(&run.sandbox_id).await.unwrap();
        let resources = client.resources(&run.sandbox_id).await.unwrap();
        let metrics = client.metrics(None).await.unwrap();

        let moments = [
            made.created_at.unwrap(),
            made.ready_at.unwrap(),
            run.started_at.unwrap(),
            run.ended_at.unwrap(),
            run.receipt.unwrap().verified_at,
        ];
        assert!(moments.is_sorted(), "{moments:?}");
        assert!(ms_between(&moments[2], &moments[3]) >= 690, "{moments:?}");
        let life_ms = ms_between(&moments[0], &moments[4]);
        let reported_ms = i64::try_from(resources.duration_ms).unwrap();
        assert!((reported_ms - life_ms).abs() <= 1_000, "{reported_ms} instead of {life_ms}");
        let average = metrics.overview.average_lifetime_seconds.unwrap();
        assert!(
            (average * 1_000.0 - resources.duration_ms as f64).abs() < 1.0,
            "{average} and {reported_ms} ms"
        );
        for measured in [&metrics.latencies.create, &metrics.latencies.exec, &metrics.latencies.stop] {
            let measured = measured.as_ref().unwrap();
            assert_eq!(measured.count, 1);
            assert!(measured.p50 > 0.0 && measured.p99 * 1_000.0 < life_ms as f64 + 1_000.0, "{measured:?}");
        }
    })
    .await;
}

/// Uses plain JSON with `curl`, as an agent worker without Pinfold's client would.
#[tokio::test(flavor = "multi_thread")]
async fn integration_with_existing_agent_worker() {
    with_server(|fixture| async move {
        let curl = async |arguments: &str| -> Value {
            let mut shell = std::process::Command::new("sh");
            let authorised = "-H \"Authorization: Bearer $TOKEN\"";
            shell.args(["-euc", &format!("exec curl -fsS {authorised} {arguments}")]);
            shell.env("URL", format!("http://{}", fixture.address)).env("TOKEN", &fixture.admin);
            let ran = tokio::task::spawn_blocking(move || shell.output()).await.unwrap().unwrap();
            assert!(ran.status.success(), "{arguments}: {}", String::from_utf8_lossy(&ran.stderr));
            serde_json::from_slice(&ran.stdout).unwrap()
        };

        let run = curl(
            r#"-X POST "$URL/api/agents/execute" -H "Content-Type: application/json" -d '{
                "taskId": "test-123",
                "agentType": "ELICITATION",
                "context": { "command": ["cat", "question"], "files": { "question": "why?" } }
            }'"#,
        );
        let run = run.await;
        let health = curl(r#""$URL/api/sandbox/health""#).await;
        let metrics = curl(r#""$URL/api/sandbox/metrics""#).await;

        assert_eq!((&run["task_id"], &run["agent_type"]), (&json!("test-123"), &json!("ELICITATION")));
        assert_eq!((&run["exit_code"], &run["output"]["stdout"]), (&json!(0), &json!("why?")));
        let checks = run["receipt"]["checks"].as_array().unwrap();
        assert!(checks.iter().all(|check| check["result"] == "absent"), "{checks:?}");
        assert_eq!((&health["status"], &health["sandboxes"]["active"]), (&json!("ok"), &json!(0)));
        assert_eq!(metrics["by_agent_type"]["ELICITATION"]["executions"], 1);
        assert_eq!(
            (&metrics["overview"]["completed"], &metrics["overview"]["failed"]),
            (&json!(1), &json!(0))
        );
    })
    .await;
}

/// What only real sandboxes do.
mod on_linux {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn resource_limit_enforcement_in_sandbox() {
        with_server(|fixture| async move {
            let client = fixture.client();
            let limits = LimitsRequest {
                memory_mb: Some(64),
                cpu_time_ms: Some(500),
                processes: Some(32),
                disk_mb: Some(8),
                output_mb: Some(1),
                ..LimitsRequest::default()
            };
            let id = sandbox(&client, limits).await;

            for (script, cause) in [
                ("exec tail /dev/zero", Cause::MemoryLimit),
                ("while :; do :; done", Cause::CpuLimit),
                ("i=0; while [ $i -lt 100 ]; do sleep 20 & i=$((i+1)); done; wait", Cause::ProcessLimit),
                ("exec dd if=/dev/zero of=/workspace/x bs=1M count=64", Cause::DiskLimit),
                ("exec yes", Cause::OutputLimit),
            ] {
                let ended = sh(&client, &id, script).await;
                assert_eq!(ended.cause, cause, "{script}: {:?} {:?}", ended.exit_code, ended.output.stderr);
                assert_ne!(ended.exit_code, Some(0), "{script}");
            }
            let after = sh(&client, &id, "rm x && echo works").await;
            let hasty = run(&client, "HASTY", "sleep 60").await;

            assert_eq!((after.cause, after.output.stdout.as_deref()), (Cause::Completed, Some("works\n")));
            assert_eq!(hasty.cause, Some(Cause::TimeLimit));
            let took_ms = ms_between(&hasty.started_at.unwrap(), &hasty.ended_at.unwrap());
            assert!((1_400..20_000).contains(&took_ms), "{took_ms} of 1500 ms");
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn resource_usage_tracking_during_execution() {
        with_server(|fixture| async move {
            let client = fixture.client();
            let script = format!("{HEAVY}; echo ready; while [ ! -e /workspace/go ]; do :; done");
            let run = begin(&client, "VALIDATION", json!({ "script": script })).await;
            let usage = || async { client.resources(&run.sandbox_id).await.unwrap() };

            let early = usage().await;
            let early_ms = early.cpu_ms.unwrap();
            let later = until_some("it has used more", || async {
                let now = usage().await;
                (now.cpu_ms.unwrap() >= early_ms + 200).then_some(now)
            })
            .await;
            let_go(&client, &run).await;
            let ended = end_of(&client, &run).await;

            assert!(early_ms > 0 && early.memory_mb.unwrap() >= 30_000_000.0 / 1_048_576.0, "{early:#?}");
            assert_eq!((early.memory_limit_mb, early.processes), (Some(512), later.processes), "{early:#?}");
            assert!(later.duration_ms > early.duration_ms && later.processes >= Some(1), "{later:#?}");
            let used = ended.usage;
            assert!(used.cpu_ms >= later.cpu_ms && used.memory_peak_bytes >= Some(30_000_000), "{ended:#?}");
            assert_eq!(ended.receipt.unwrap().usage, Some(used));
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn sandbox_cleanup_after_completion() {
        with_server(|fixture| async move {
            let client = fixture.client();
            let script = format!("sleep 1000 & head -c 1000000 /dev/zero > left; {HELD}");
            let run = begin(&client, "VALIDATION", json!({ "script": script })).await;
            let meanwhile = traces(fixture.data.path(), &run.sandbox_id);

            let_go(&client, &run).await;
            let ended = end_of(&client, &run).await;

            let of = |what: &str| meanwhile.iter().filter(|trace| trace.contains(what)).count();
            assert!(
                of("/proc/") >= 3 && of("/control/") == 1,
                "traces are found while it runs: {meanwhile:#?}"
            );
            assert_eq!(traces(fixture.data.path(), &run.sandbox_id), [""; 0]);
            assert!(is_proof(ended.receipt.as_ref()), "{ended:#?}");
            let receipt = ended.receipt.unwrap();
            assert_eq!((receipt.cause, receipt.generation), (Cause::Completed, 1));
            assert!(receipt.freed_bytes >= 1_000_000, "{receipt:#?}");
            let record = client.sandbox(&run.sandbox_id).await.unwrap();
            assert_eq!((record.status.state, record.lease.state), (State::Completed, LeaseState::Free));
            let stats = client.stats().await.unwrap();
            assert_eq!((stats.present, stats.total_destroyed), (0, 1));
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn isolation_of_concurrent_executions() {
        with_server(|fixture| async move {
            let client = fixture.client();
            // Each run writes its word everywhere and looks for the other's.
            let script = format!(
                "echo $WORD > /workspace/word; echo $WORD > /tmp/word; {HELD}; cat /workspace/word /tmp/word; \
                 cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -c \"WORD=$OTHER\"; \
                 ls /workspace; $LAST"
            );
            let context = |word: &str, other: &str, last: &str| {
                let env = json!({ "WORD": word, "OTHER": other, "LAST": last });
                json!({ "script": script, "env": env })
            };
            let careful = begin(&client, "VALIDATION", context("lamb", "wolf", "true")).await;
            let hostile = begin(&client, "VALIDATION", context("wolf", "lamb", "kill -KILL -1")).await;

            let_go(&client, &hostile).await;
            let hostile = end_of(&client, &hostile).await;
            let_go(&client, &careful).await;
            let careful = end_of(&client, &careful).await;

            assert_eq!(stdout(&careful), "ready\nlamb\nlamb\n0\ngo\nword\n");
            assert_eq!(stdout(&hostile), "ready\nwolf\nwolf\n0\ngo\nword\n");
            assert_eq!((careful.exit_code, careful.cause), (Some(0), Some(Cause::Completed)));
            let complaint = hostile.output.as_ref().unwrap().stderr.as_deref().unwrap_or_default();
            assert!(complaint.contains("No such process"), "it could see a foreign process: {complaint}");
            assert_eq!(careful.attempts.len(), 1);
            assert_ne!(careful.sandbox_id, hostile.sandbox_id);
        })
        .await;
    }
}
