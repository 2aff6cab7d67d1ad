//! Known bugs of comparable systems, and how Pinfold behaves instead, with real sandboxes.

use pinfold_api::{ErrorCode, Finding, State};
use pinfold_client::{ClientError, Completion};
use serde_json::json;

use crate::busy_mount::BusyMount;
use crate::fixture::{keeper_of, rules, with_server, with_service_config};

#[tokio::test(flavor = "multi_thread")]
async fn ended_sandbox_is_reported_by_error_code() {
    with_server(|fixture| async move {
        let client = fixture.client();
        let spec = json!({ "name": "410 Gone", "limits": { "memory_mb": 64 } });
        let made = fixture.post("/api/sandbox", spec).await.json();
        let id = made["id"].as_str().unwrap();

        let alive = fixture.sh(id, "echo 410 Gone; echo sandbox_gone >&2; exit 1").await;
        let still = client.sandbox(id).await.unwrap();
        client.stop(id, Some(0), 60).await.unwrap();
        let gone = fixture.post(&format!("/api/sandbox/{id}/exec"), crate::fixture::sh("true")).await;
        let reported = client.examine(id).await;

        assert_eq!((&alive["stdout"], &alive["exit_code"]), (&json!("410 Gone\n"), &json!(1)));
        assert_eq!(still.status.state, State::Ready, "its output does not change its state");
        assert_eq!((gone.status, gone.code()), (410, ErrorCode::SandboxGone));
        assert!(reported.is_ok(), "an ended sandbox can be examined: {reported:?}");
        let unknown = client.sandbox("sbx_01m7h9849weh0tapx1maw3q2yb").await;
        assert!(
            matches!(&unknown, Err(ClientError::Refused { detail, .. }) if detail.code == ErrorCode::UnknownSandbox),
            "a sandbox that never existed is not gone: {unknown:?}"
        );
    })
    .await;
}

/// What only real sandboxes do.
mod on_linux {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_mount_that_cannot_be_released_keeps_a_dead_sandbox_terminating_until_every_kind_is_proven_absent()
     {
        let mut rules = rules();
        rules.policy.stop_backoff_ms = vec![200];
        rules.policy.stop_attempts = 1_000;
        with_service_config(rules, |fixture| async move {
            let client = fixture.client();
            let id = fixture.sandbox().await;
            let mut busy_mount = BusyMount::mount(fixture.data.path(), &id);
            let keeper = keeper_of(fixture.data.path(), &id);

            let stopped = client.stop(&id, Some(0), 2).await.unwrap();
            let meanwhile = client.sandbox(&id).await.unwrap();
            let alive = keeper.is_alive().unwrap();
            let events = client.events(Some(&id), 0).await.unwrap().events;
            busy_mount.remove();
            let gone = client.stop(&id, Some(0), 60).await.unwrap();

            let Completion::Pending(_) = stopped else { panic!("a mount is left: {stopped:?}") };
            assert!(!alive, "its processes are dead");
            assert_eq!(meanwhile.status.state, State::Terminating, "neither gone nor alive again");
            let failed = events.iter().find(|event| event.event == "stop_failed").unwrap();
            assert!(json!(failed.details).to_string().contains("busy"), "{failed:#?}");
            let Completion::Done(receipt) = gone else { panic!("{gone:?}") };
            let kinds: Vec<_> = receipt.checks.iter().map(|check| check.kind.as_str()).collect();
            let all = ["processes", "cgroups", "mounts", "devices", "namespaces", "directories", "sockets"];
            assert_eq!(kinds, all);
            assert!(receipt.checks.iter().all(|check| check.result == Finding::Absent), "{receipt:#?}");
        })
        .await;
    }
}
