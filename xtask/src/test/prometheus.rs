//! Checks `deploy/prometheus` with Prometheus itself: its rules, each alert firing and resolving on test data, and
//! one firing and resolving on a real server.

mod package;
mod running;

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::http::{body, request};
use super::server::Server;
use crate::builds::PRODUCT;
use crate::cargo;
use package::Programs;
use running::Prometheus;

/// Poll interval, and how long a change may take to show.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
const SHOWS_WITHIN: Duration = Duration::from_secs(60);
const ALERT: &str = "sandbox_timeout_high";

/// Runs only this stage.
pub(crate) fn run_alone() -> Result<bool> {
    Ok(PRODUCT.make()? && run()?)
}

/// As a stage of the test run.
pub(super) fn run() -> Result<bool> {
    let target = cargo::repository_root().join("target");
    let programs = Programs::fetch(&target.join("prometheus"))?;
    let rules_hold = check_rules(&programs)?;
    if rules_hold {
        scrape(&programs)?;
    }
    Ok(rules_hold)
}

fn check_rules(programs: &Programs) -> Result<bool> {
    let deploy = cargo::repository_root().join("deploy/prometheus");
    let checks: [&[&str]; 3] = [
        &["check", "rules", "pinfold.rules.yml"],
        &["check", "config", "--syntax-only", "prometheus.yml"],
        &["test", "rules", "pinfold.rules.test.yml"],
    ];
    for arguments in checks {
        let status = Command::new(&programs.promtool).args(arguments).current_dir(&deploy).status();
        if !status.context("could not run promtool")?.success() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Scrapes a real server whose executions time out until the alert fires, and then succeed until it resolves.
fn scrape(programs: &Programs) -> Result<()> {
    let server = Server::start("prometheus", &cargo::repository_root().join("target"))?;
    let prometheus = Prometheus::begin(programs, &server)?;
    check_text(programs, &server)?;
    wait_until("the server is read", || Ok(value_of(&prometheus, "up")? == Some(1.0)))?;
    wait_until("nothing has failed yet", || {
        Ok(value_of(&prometheus, "sum(pinfold_execution_failures_total)")? == Some(0.0))
    })?;
    let made = post(&server, "/api/sandbox", r#"{"limits": {"memory_mb": 64}}"#)?;
    let id = made["id"].as_str().context("no sandbox was made")?.to_owned();
    let exec = format!("/api/sandbox/{id}/exec");

    wait_until("the alert fires", || {
        post(&server, &exec, r#"{"command": ["sleep", "60"], "timeout_ms": 100}"#)?;
        // Few enough to be outweighed below.
        for _ in 0..4 {
            post(&server, &exec, r#"{"command": ["true"]}"#)?;
        }
        fires(&prometheus)
    })?;
    wait_until("the alert is resolved", || {
        for _ in 0..20 {
            post(&server, &exec, r#"{"command": ["true"]}"#)?;
        }
        Ok(!fires(&prometheus)?)
    })?;
    let counted = value_of(&prometheus, "sum(pinfold_executions_total)")?.unwrap_or(0.0);
    println!("prometheus: {ALERT} fired and was resolved; {counted} executions were counted");
    drop(prometheus);
    server.end()
}

/// `promtool` reads the classic text only. That the OpenMetrics text is valid shows in `up`: Prometheus prefers it, and a
/// scrape that it cannot parse has failed.
fn check_text(programs: &Programs, server: &Server) -> Result<()> {
    let text = request("GET", &server.url, "/metrics", Some(&server.token), "")?.content;
    let mut promtool = Command::new(&programs.promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .spawn()
        .context("could not run promtool")?;
    let mut input = promtool.stdin.take().context("promtool has no input")?;
    input.write_all(text.as_bytes()).context("could not write to promtool")?;
    drop(input);
    ensure!(promtool.wait().context("promtool did not end")?.success(), "promtool rejects /metrics:\n{text}");
    Ok(())
}

fn post(server: &Server, path: &str, content: &str) -> Result<Value> {
    body(&request("POST", &server.url, path, Some(&server.token), content)?)
}

fn fires(prometheus: &Prometheus) -> Result<bool> {
    let answer = body(&request("GET", &prometheus.url, "/api/v1/alerts", None, "")?)?;
    let alerts = answer["data"]["alerts"].as_array().context("there is no list of alerts")?;
    Ok(alerts.iter().any(|alert| alert["labels"]["alertname"] == ALERT && alert["state"] == "firing"))
}

/// None: there is no such series yet.
fn value_of(prometheus: &Prometheus, query: &str) -> Result<Option<f64>> {
    let path = format!("/api/v1/query?query={}", query.replace(' ', "%20"));
    let answer = body(&request("GET", &prometheus.url, &path, None, "")?)?;
    ensure!(answer["status"] == "success", "{query}: {answer}");
    let value = answer["data"]["result"][0]["value"][1].as_str();
    value.map(|value| value.parse().context("that is no number")).transpose()
}

#[expect(clippy::disallowed_methods, reason = "a wait for other processes takes real time")]
fn wait_until(what: &str, is_so: impl Fn() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + SHOWS_WITHIN;
    while !is_so()? {
        if Instant::now() >= end {
            bail!("it did not come to this: {what}");
        }
        sleep(POLL_INTERVAL);
    }
    Ok(())
}
