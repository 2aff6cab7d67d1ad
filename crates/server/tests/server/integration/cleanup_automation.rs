//! What is lost, stuck or failing is noticed, named and put right.

use pinfold_alerts::Alert;
use pinfold_api::{AlertSubject, BodyRef, Cause, CleanupReason, HealthMetrics, Indicator, State};
use pinfold_client::Answered;
use pinfold_engine::Config;

use super::{is_proof, sandbox, sh, small, until};
use crate::alerts::{ANY, hasty, under};
use crate::ground::{on_server, on_server_of, sh as script};
use crate::obstacle::Obstacle;

#[tokio::test(flavor = "multi_thread")]
async fn orphaned_sandbox_detection() {
    on_server(|ground| async move {
        let client = ground.client();
        let wanted = sandbox(&client, small()).await;
        sh(&client, &wanted, "true").await;
        // It does not go when it is asked to, so that it can be seen.
        let orphan = ground.orphan("trap '' TERM; while :; do sleep 0.1; done").await;
        let orphaned = || async { client.metrics(None).await.unwrap().health.orphaned };

        let looked = client.audit().await.unwrap();
        let before = orphaned().await;
        let found = client.reconcile(0).await.unwrap();
        let meanwhile = orphaned().await;
        let record = client.sandbox(&orphan).await.unwrap();
        let stopped = client.stop(&orphan, true, 60).await.unwrap();

        let body = BodyRef { sandbox_id: orphan.clone(), generation: 1 };
        assert_eq!((looked.bodies, looked.records), (2, 1));
        assert_eq!(looked.bodies_without_record, [body]);
        assert_eq!(found.bodies_without_record, looked.bodies_without_record);
        assert_eq!((before, meanwhile, orphaned().await), (0, 1, 0), "a look alone changes nothing");
        assert_eq!((record.status.state, record.status.reason), (State::Terminating, Some(Cause::Orphan)));
        let Answered::Done(receipt) = stopped else { panic!("{stopped:?}") };
        assert!(receipt.cause == Cause::Orphan && is_proof(Some(&receipt)), "{receipt:#?}");
        let after = client.audit().await.unwrap();
        assert_eq!((after.bodies, after.records, after.bodies_without_record.len()), (1, 1, 0));
        assert_eq!(client.sandbox(&wanted).await.unwrap().status.state, State::Ready);
        let text = String::from_utf8(ground.get("/metrics").await.bytes.to_vec()).unwrap();
        assert!(text.contains("\npinfold_orphans_found_total 1.0\n"), "{text}");
        // Whoever has found it: no run of cleanup has.
        let item = |what: &str| format!("\npinfold_cleanup_items_total{{what=\"{what}\"}} 1.0\n");
        assert!(text.contains(&item("orphaned_found")) && text.contains(&item("orphaned_ended")), "{text}");
        client.clean_up(false).await.unwrap();
        let told = client.metrics(None).await.unwrap();
        let cleanup = told.cleanup.unwrap();
        assert_eq!((cleanup.orphaned_detected, cleanup.orphaned_terminated), (1, 1), "{cleanup:#?}");
        assert_eq!((cleanup.stuck_terminated, cleanup.evicted), (0, 0), "{cleanup:#?}");
        let (together, by_layer) = (told.latencies.cleanup.unwrap(), told.latencies.cleanup_by_layer);
        assert!(by_layer.contains_key("scheduled"), "{by_layer:#?}");
        assert_eq!(by_layer.values().map(|times| times.count).sum::<u64>(), together.count);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stuck_sandbox_detection() {
    let mut engine = Config::default();
    engine.cleanup.rules.stuck_ms = 2_000;
    engine.cleanup.sample_ms = 300;
    let mut rules = under(hasty(&[(Alert::SandboxStuck, ANY), (Alert::SandboxEvent, ANY)]));
    rules.policy.stop_backoff_ms = vec![200];
    rules.policy.stop_attempts = 1_000;

    on_server_of(engine, rules, |ground| async move {
        let client = ground.client();
        let [silent, at_work] = [sandbox(&client, small()).await, sandbox(&client, small()).await];
        ground.sh_in_background(&silent, script("exec sleep 1000")).await;
        ground.sh_in_background(&at_work, script("while :; do echo at work; sleep 0.05; done")).await;

        let dry = until("somebody is stuck", || async {
            let looked = client.clean_up(true).await.unwrap();
            (!looked.found.is_empty()).then_some(looked)
        })
        .await;
        let real = client.clean_up(false).await.unwrap();
        let again = client.clean_up(false).await.unwrap();

        for looked in [&dry, &real] {
            let found: Vec<_> = looked.found.iter().map(|it| (&it.sandbox_id, it.reason)).collect();
            assert_eq!(found, [(&silent, CleanupReason::Silent)], "{looked:#?}");
            assert_eq!(looked.scanned, 2);
        }
        assert_eq!((dry.ended.len(), real.ended.len(), real.failed.len()), (0, 1, 0));
        let ended = &real.ended[0];
        assert_eq!((&ended.sandbox_id, ended.cause), (&silent, Some(Cause::Inactivity)));
        assert!(is_proof(ended.receipt.as_ref()), "{ended:#?}");
        assert_eq!((again.scanned, again.found.len()), (1, 0));
        assert_eq!(client.sandbox(&at_work).await.unwrap().status.state, State::Running);
        let cleanup = client.metrics(None).await.unwrap().cleanup.unwrap();
        assert_eq!((cleanup.runs, cleanup.total_scanned), (2, 3));
        assert_eq!((cleanup.stuck_terminated, cleanup.failed_attempts), (1, 0));
        assert_eq!((cleanup.orphaned_detected, cleanup.evicted), (0, 0));

        // One that cannot be ended is stuck until it can.
        let mut obstacle = Obstacle::put(ground.data.path(), &format!("{at_work}.1"));
        client.stop(&at_work, true, 0).await.unwrap();
        let subject = |id: &str, event: &str| AlertSubject { sandbox_id: id.to_owned(), event: event.into() };
        let stuck = Some(subject(&at_work, "stuck"));
        let alerts = until("it is told", || async {
            let alerts = client.health().await.unwrap().alerts.unwrap();
            alerts.iter().any(|alert| alert.subject == stuck).then_some(alerts)
        })
        .await;
        let figures = client.metrics(None).await.unwrap().health;
        let told: Vec<_> = alerts.iter().map(|alert| (alert.name.as_str(), alert.subject.clone())).collect();
        assert_eq!((told.len(), &told[0]), (3, &("sandbox_stuck", None)), "{told:?}");
        // Which of the two was noticed first depends on when was looked.
        for about in [Some(subject(&silent, "timeout")), stuck.clone()] {
            assert!(told.contains(&("sandbox_event", about)), "{told:?}");
        }
        assert_eq!((figures.stuck, figures.indicator), (1, Indicator::Critical));

        obstacle.remove();
        until("nobody is stuck", || async {
            (client.metrics(None).await.unwrap().health.stuck == 0).then_some(())
        })
        .await;
        let Answered::Done(gone) = client.wait_gone(&at_work, 60).await.unwrap() else {
            panic!("it is there")
        };
        assert!(is_proof(gone.receipt.as_ref()), "{gone:#?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn healthy_failure_rate_maintenance() {
    on_server(|ground| async move {
        let client = ground.client();
        let id = sandbox(&client, small()).await;
        let health = || async { client.metrics(None).await.unwrap().health };
        let share = |failed: u32, all: u32, indicator| HealthMetrics {
            indicator,
            active: 1,
            stuck: 0,
            orphaned: 0,
            failure_rate: Some(f64::from(failed) / f64::from(all)),
        };

        for _ in 0..18 {
            sh(&client, &id, "true").await;
        }
        sh(&client, &id, "false").await;
        let cancelled = ground.sh_in_background(&id, script("sleep 1000")).await;
        client.cancel(&cancelled).await.unwrap();
        let few = health().await;
        for _ in 0..2 {
            sh(&client, &id, "exit 3").await;
        }
        let some = health().await;
        for _ in 0..5 {
            sh(&client, &id, "exit 4").await;
        }
        let many = health().await;

        assert_eq!(few, share(1, 20, Indicator::Healthy), "what was cancelled is no failure");
        assert_eq!(some, share(3, 22, Indicator::Degraded));
        assert_eq!(many, share(8, 27, Indicator::Critical));
        let rates = client.metrics(None).await.unwrap().rates;
        assert_eq!((rates.failure, rates.timeout), (many.failure_rate, Some(0.0)));
    })
    .await;
}
