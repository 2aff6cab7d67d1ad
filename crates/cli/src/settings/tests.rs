//! Defaults, overrides by a file, and refusals with their location.

use std::path::Path;

use pinfold_engine::Config as EngineConfig;
use pinfold_http::ServerConfig;
use pinfold_lifecycle::profile::Profiles;
use pinfold_lifecycle::{AdmissionLimits, Policy};
use pinfold_service::{ObjectStoreConfig, ServiceConfig};
use serde_json::json;

use super::*;

fn loaded(text: &str) -> Result<Loaded, SettingsError> {
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join(FILE), text).unwrap();
    load(data.path(), None)
}

fn invalid(text: &str) -> String {
    match loaded(text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn defaults_match_the_defaults_of_the_configured_crates() {
    let loaded = load(Path::new("/nonexistent"), None).unwrap();

    let admission =
        AdmissionLimits { sandboxes: Some(loaded.machine.sandboxes()), ..AdmissionLimits::default() };
    let engine = EngineConfig { admission, ..EngineConfig::default() };
    assert_eq!(format!("{:?}", loaded.engine().unwrap()), format!("{engine:?}"));
    assert_eq!(format!("{:?}", loaded.http()), format!("{:?}", ServerConfig::default()));
    assert_eq!(loaded.policy(), Policy::default());
    assert_eq!(format!("{:?}", loaded.service_config().unwrap()), format!("{:?}", ServiceConfig::default()));
    assert_eq!(loaded.objects(), ObjectStoreConfig::default());
    assert_eq!(loaded.file, None);
}

#[test]
fn file_changes_only_the_values_it_sets() {
    let loaded = loaded(
        "[admission]\nsandboxes = 3\n[cleanup]\nstuck_timeout = \"1h\"\n[sandboxes]\nidle = \"2m\"\n[flags]\nlong_running = \"1m\"\n[warm.sizes]\ndefault = 2\n\
         [profiles.validation]\nmemory_mb = 64\n[logs]\nbucket = \"logs\"\n",
    )
    .unwrap();

    let engine = loaded.engine().unwrap();
    assert_eq!((engine.admission.sandboxes, engine.admission.memory_mb), (Some(3), None));
    assert_eq!((engine.cleanup.rules.stuck_ms, engine.cleanup.rules.orphan_ms), (3_600_000, 600_000));
    assert_eq!((engine.pool.len(), engine.pool[0].size), (1, 2));
    assert_eq!(loaded.engine_without_pool().pool.len(), 0);
    let rules = loaded.service_config().unwrap();
    assert_eq!(rules.policy.idle_ms, Some(120_000));
    assert_eq!((rules.flags.old_ms, rules.flags.long_running_ms), (600_000, 60_000));
    let of = |name| *rules.profiles.get(name).unwrap().1;
    assert_eq!(of("VALIDATION").limits.memory_mb, Some(64));
    assert_eq!(of("VALIDATION").limits.processes, Some(256));
    assert_eq!(of("ELICITATION"), *Profiles::default().get("ELICITATION").unwrap().1);
    assert!(matches!(loaded.objects(), ObjectStoreConfig::Bucket(global) if global.name == "logs"));
}

#[test]
fn sandbox_limit_defaults_to_machine_size_unless_set() {
    let of = |text: &str| {
        let loaded = loaded(text).unwrap();
        let shown = loaded.provenance.shown().into_iter().find(|it| it.key == "admission.sandboxes").unwrap();
        (loaded.engine().unwrap().admission.sandboxes, shown.value, shown.from)
    };
    let by_size = of("").0.unwrap();

    assert!(by_size >= 10);
    assert_eq!(of(""), (Some(by_size), json!(by_size), Origin::Machine));
    assert_eq!(of("[admission]\nsandboxes = 3\n"), (Some(3), json!(3), Origin::File));
    assert_eq!(of("[admission]\nsandboxes = 0\n"), (None, json!(0), Origin::File));
}

#[test]
fn quotas_apply_by_name_and_star_to_each_other_name() {
    let text = "[admission]\nkeep_disk_mb = 0\nstale_after = \"1h\"\n[admission.tokens]\nci = 20\n\"*\" = 5\n\
                [admission.labels.team]\nred = 10\n";
    let loaded = loaded(text).unwrap();

    let engine = loaded.engine().unwrap();
    assert_eq!((engine.quotas.tokens["ci"], engine.quotas.each_token), (20, Some(5)));
    let team = &engine.quotas.labels["team"];
    assert_eq!((team.values["red"], team.each_value), (10, None));
    assert_eq!((engine.keep.disk_mb, engine.keep.memory_mb), (0, 64));
    assert_eq!(loaded.stale_after_ms(), 3_600_000);
}

#[test]
fn profile_timeout_overrides_the_one_for_all_agents() {
    let text = "[agents]\ninactivity = \"5s\"\n[profiles.validation]\ninactivity = \"7s\"\n";
    let rules = loaded(text).unwrap().service_config().unwrap();

    let quiet = |name| rules.profiles.get(name).unwrap().1.execution.inactivity_ms;
    assert_eq!(
        (quiet("ELICITATION"), quiet("VALIDATION"), quiet("default")),
        (Some(5_000), Some(7_000), None)
    );
}

#[test]
fn new_agent_type_inherits_unset_values_from_its_base() {
    let loaded = loaded("[profiles.POET]\nlike = \"validation\"\nmemory_mb = 64\n").unwrap();

    let rules = loaded.service_config().unwrap();
    let (name, poet) = rules.profiles.get_agent("poet").unwrap();
    assert_eq!((name, poet.limits.memory_mb, poet.limits.processes), ("POET", Some(64), Some(256)));
}

#[test]
fn every_value_shows_its_origin_and_secrets_are_hidden() {
    let text = "[profiles.validation]\nmemory_mb = 64\n[logs]\naccess_key_id = \"id\"\nsecret_access_key = \"hunter2\"";
    let shown = loaded(text).unwrap().provenance.shown();

    let of = |key: &str| shown.iter().find(|it| it.key == key).unwrap();
    assert_eq!(
        (&of("profiles.VALIDATION.memory_mb").value, of("profiles.VALIDATION.memory_mb").from),
        (&json!(64), Origin::File)
    );
    assert_eq!(of("profiles.VALIDATION.cpu_time").value, json!("1m"));
    assert_eq!((&of("requests.rate").value, of("requests.rate").from), (&json!(1000), Origin::Default));
    assert_eq!(of("requests.rate").variable, Some("PINFOLD_REQUESTS_RATE"));
    assert_eq!(of("logs.secret_access_key").from, Origin::File);
    assert!(!serde_json::to_string(&shown).unwrap().contains("hunter2"));
}

#[test]
fn invalid_value_is_refused_with_its_location_and_allowed_values() {
    for (text, expected) in [
        (
            "[server]\nlisten = \"127.0.0.1:0\"\nlisen = 1\n",
            "pinfold.toml:3: unknown field `lisen`, expected one of `listen`",
        ),
        ("[sever]\n", "pinfold.toml:1: unknown field `sever`"),
        ("\n[sandboxes]\nidle = \"ten\"\n", "sandboxes.idle: `ten` is not a time; write seconds as 90"),
        ("\n[sandboxes]\nidle = \"ten\"\n", "pinfold.toml:3`)"),
        ("[requests]\nrate = 0\n", "requests.rate: 0 is not allowed; the range is 1 to 1000000 (set in `"),
        (
            "[requests]\nhead_timeout = 0\n",
            "requests.head_timeout: 0ms is not allowed; the range is 100ms to 10m",
        ),
        ("[server\n", "pinfold.toml:1: "),
        (
            "[sandboxes]\nidle = \"2d\"\n",
            "sandboxes.idle: 2d is longer than `sandboxes.max_life`, which is 1d",
        ),
        ("[flags]\nold = 0\n", "flags.old: 0ms is not allowed; the range is 1s to 30d (set in `"),
        ("[engine]\npoll = \"1h\"\n", "engine.poll: 1h is not allowed; the range is 1ms to 10s (set in `"),
        (
            "[cleanup]\nschedule = \"often\"\n",
            "cleanup.schedule: `often` is not a schedule; write minute, hour",
        ),
        ("[cleanup]\nschedule_by_age = \"0 0 30 2 *\"\n", "cleanup.schedule_by_age: `0 0 30 2 *`"),
        ("[cleanup]\nmax_age = 0\n", "cleanup.max_age: 0ms is not allowed; the range is 1s to 30d"),
        ("[cleanup]\nbatch = 0\n", "cleanup.batch: 0 is not allowed; the range is 1 to 10000"),
        ("[cleanup]\npressure = 1.5\n", "cleanup.pressure: 1.5 is not allowed; the range is 0.1 to 1"),
        ("[profiles.POET]\nmemory_mb = 64\n", "there is no profile `POET`; there are default, ELICITATION"),
        ("[profiles.POET]\nmemory_mb = 64\n", "; a new profile names its base, as in `like = \"default\"`"),
        ("[profiles.POET]\nlike = \"PROSE\"\n", "profiles.POET: there is no profile `PROSE`"),
        ("[profiles.\"a b\"]\nlike = \"default\"\n", "profiles.a b: a name has 1 to 64 letters"),
        (
            "[profiles.VALIDATION]\nmemory_mb = 1\n",
            "profiles.VALIDATION.memory_mb: 1 MiB is not allowed; allowed is from 4 MiB",
        ),
        (
            "[profiles.VALIDATION]\noperations = 0\n",
            "profiles.VALIDATION.operations: 0 is not allowed; allowed is from 1 to 1000000000",
        ),
        ("[profiles.VALIDATION]\nmemory = 1\n", "pinfold.toml:2: unknown field `memory`"),
        (
            "[admission]\nstale_after = \"1m\"\n",
            "admission.stale_after: 1m is not allowed; the range is 20m to 3650d",
        ),
        ("[agents]\ntimeout = \"0s\"\n", "agents.timeout: 0"),
        ("[warm.sizes]\nPOET = 1\n", "warm.sizes.POET: there is no profile"),
        ("[logs]\naccess_key_id = \"id\"\n", "set both or none"),
        ("[alerts]\nevery = \"1d\"\n", "alerts.every: 1d is not allowed; the range is 100ms to 10m"),
        ("[alerts.rules.nonsense]\nthreshold = 1\n", "alerts.rules.nonsense: unknown alert `nonsense`"),
        (
            "[alerts.rules.sandbox_stuck]\nthreshold = -1.0\n",
            "alerts.rules.sandbox_stuck.threshold: -1.0 is not allowed; the range is 0 to",
        ),
        ("[alerts.levels.1]\nemail_to = []\n", "alerts.levels.1: allowed are `2` and `3`"),
        ("[alerts]\nslack_url = \"ftp://4711\"\n", "alerts.slack_url: must begin with `https://`"),
        ("[alerts]\nwebhook_secret = \"4711\"\n", "alerts.webhook_secret: needs `webhook_url`"),
        ("[alerts]\nemail_to = [\"a@b\"]\n", "alerts.email_to: mail needs `alerts.smtp_host`"),
        ("[alerts]\nsmtp_host = \"a\"\n", "alerts.email_from: must be set to send mail"),
        ("[alerts]\nsmtp_password = \"4711\"\n", "set both or none"),
        ("[alerts]\ncritical = [\"pigeon\"]\n", "unknown variant `pigeon`, expected one of `webhook`"),
        ("[telemetry]\nendpoint = \"collector:4318\"\n", "telemetry.endpoint: must begin with `http://`"),
        (
            "[telemetry]\nendpoint = \"http://me:4711@host\"\n",
            "telemetry.endpoint: must not contain a name or password",
        ),
        ("[telemetry]\nendpoint = \"http://h/v1/traces\"\n", "telemetry.endpoint: leave out `/v1/traces`"),
        (
            "[telemetry]\ninterval = \"10ms\"\n",
            "telemetry.interval: 10ms is not allowed; the range is 1s to 1h",
        ),
        ("[telemetry]\nservice_name = \"\"\n", "telemetry.service_name: must be 1 to 128 bytes long"),
        ("[telemetry.headers]\na = \"4711\"\n", "telemetry.headers.a: needs `telemetry.endpoint`"),
        (
            "[telemetry]\nendpoint = \"http://h\"\nheaders = { \"a b\" = \"4711\" }\n",
            "telemetry.headers.a b: not a header name",
        ),
        (
            "[telemetry]\nendpoint = \"http://h\"\nheaders = { a = \"4711\\n\" }\n",
            "telemetry.headers.a: only printable ASCII characters",
        ),
        (
            "[telemetry]\nendpoint = \"http://h\"\nheaders = { host = \"4711\" }\n",
            "telemetry.headers.host: this header is set by Pinfold itself",
        ),
        ("[telemetry]\nendpoints = \"http://h\"\n", "pinfold.toml:2: unknown field `endpoints`"),
        ("[logs]\nsecret_access_key = 4711\n", "logs.secret_access_key: expected a quoted string"),
    ] {
        let message = invalid(text);
        assert!(message.contains(expected), "{text}\n{message}");
        assert!(!message.contains("4711"), "{message}");
    }
}

#[test]
fn named_configuration_file_must_exist() {
    let missing = load(Path::new("/nonexistent"), Some(Path::new("/nonexistent/pinfold.toml")));

    assert!(matches!(missing, Err(SettingsError::Read { .. })));
}

#[test]
fn alert_settings_are_applied_and_their_secrets_hidden() {
    let loaded = loaded(
        "[alerts]\ncooldown = \"2h\"\nwebhook_url = \"https://a/hunter2\"\nwebhook_secret = \"hunter2\"\n\
         smtp_host = \"a\"\nsmtp_username = \"me\"\nsmtp_password = \"hunter2\"\nemail_from = \"a@b\"\n\
         [alerts.levels.3]\nslack_url = \"https://b/hunter2\"\n\
         [alerts.rules.sandbox_leak_detected]\nthreshold = 40\nsustained = \"10m\"\n",
    )
    .unwrap();

    let alerts = loaded.service_config().unwrap().alerts;

    let leak = alerts.rules.of(pinfold_alerts::Alert::SandboxLeakDetected);
    assert_eq!((leak.threshold, leak.sustained_ms, leak.minimum), (40.0, 600_000, 0));
    assert_eq!((alerts.notification_policy.cooldown_ms, alerts.receivers.len()), (7_200_000, 2));
    let smtp = alerts.smtp.clone().unwrap();
    assert_eq!((smtp.port, smtp.login.unwrap().1.0.as_str()), (587, "hunter2"));
    assert!(!format!("{alerts:?}").contains("hunter2"));
    assert!(!serde_json::to_string(&loaded.provenance.shown()).unwrap().contains("hunter2"));
}

#[test]
fn telemetry_settings_are_applied_and_headers_hidden() {
    let loaded = loaded(
        "[telemetry]\nendpoint = \"https://collector/otlp/\"\ntraces = false\ninterval = \"5s\"\nservice_name = \"fold\"\n\
         [telemetry.headers]\nauthorization = \"Bearer hunter2\"\n",
    )
    .unwrap();

    let telemetry = loaded.http().loops.telemetry.unwrap();

    assert_eq!((telemetry.traces, telemetry.metrics, telemetry.interval.as_secs()), (false, true, 5));
    assert_eq!(telemetry.service_name, "fold");
    assert!(!format!("{telemetry:?} {:?}", loaded.settings).contains("hunter2"));
    let shown = serde_json::to_string(&loaded.provenance.shown()).unwrap();
    assert!(shown.contains("telemetry.headers.authorization") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn every_number_and_time_has_bounds() {
    let all = provenance::defaults();
    let is_sized = |key: &str, value: &serde_json::Value| {
        let is_time = value.as_str().is_some_and(|text| crate::units::milliseconds(text).is_ok());
        (value.is_number() || is_time) && key != "server.listen"
    };
    // Settings without a default, by their type.
    let optional = [
        "admission.sandboxes",
        "admission.memory_mb",
        "admission.disk_mb",
        "admission.processes",
        "admission.stale_after",
        "agents.timeout",
        "agents.inactivity",
    ];
    let sized = all.iter().filter(|(key, value)| is_sized(key, value)).map(|(key, _)| key.as_str());

    for key in sized.chain(optional) {
        let path: Vec<_> = key.split('.').collect();
        let bounds = bounds::bounds_of(&path).unwrap_or_else(|| panic!("no bounds of {key}"));
        if let Some(value) = all.get(key) {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            assert_eq!(bounds.refuse_text(&text), None, "the default of {key}");
        }
        let (table, name) = key.rsplit_once('.').unwrap();
        for extreme in ["9223372036854775807", "-1"] {
            let message = invalid(&format!("[{table}]\n{name} = {extreme}\n"));
            assert!(message.starts_with(&format!("{key}: ")), "{key} = {extreme}: {message}");
        }
    }
}
