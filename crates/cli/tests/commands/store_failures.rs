//! A server whose store fails: health says so within seconds, requests get a typed error, the log stays short, and a full
//! disk does not keep sandboxes from being stopped.

use std::fs;

use pinfold_api::{ErrorCode, HealthState};
use pinfold_client::ClientError;
use pinfold_test_support::{skip, until};

use crate::fixture::{Fixture, fixtures, text};
use crate::serve::Server;

/// The status of the store in the server's health, with its message.
fn store_health(server: &Server) -> (HealthState, String) {
    let health = server.ask(async |client| client.health().await.unwrap());
    (health.store.status, health.store.message.unwrap_or_default())
}

fn failed_lines(fixture: &Fixture) -> usize {
    let log = fs::read_to_string(fixture.data().join("serve.log")).unwrap();
    log.lines().filter(|line| line.contains("the store cannot be written")).count()
}

#[test]
fn removed_wal_is_reported_by_health_errors_and_one_log_line() {
    for fixture in fixtures() {
        let server = Server::begin(&fixture, &[]);
        let (wal, aside) = (fixture.data().join("store/pinfold.db-wal"), fixture.data().join("aside"));
        assert_eq!(store_health(&server).0, HealthState::Ok);

        fs::rename(&wal, &aside).unwrap();

        let (status, message) = store_health(&server);
        assert_eq!(status, HealthState::Failing, "{message}");
        assert!(message.contains("pinfold.db-wal") && message.contains("was removed"), "{message}");
        for _ in 0..20 {
            match server.ask(async |client| client.create(&Default::default()).await) {
                Err(ClientError::Refused { status: 503, detail, .. }) => {
                    assert_eq!(detail.code, ErrorCode::StoreUnwritable);
                    assert!(detail.message.contains("was removed"), "{}", detail.message);
                }
                other => panic!("{other:?}"),
            }
        }
        until("the failed heartbeat is logged", || failed_lines(&fixture) > 0);
        fs::rename(&aside, &wal).unwrap();
        until("the store is fine again", || store_health(&server).0 == HealthState::Ok);
        assert_eq!(failed_lines(&fixture), 1, "once per cause and minute");
        let id = server.create();
        fixture.pinfold(&["stop", "--force", &id]);
    }
}

/// Runs a server on a small filesystem, fills it, kills the server, and starts another one that stops the sandbox.
const FULL_DISK: &str = r#"
    mount -t tmpfs -o size=160m,mode=0700 small "$PINFOLD_DATA_DIR"
    begin() {
        pinfold serve --listen 127.0.0.1:0 2> "$LOG" & server=$!
        for i in $(seq 1000); do
            ls "$PINFOLD_DATA_DIR"/servers/$server-*.json > /dev/null 2>&1 && return
            sleep 0.02
        done
        echo "no server"; cat "$LOG"; exit 1
    }
    end() { kill "$1" "$server"; wait "$server" || true; }
    begin
    id=$(pinfold create)
    trap 'rm -f "$PINFOLD_DATA_DIR/filler"; pinfold stop --force "$id" > /dev/null 2>&1 || true; kill -9 $server || true' EXIT
    cat /dev/zero > "$PINFOLD_DATA_DIR/filler" 2> /dev/null || true
    end -KILL
    begin
    echo "restarted"
    pinfold stop --force "$id" && echo "stopped"
    pinfold create || echo "not created"
    rm "$PINFOLD_DATA_DIR/filler"
    for i in $(seq 200); do id=$(pinfold create 2> /dev/null) && echo "created" && break; sleep 0.05; done
    pinfold stop --force "$id"
    end -TERM
    trap - EXIT
"#;

#[test]
fn server_restarts_on_a_full_disk_and_stops_a_sandbox() {
    const TEST: &str = "server_restarts_on_a_full_disk_and_stops_a_sandbox";
    if !rustix::process::getuid().is_root() {
        return skip(TEST, "only root can mount a small filesystem");
    }
    let fixture = fixtures().swap_remove(0);
    let log = fixture.directory("logs").join("serve.log");

    let output = fixture
        .program("unshare", &["-m", "sh", "-ec", FULL_DISK])
        .env("LOG", &log)
        .env("PINFOLD_ADMISSION_KEEP_DISK_MB", "0")
        .output()
        .unwrap();

    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{printed}{errors}{}", fs::read_to_string(&log).unwrap_or_default());
    for line in ["restarted", "stopped", "not created", "created"] {
        assert!(printed.lines().any(|found| found == line), "{line}: {printed}{errors}");
    }
    assert!(errors.contains("is full"), "{errors}");
}
