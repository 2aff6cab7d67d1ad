//! Sums, strays and admission.

use super::*;

#[test]
fn a_sandbox_is_destroyed_when_it_is_proven_gone_and_not_before() {
    let mut scene = Scene::live(Policy::default());

    let live = scene.sandbox.created_and_destroyed();
    scene.stop();
    let stopping = scene.sandbox.created_and_destroyed();
    scene.stopped(gone());

    assert_eq!((live, stopping), ((1, 0), (1, 0)));
    assert_eq!(scene.sandbox.created_and_destroyed(), (1, 1));
}

#[test]
fn a_stray_is_leased_stopped_and_counted_once_more() {
    let mut scene = Scene::stopping(Policy::default());
    scene.stopped(gone());

    scene.ask(Request::LeaseStray { generation: Generation(1) }).unwrap();
    let while_it_stops = scene.sandbox.created_and_destroyed();
    scene.stopped(gone());

    assert_eq!(while_it_stops, (2, 1));
    assert_eq!(scene.sandbox.created_and_destroyed(), (2, 2));
    assert_eq!(scene.cause(), Some(Cause::StoppedByUser));
}

#[test]
fn a_stray_is_not_leased_where_a_lease_holds() {
    let mut scene = Scene::live(Policy::default());

    let refusal = scene.ask(Request::LeaseStray { generation: Generation(1) });

    assert_eq!(refusal, Err(Refusal::Leased));
}

#[test]
fn a_body_that_no_record_speaks_of_is_leased_to_be_stopped() {
    let policy = Policy::default();
    let ctx = Context { now: NOON, node: HERE, policy: &policy };
    let mut scene = Scene::from(lease_orphan(SandboxId(9), Generation(4), ctx), policy);

    let work = scene.work();
    scene.stopped(gone());

    assert_eq!(work, [EffectKind::Stop { grace_ms: 5_000 }]);
    assert_eq!(scene.cause(), Some(Cause::Orphan));
    assert_eq!(scene.sandbox.created_and_destroyed(), (1, 1));
}

#[test]
fn what_is_not_proven_gone_takes_its_place() {
    let limits = AdmissionLimits { sandboxes: Some(2), ..AdmissionLimits::default() };
    let totals = |created, destroyed| Totals { created, destroyed, ..Totals::default() };

    let full = admit(&totals(5, 3), &Demand::default(), &limits);
    let room = admit(&totals(5, 4), &Demand::default(), &limits);

    assert_eq!(full, Err(Scarcity::Sandboxes { present: 2, limit: 2 }));
    assert_eq!(room, Ok(()));
}

#[test]
fn what_all_take_together_stays_within_the_limit() {
    let limits = AdmissionLimits { memory_mb: Some(1_000), ..AdmissionLimits::default() };
    let totals = Totals { taken: Demand { memory_mb: 700, ..Demand::default() }, ..Totals::default() };
    let asked = |memory_mb| Demand { memory_mb, ..Demand::default() };

    let fits = admit(&totals, &asked(300), &limits);
    let exceeds = admit(&totals, &asked(301), &limits);

    assert_eq!(fits, Ok(()));
    assert!(matches!(exceeds, Err(Scarcity::Memory { taken: 700, asked: 301, .. })));
}
