//! `pinfold doctor` for the machine and for one sandbox.

use pinfold_test_support::until;
use serde_json::Value;

use crate::fixture::{fixtures, keeper_of, text};

#[test]
fn doctor_lists_what_the_machine_can_enforce_with_advice() {
    for fixture in fixtures() {
        let output = fixture.pinfold(&["doctor"]);
        let document = fixture.document(&["doctor", "--json"]);

        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
        assert_eq!(document["can_run"], true);
        let abilities = document["abilities"].as_array().unwrap();
        for name in
            ["namespaces", "user namespaces", "memory limit", "process limit", "system call filter", "clock"]
        {
            let found = abilities.iter().find(|it| it["ability"] == name).unwrap();
            let enforcement = found["enforcement"].as_str().unwrap();
            assert!(["enforced", "watched", "missing"].contains(&enforcement), "{found}");
            assert!(enforcement == "enforced" || found["advice"].is_string(), "{found}");
            assert!(text(&output.stdout).contains(name));
        }
        let memory = abilities.iter().find(|it| it["ability"] == "memory limit").unwrap();
        assert_eq!(memory["enforcement"] == "enforced", fixture.has_groups(), "{memory}");
    }
}

#[test]
fn doctor_names_an_unusable_data_directory_with_advice() {
    let fixture = fixtures().pop().unwrap();

    let output = fixture.pinfold(&["doctor", "--json", "--data-dir", "/proc/pinfold"]);

    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &document["can_run"]), (Some(1), &false.into()));
    let abilities = document["abilities"].as_array().unwrap();
    let data_directory = abilities.iter().find(|it| it["ability"] == "data directory").unwrap();
    assert!(data_directory["advice"].as_str().unwrap().contains("--data-dir"), "{data_directory}");
}

#[test]
fn healthy_sandbox_passes_every_probe() {
    for fixture in fixtures() {
        let id = fixture.create(&[]);
        let empty = fixture.document(&["doctor", "--json", &id]);
        fixture.pinfold(&[
            "exec",
            &id,
            "--",
            "sh",
            "-c",
            "echo 12345 > note; for i in 1 2 3 4 5 6 7 8; do : > $i; done",
        ]);

        let document = fixture.document(&["doctor", "--json", &id]);

        let listed = |document: &Value| {
            let probes = document["probes"].as_array().unwrap();
            let probe = probes.iter().find(|probe| probe["probe"] == "files of /workspace").unwrap();
            probe["answer"].as_str().unwrap().to_owned()
        };
        assert_eq!(listed(&empty), "the directory is empty");
        assert!(listed(&document).ends_with("and more"), "{document}");
        assert!(listed(&document).contains("(file, 0 bytes, 644)"), "{document}");
        let probes = document["probes"].as_array().unwrap();
        assert!(probes.len() >= 5 && probes.iter().all(|probe| probe["passed"] == true), "{document}");
        assert!(probes.iter().all(|probe| probe["took_ms"].is_f64()), "{document}");
        assert!(document["due"].as_array().unwrap().len() >= 2, "{document}");
        assert_eq!(fixture.pinfold(&["doctor", &id]).status.code(), Some(0));
    }
}

#[test]
fn sandbox_without_its_keeper_is_diagnosed_as_broken() {
    for fixture in fixtures() {
        let id = fixture.create(&[]);
        let keeper = i32::try_from(keeper_of(&fixture.data()).unwrap()).unwrap();
        let pid = rustix::process::Pid::from_raw(keeper).unwrap();

        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();

        until("it is known to have ended", || {
            let document = fixture.document(&["doctor", "--json", &id]);
            let failed = document["probes"].as_array().unwrap().iter().any(|probe| probe["passed"] == false);
            failed || document["status"]["state"] == "failed"
        });
        let last = fixture.document(&["doctor", "--json", &id]);
        assert_ne!(last["verdict"], "all probes passed", "{last}");
    }
}
