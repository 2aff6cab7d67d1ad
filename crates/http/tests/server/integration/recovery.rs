//! Failing agent runs: what is reported and kept, while everything else continues.

use pinfold_api::{ArtifactState, Cause, ExecRequest, ExecutionState, State};
use serde_json::json;

use super::{exec, is_proof, run, run_with, sandbox, sh, small, stdout};
use crate::fixture::with_server;

#[tokio::test(flavor = "multi_thread")]
async fn graceful_failure_handling() {
    with_server(|fixture| async move {
        let client = fixture.client();

        let context = json!({ "script": "echo half > half; echo why >&2; exit 3", "artifacts": ["half"] });
        let failing = run_with(&client, "VALIDATION", context).await;
        let absent = run_with(&client, "VALIDATION", json!({ "command": ["/no/such/program"] })).await;
        let killed = run(&client, "VALIDATION", "kill -SEGV $$").await;
        let next = run(&client, "VALIDATION", "echo well").await;

        assert_eq!((failing.state, failing.exit_code), (ExecutionState::Exited, Some(3)));
        assert_eq!(failing.cause, Some(Cause::ExitNonzero));
        assert_eq!(failing.output.as_ref().unwrap().stderr.as_deref(), Some("why\n"));
        assert_eq!((failing.artifacts[0].state, failing.artifacts[0].size), (ArtifactState::Kept, Some(5)));
        assert_eq!((absent.cause, absent.exit_code), (Some(Cause::ExitNonzero), Some(127)), "{absent:#?}");
        assert_eq!((killed.cause, killed.exit_code), (Some(Cause::ExitNonzero), Some(139)));
        for run in [&failing, &absent, &killed] {
            assert!(run.attempts.len() == 1 && is_proof(run.receipt.as_ref()), "{run:#?}");
            let state = client.sandbox(&run.sandbox_id).await.unwrap().status.state;
            assert_eq!(state, State::Failed, "{run:#?}");
        }
        assert_eq!((next.cause, stdout(&next)), (Some(Cause::Completed), "well\n"));
        let stats = client.stats().await.unwrap();
        assert_eq!((stats.total_created, stats.total_destroyed, stats.present), (4, 4, 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recovery_from_sandbox_timeout() {
    with_server(|fixture| async move {
        let client = fixture.client();
        let late = json!({ "script": "echo half | tee half; sleep 60", "artifacts": ["half"] });

        let timed_out = run_with(&client, "HASTY", late).await;
        let again = run(&client, "HASTY", "echo in time").await;
        let id = sandbox(&client, small()).await;
        let mut slow = ExecRequest::of(["sh", "-c", "sleep 61 & sleep 62"].map(str::to_owned).to_vec());
        slow.timeout_ms = Some(200);
        let slow = exec(&client, &id, slow).await;
        let left = sh(&client, &id, "cat /proc/[0-9]*/comm | grep -c sleep").await;

        assert_eq!((timed_out.state, timed_out.cause), (ExecutionState::TimedOut, Some(Cause::TimeLimit)));
        assert_eq!(timed_out.attempts.len(), 1, "a timeout is not retried");
        assert_eq!(stdout(&timed_out), "half\n");
        assert_eq!(
            (timed_out.artifacts[0].state, timed_out.artifacts[0].size),
            (ArtifactState::Kept, Some(5))
        );
        assert!(is_proof(timed_out.receipt.as_ref()), "{timed_out:#?}");
        assert_eq!((again.cause, stdout(&again)), (Some(Cause::Completed), "in time\n"));
        assert_eq!((slow.state, slow.cause), (ExecutionState::TimedOut, Cause::TimeLimit));
        assert_eq!(left.output.stdout.as_deref(), Some("0\n"), "its processes are gone, its sandbox is not");
        let record = client.sandbox(&id).await.unwrap();
        assert_eq!((record.status.state, record.timeouts, record.generation), (State::Ready, 1, 1));
    })
    .await;
}
