//! Totals, strays and admission.

use super::*;

#[test]
fn sandbox_counts_as_destroyed_only_when_proven_gone() {
    let mut fixture = Fixture::live(Policy::default());

    let live = fixture.sandbox.created_and_destroyed();
    fixture.stop();
    let stopping = fixture.sandbox.created_and_destroyed();
    fixture.stopped(gone());

    assert_eq!((live, stopping), ((1, 0), (1, 0)));
    assert_eq!(fixture.sandbox.created_and_destroyed(), (1, 1));
}

#[test]
fn a_stray_is_leased_stopped_and_counted_once_more() {
    let mut fixture = Fixture::stopping(Policy::default());
    fixture.stopped(gone());

    fixture.request(Request::LeaseStray { generation: Generation(1) }).unwrap();
    let while_it_stops = fixture.sandbox.created_and_destroyed();
    fixture.stopped(gone());

    assert_eq!(while_it_stops, (2, 1));
    assert_eq!(fixture.sandbox.created_and_destroyed(), (2, 2));
    assert_eq!(fixture.cause(), Some(Cause::StoppedByUser));
}

#[test]
fn stray_is_refused_while_a_lease_is_held() {
    let mut fixture = Fixture::live(Policy::default());

    let refusal = fixture.request(Request::LeaseStray { generation: Generation(1) });

    assert_eq!(refusal, Err(Refusal::Leased));
}

#[test]
fn instance_without_a_row_is_leased_and_stopped() {
    let policy = Policy::default();
    let ctx = Context { now: NOON, node: HERE, policy: &policy };
    let mut fixture = Fixture::from(lease_orphan(SandboxId(9), Generation(4), ctx), policy);

    let work = fixture.effect_kinds();
    fixture.stopped(gone());

    assert_eq!(work, [EffectKind::Stop { grace_ms: 2_000 }]);
    assert_eq!(fixture.cause(), Some(Cause::Orphan));
    assert_eq!(fixture.sandbox.created_and_destroyed(), (1, 1));
}

#[test]
fn sandbox_not_proven_gone_counts_against_the_limit() {
    let limits = AdmissionLimits { sandboxes: Some(2), ..AdmissionLimits::default() };
    let totals = |created, destroyed| Totals { created, destroyed, ..Totals::default() };

    let full = admit(&totals(5, 3), &Demand::default(), &limits);
    let room = admit(&totals(5, 4), &Demand::default(), &limits);

    assert_eq!(full, Err(AdmissionRefusal::Sandboxes { present: 2, limit: 2 }));
    assert_eq!(room, Ok(()));
}

#[test]
fn total_demand_stays_within_the_limit() {
    let limits = AdmissionLimits { memory_mb: Some(1_000), ..AdmissionLimits::default() };
    let totals = Totals { taken: Demand { memory_mb: 700, ..Demand::default() }, ..Totals::default() };
    let asked = |memory_mb| Demand { memory_mb, ..Demand::default() };

    let fits = admit(&totals, &asked(300), &limits);
    let exceeds = admit(&totals, &asked(301), &limits);

    assert_eq!(fits, Ok(()));
    assert!(matches!(exceeds, Err(AdmissionRefusal::Memory { taken: 700, requested: 301, .. })));
}
