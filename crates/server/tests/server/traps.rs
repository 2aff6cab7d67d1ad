//! Traps that others have fallen into, with real sandboxes: each as what happens here instead.

use pinfold_api::{ErrorCode, Finding, State};
use pinfold_client::{Answered, ClientError};
use serde_json::json;

use crate::ground::{keeper_of, on_server, on_server_under, rules};
use crate::obstacle::Obstacle;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_gone_is_told_by_its_code_and_never_by_words() {
    on_server(|ground| async move {
        let client = ground.client();
        let wish = json!({ "name": "410 Gone", "limits": { "memory_mb": 64 } });
        let made = ground.post("/api/sandbox", wish).await.json();
        let id = made["id"].as_str().unwrap();

        let alive = ground.sh(id, "echo 410 Gone; echo sandbox_gone >&2; exit 1").await;
        let still = client.sandbox(id).await.unwrap();
        client.stop(id, true, 60).await.unwrap();
        let gone = ground.post(&format!("/api/sandbox/{id}/exec"), crate::ground::sh("true")).await;
        let told = client.examine(id).await;

        assert_eq!((&alive["stdout"], &alive["exit_code"]), (&json!("410 Gone\n"), &json!(1)));
        assert_eq!(still.status.state, State::Ready, "whatever it says about itself");
        assert_eq!((gone.status, gone.code()), (410, ErrorCode::SandboxGone));
        assert!(told.is_ok(), "what is gone can be looked at: {told:?}");
        let unknown = client.sandbox("sbx_01m7h9849weh0tapx1maw3q2yb").await;
        assert!(
            matches!(&unknown, Err(ClientError::Refused { detail, .. }) if detail.code == ErrorCode::UnknownSandbox),
            "what never was is not gone: {unknown:?}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_cannot_be_released_keeps_a_dead_sandbox_terminating_until_every_kind_is_proven_absent()
{
    let mut rules = rules();
    rules.policy.stop_backoff_ms = vec![200];
    rules.policy.stop_attempts = 1_000;
    on_server_under(rules, |ground| async move {
        let client = ground.client();
        let id = ground.sandbox().await;
        let mut obstacle = Obstacle::put(ground.data.path(), &format!("{id}.1"));
        let (pid, began) = keeper_of(ground.data.path(), &format!("{id}.1"));

        let stopped = client.stop(&id, true, 2).await.unwrap();
        let meanwhile = client.sandbox(&id).await.unwrap();
        let alive = pinfold_keeper::process::began(pid).unwrap();
        let events = client.events(Some(&id), 0).await.unwrap().events;
        obstacle.remove();
        let gone = client.stop(&id, true, 60).await.unwrap();

        let Answered::Pending(_) = stopped else { panic!("a mount is left: {stopped:?}") };
        assert_ne!(alive, Some(began), "its processes are dead");
        assert_eq!(meanwhile.status.state, State::Terminating, "neither gone nor alive again");
        let failed = events.iter().find(|event| event.event == "stop_failed").unwrap();
        assert!(json!(failed.details).to_string().contains("busy"), "{failed:#?}");
        let Answered::Done(receipt) = gone else { panic!("{gone:?}") };
        let kinds: Vec<_> = receipt.checks.iter().map(|check| check.kind.as_str()).collect();
        let all = ["processes", "cgroups", "mounts", "devices", "namespaces", "directories", "sockets"];
        assert_eq!(kinds, all);
        assert!(receipt.checks.iter().all(|check| check.result == Finding::Absent), "{receipt:#?}");
    })
    .await;
}
