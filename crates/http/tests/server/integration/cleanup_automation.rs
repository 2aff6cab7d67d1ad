//! Orphaned, stuck and failing sandboxes are detected, reported and cleaned up.

use pinfold_alerts::Alert;
use pinfold_api::{AlertSubject, Cause, CleanupReason, HealthMetrics, Indicator, InstanceRef, State};
use pinfold_client::Completion;
use pinfold_engine::Config;
use pinfold_test_support::until_some;

use super::{is_proof, sandbox, sh, small};
use crate::alerts::{ANY, fast_alerts, with_alerts};
use crate::busy_mount::BusyMount;
use crate::fixture::{sh as script, with_engine_config, with_server};

#[tokio::test(flavor = "multi_thread")]
async fn healthy_failure_rate_maintenance() {
    with_server(|fixture| async move {
        let client = fixture.client();
        let id = sandbox(&client, small()).await;
        let health = || async { client.metrics(None).await.unwrap().health };
        let share = |failed: u32, all: u32, indicator| HealthMetrics {
            indicator,
            active: 1,
            stuck: 0,
            orphaned: 0,
            failure_rate: Some(f64::from(failed) / f64::from(all)),
        };

        for _ in 0..17 {
            sh(&client, &id, "true").await;
        }
        sh(&client, &id, "exit 3").await;
        let cancelled = fixture.sh_in_background(&id, script("sleep 1000")).await;
        client.cancel(&cancelled).await.unwrap();
        fixture.lose_execution().await;
        let few = health().await;
        for _ in 0..2 {
            fixture.lose_execution().await;
        }
        let some = health().await;
        for _ in 0..5 {
            fixture.lose_execution().await;
        }
        let many = health().await;

        assert_eq!(few, share(1, 20, Indicator::Healthy), "an error or a cancellation is no failure");
        assert_eq!(some, share(3, 22, Indicator::Degraded));
        assert_eq!(many, share(8, 27, Indicator::Critical));
        let rates = client.metrics(None).await.unwrap().rates;
        assert_eq!((rates.failure, rates.timeout), (many.failure_rate, Some(0.0)));
    })
    .await;
}

/// What only real sandboxes do.
mod on_linux {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn orphaned_sandbox_detection() {
        with_server(|fixture| async move {
            let client = fixture.client();
            let wanted = sandbox(&client, small()).await;
            sh(&client, &wanted, "true").await;
            // It ignores SIGTERM, so that its stop takes long enough to be observed.
            let orphan = fixture.create_orphan("trap '' TERM; while :; do sleep 0.1; done").await;
            let orphaned = || async { client.metrics(None).await.unwrap().health.orphaned };

            let audit = client.audit().await.unwrap();
            let before = orphaned().await;
            let found = client.reconcile(0).await.unwrap();
            let meanwhile = orphaned().await;
            let record = client.sandbox(&orphan).await.unwrap();
            let stopped = client.stop(&orphan, Some(0), 60).await.unwrap();

            let instance = InstanceRef { sandbox_id: orphan.clone(), generation: 1 };
            assert_eq!((audit.instances, audit.records), (2, 1));
            assert_eq!(audit.instances_without_record, [instance]);
            assert_eq!(found.instances_without_record, audit.instances_without_record);
            assert_eq!((before, meanwhile, orphaned().await), (0, 1, 0), "the audit alone changes nothing");
            assert_eq!(
                (record.status.state, record.status.reason),
                (State::Terminating, Some(Cause::Orphan))
            );
            let Completion::Done(receipt) = stopped else { panic!("{stopped:?}") };
            assert!(receipt.cause == Cause::Orphan && is_proof(Some(&receipt)), "{receipt:#?}");
            let after = client.audit().await.unwrap();
            assert_eq!((after.instances, after.records, after.instances_without_record.len()), (1, 1, 0));
            assert_eq!(client.sandbox(&wanted).await.unwrap().status.state, State::Ready);
            let text = String::from_utf8(fixture.get("/metrics").await.bytes.to_vec()).unwrap();
            assert!(text.contains("\npinfold_orphans_found_total 1.0\n"), "{text}");
            // The reconcile request counts it, before any cleanup run.
            let item = |what: &str| format!("\npinfold_cleanup_items_total{{what=\"{what}\"}} 1.0\n");
            assert!(
                text.contains(&item("orphaned_found")) && text.contains(&item("orphaned_ended")),
                "{text}"
            );
            client.clean_up(false).await.unwrap();
            let reported = client.metrics(None).await.unwrap();
            let cleanup = reported.cleanup.unwrap();
            assert_eq!((cleanup.orphaned_detected, cleanup.orphaned_terminated), (1, 1), "{cleanup:#?}");
            assert_eq!((cleanup.stuck_terminated, cleanup.evicted), (0, 0), "{cleanup:#?}");
            let (together, by_layer) =
                (reported.latencies.cleanup.unwrap(), reported.latencies.cleanup_by_layer);
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
        let mut rules = with_alerts(fast_alerts(&[(Alert::SandboxStuck, ANY), (Alert::SandboxEvent, ANY)]));
        rules.policy.stop_backoff_ms = vec![200];
        rules.policy.stop_attempts = 1_000;

        with_engine_config(engine, rules, |fixture| async move {
            let client = fixture.client();
            let [silent, at_work] = [sandbox(&client, small()).await, sandbox(&client, small()).await];
            fixture.sh_in_background(&silent, script("exec sleep 1000")).await;
            fixture.sh_in_background(&at_work, script("while :; do echo at work; sleep 0.05; done")).await;

            let dry = until_some("a sandbox is stuck", || async {
                let audit = client.clean_up(true).await.unwrap();
                (!audit.found.is_empty()).then_some(audit)
            })
            .await;
            let real = client.clean_up(false).await.unwrap();
            let again = client.clean_up(false).await.unwrap();

            for audit in [&dry, &real] {
                let found: Vec<_> = audit.found.iter().map(|it| (&it.sandbox_id, it.reason)).collect();
                assert_eq!(found, [(&silent, CleanupReason::Silent)], "{audit:#?}");
                assert_eq!(audit.scanned, 2);
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

            // A sandbox that cannot be stopped is stuck until it can.
            let mut busy_mount = BusyMount::mount(fixture.data.path(), &at_work);
            client.stop(&at_work, Some(0), 0).await.unwrap();
            let subject =
                |id: &str, event: &str| AlertSubject { sandbox_id: id.to_owned(), event: event.into() };
            let stuck = Some(subject(&at_work, "stuck"));
            let alerts = until_some("the alert fires", || async {
                let alerts = client.health().await.unwrap().alerts.unwrap();
                alerts.iter().any(|alert| alert.subject == stuck).then_some(alerts)
            })
            .await;
            let metrics = client.metrics(None).await.unwrap().health;
            let reported: Vec<_> =
                alerts.iter().map(|alert| (alert.name.as_str(), alert.subject.clone())).collect();
            assert_eq!((reported.len(), &reported[0]), (3, &("sandbox_stuck", None)), "{reported:?}");
            // Which of the two is detected first depends on timing.
            for about in [Some(subject(&silent, "timeout")), stuck.clone()] {
                assert!(reported.contains(&("sandbox_event", about)), "{reported:?}");
            }
            assert_eq!((metrics.stuck, metrics.indicator), (1, Indicator::Critical));

            busy_mount.remove();
            until_some("no sandbox is stuck", || async {
                (client.metrics(None).await.unwrap().health.stuck == 0).then_some(())
            })
            .await;
            let Completion::Done(gone) = client.wait_gone(&at_work, 60).await.unwrap() else {
                panic!("it still exists")
            };
            assert!(is_proof(gone.receipt.as_ref()), "{gone:#?}");
        })
        .await;
    }
}
