//! Built-in profiles have their documented values, overrides take precedence, and invalid values are refused by name.

use super::*;

fn known(name: &str) -> Profile {
    *Profiles::default().get(name).unwrap().1
}

fn refused(overrides: LimitOverrides) -> String {
    DEFAULT.with(&overrides, &Policy::default()).unwrap_err().to_string()
}

fn with_limits(limits: Limits) -> LimitOverrides {
    LimitOverrides { limits, ..LimitOverrides::default() }
}

fn with_times(timeout_ms: Option<u64>, inactivity_ms: Option<u64>) -> LimitOverrides {
    LimitOverrides { execution: ExecutionLimits { timeout_ms, inactivity_ms }, ..LimitOverrides::default() }
}

#[test]
fn each_agent_type_has_its_documented_limits() {
    let table = [
        ("ELICITATION", 256, 30, 5, 10),
        ("TEST_WRITER", 512, 60, 10, 20),
        ("IMPLEMENTATION", 1024, 120, 15, 50),
        ("CONTEXT_GATHERING", 256, 30, 5, 30),
        ("VALIDATION", 512, 60, 10, 20),
    ];
    for (name, memory_mb, cpu_s, minutes, requests) in table {
        let profile = known(name);

        assert!(profile.is_agent);
        assert_eq!(profile.limits.memory_mb, Some(memory_mb), "{name}");
        assert_eq!(profile.limits.cpu_time_ms, Some(cpu_s * 1_000), "{name}");
        assert_eq!(profile.execution.timeout_ms, Some(minutes * 60_000), "{name}");
        assert_eq!(profile.execution.inactivity_ms, Some(60_000), "{name}");
        assert_eq!(profile.limits.network_requests, Some(requests), "{name}");
        assert_eq!(profile.limits.disk_mb, Some(1024), "{name}");
        assert_eq!(profile.limits.operations, None, "{name}");
    }
    assert_eq!(PROFILES.len(), table.len() + 1);
}

#[test]
fn every_profile_passes_its_own_checks() {
    for (name, profile) in PROFILES {
        let overrides = LimitOverrides {
            limits: profile.limits,
            execution: profile.execution,
            ..LimitOverrides::default()
        };

        assert_eq!(bounds::check(&overrides, &Policy::default()), Ok(()), "{name}");
    }
}

#[test]
fn overrides_take_precedence_and_other_limits_stay() {
    let profile = known("ELICITATION");

    let overrides = with_limits(Limits { memory_mb: Some(64), ..Limits::default() });
    let given = profile.with(&overrides, &Policy::default()).unwrap();

    assert_eq!(given.limits, Limits { memory_mb: Some(64), ..profile.limits });
    assert_eq!(given.execution, profile.execution);
    assert_eq!((given.idle_ms, given.max_life_ms), (Some(600_000), 86_400_000));
}

#[test]
fn profile_value_is_reduced_to_fit_a_shorter_override() {
    let profile = known("IMPLEMENTATION");

    let short_life = LimitOverrides { max_life_ms: Some(20_000), ..LimitOverrides::default() };
    let lives = profile.with(&short_life, &Policy::default()).unwrap();
    let runs = profile.with(&with_times(Some(7_000), None), &Policy::default()).unwrap();

    assert_eq!(lives.execution, ExecutionLimits { timeout_ms: Some(20_000), inactivity_ms: Some(20_000) });
    assert_eq!(lives.idle_ms, Some(20_000));
    assert_eq!(runs.execution, ExecutionLimits { timeout_ms: Some(7_000), inactivity_ms: Some(7_000) });
}

#[test]
fn invalid_limit_is_refused_with_field_value_and_range() {
    let too_small = refused(with_limits(Limits { memory_mb: Some(3), ..Limits::default() }));
    let none = refused(with_limits(Limits { processes: Some(0), ..Limits::default() }));
    let no_core = refused(with_limits(Limits { cpu_millis: Some(0), ..Limits::default() }));
    let absurd = refused(with_limits(Limits { disk_mb: Some(u64::MAX), ..Limits::default() }));
    let nothing = refused(with_limits(Limits { operations: Some(0), ..Limits::default() }));

    assert_eq!(too_small, "memory: 3 MiB is not allowed; allowed is from 4 MiB to 16777216 MiB");
    assert_eq!(none, "pids: 0 is not allowed; allowed is from 1 to 4194304");
    assert_eq!(nothing, "operations: 0 is not allowed; allowed is from 1 to 1000000000");
    assert!(
        no_core.starts_with("cpus: 0.000 cores is not allowed; allowed is from 0.010 cores"),
        "{no_core}"
    );
    assert!(absurd.starts_with("disk: ") && absurd.contains(&u64::MAX.to_string()), "{absurd}");
}

#[test]
fn every_limit_has_a_lower_and_an_upper_bound() {
    let limits: [fn(Option<u64>) -> LimitOverrides; 14] = [
        |memory_mb| with_limits(Limits { memory_mb, ..Limits::default() }),
        |n| with_limits(Limits { cpu_millis: n.and_then(|n| u32::try_from(n).ok()), ..Limits::default() }),
        |cpu_time_ms| with_limits(Limits { cpu_time_ms, ..Limits::default() }),
        |disk_mb| with_limits(Limits { disk_mb, ..Limits::default() }),
        |inodes| with_limits(Limits { inodes, ..Limits::default() }),
        |processes| with_limits(Limits { processes, ..Limits::default() }),
        |open_files| with_limits(Limits { open_files, ..Limits::default() }),
        |output_mb| with_limits(Limits { output_mb, ..Limits::default() }),
        |timeout| with_times(timeout, None),
        |inactivity| with_times(None, inactivity),
        |idle_ms| LimitOverrides { idle_ms, ..LimitOverrides::default() },
        |max_life_ms| LimitOverrides { max_life_ms, ..LimitOverrides::default() },
        |requests| with_limits(Limits { network_requests: requests.filter(|n| *n > 0), ..Limits::default() }),
        |operations| with_limits(Limits { operations, ..Limits::default() }),
    ];
    for (index, set) in limits.into_iter().enumerate() {
        let absurd = u64::from(u32::MAX) * 4_096;
        // CPU is a smaller integer. Zero turns inactivity off, and zero network requests is a valid limit.
        let most = if index == 1 { u64::from(u32::MAX) } else { absurd };
        let is_fine = |n| DEFAULT.with(&set(Some(n)), &Policy::default()).is_ok();

        assert!(!is_fine(most), "limit {index} has no upper bound");
        assert!(matches!(index, 9 | 12) || !is_fine(0), "limit {index} may be zero");
        assert!(DEFAULT.with(&set(None), &Policy::default()).is_ok());
    }
}

#[test]
fn contradictory_timeouts_are_refused() {
    let beyond_life = LimitOverrides { max_life_ms: Some(10_000), ..with_times(Some(11_000), None) };
    let idle =
        LimitOverrides { max_life_ms: Some(10_000), idle_ms: Some(11_000), ..LimitOverrides::default() };

    assert_eq!(refused(beyond_life), "timeout: 11 s is longer than the sandbox's max-life, which is 10 s");
    assert_eq!(
        refused(with_times(Some(5_000), Some(5_500))),
        "inactivity-timeout: 5500 ms is longer than the timeout, which is 5 s"
    );
    assert!(refused(idle).starts_with("idle-timeout: 11 s is longer than"));
    assert!(DEFAULT.with(&with_times(Some(5_000), Some(5_000)), &Policy::default()).is_ok());
}

#[test]
fn zero_turns_the_inactivity_timeout_of_a_profile_off() {
    let profile = known("VALIDATION");

    let resolved = profile.with(&with_times(None, Some(0)), &Policy::default()).unwrap();

    assert_eq!((profile.execution.inactivity_ms.is_some(), resolved.execution.inactivity_ms), (true, None));
}
