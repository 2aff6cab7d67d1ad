//! Tokens and roles, for every operation of the API.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt;

use http_body_util::Full;
use hyper::Request;
use pinfold_api::ErrorCode;
use pinfold_http::{ServerConfig, document};
use serde_json::{Value, json};

use crate::captured_log::CapturedLog;
use crate::fixture::{with_server, with_server_config};

struct Operation {
    method: String,
    path: String,
    /// None: needs no token.
    role: Option<String>,
}

/// Every operation of the OpenAPI description, so that none is forgotten.
fn operations() -> Vec<Operation> {
    let document = serde_json::to_value(document()).unwrap();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let kind = if path.starts_with("/api/exec") || path.starts_with("/api/agents") {
                "exe"
            } else if path.starts_with("/api/tok") {
                "tok"
            } else {
                "sbx"
            };
            let path = path
                .replace("{id}", &format!("{kind}_01m7h9849weh0tapx1maw3q2yb"))
                .replace("{path}", "etc/hosts")
                .replace("{name}", "team/app")
                .replace("{alert}", "sandbox_stuck");
            let role = operation.get("x-required-role").map(|role| role.as_str().unwrap().to_owned());
            found.push(Operation { method: method.to_uppercase(), path, role });
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn only_healthz_and_proof_answer_without_a_valid_token() {
    let config = ServerConfig { wrong_tokens: NonZeroU32::MAX, ..ServerConfig::default() };
    with_server_config(config, |fixture| async move {
        let almost = format!("{}0", &fixture.admin[..fixture.admin.len() - 1]);
        let almost = if almost == fixture.admin { almost.replace("0", "1") } else { almost };
        let (revoked_id, revoked) = fixture.token("admin").await;
        assert_eq!(fixture.delete(&format!("/api/tokens/{revoked_id}")).await.status, 200);
        let operations = operations();
        assert!(operations.len() >= 20, "{}", operations.len());

        for Operation { method, path, role } in operations {
            for token in [None, Some("wrong"), Some(""), Some(&*almost), Some(&*revoked)] {
                let answer = fixture.request_as(token, method.parse().unwrap(), &path, None).await;
                if role.is_none() {
                    // A proof without a token id and a nonce is bad input.
                    let open = [(200, "/healthz"), (400, "/api/proof")];
                    assert!(open.contains(&(answer.status, path.as_str())), "{} {path}", answer.status);
                    continue;
                }
                assert_eq!(
                    (answer.status, answer.code()),
                    (401, ErrorCode::Unauthorized),
                    "{method} {path} {token:?}"
                );
                assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            }
        }
        let nowhere = fixture.request_as(None, "GET".parse().unwrap(), "/api/nowhere", None).await;
        assert_eq!(nowhere.status, 401);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_is_refused_to_lower_roles() {
    with_server(|fixture| async move {
        let ladder = ["viewer", "operator", "admin"];
        let mut tokens = Vec::new();
        for role in ladder {
            tokens.push(fixture.token(role).await.1);
        }
        let place = |role: &str| ladder.iter().position(|known| *known == role).unwrap();

        for Operation { method, path, role } in operations() {
            let Some(role) = role else { continue };
            let needed = place(&role);
            let writes = method != "GET";
            assert!(!writes || needed > 0, "{method} {path} writes and is open to viewers");
            for (held, token) in tokens.iter().enumerate() {
                let answer = fixture.request_as(Some(token), method.parse().unwrap(), &path, None).await;
                if held < needed {
                    assert_eq!(
                        (answer.status, answer.code()),
                        (403, ErrorCode::Forbidden),
                        "{method} {path} {held}"
                    );
                } else {
                    assert!(
                        answer.status != 401 && answer.status != 403,
                        "{method} {path} {held}: {}",
                        answer.status
                    );
                    assert!(answer.status < 500, "{method} {path}: {}", answer.status);
                }
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_is_shown_once_and_stays_revoked() {
    with_server(|fixture| async move {
        let (id, secret) = fixture.token("viewer").await;
        let get_stats = async || {
            fixture.request_as(Some(&secret), "GET".parse().unwrap(), "/api/sandbox/stats", None).await
        };
        assert_eq!(get_stats().await.status, 200);

        let revoked = fixture.delete(&format!("/api/tokens/{id}")).await;

        assert_eq!((revoked.status, revoked.json()["revoked_at"].is_string()), (200, true));
        assert_eq!(get_stats().await.status, 401);
        let list = fixture.get("/api/tokens").await;
        let is_it = |token: &&Value| token["id"] == id;
        assert_eq!(list.json().as_array().unwrap().iter().find(is_it).unwrap()["role"], "viewer");
        assert!(!String::from_utf8_lossy(&list.bytes).contains(&secret));
        let unknown = fixture.delete("/api/tokens/tok_01m7h9849weh0tapx1maw3q2yb").await;
        assert_eq!((unknown.status, unknown.code()), (404, ErrorCode::UnknownToken));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn first_token_file_is_private() {
    with_server(|fixture| async move {
        let path = fixture.data.path().join("admin.token");

        let mode = std::fs::metadata(&path).unwrap().permissions().mode();

        assert_eq!(mode & 0o777, 0o600);
        let tokens = fixture.get("/api/tokens").await.json();
        assert_eq!(tokens.as_array().unwrap().len(), 1);
        assert_eq!(tokens[0]["role"], "admin");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_limited_token_gets_retry_after() {
    let config = ServerConfig {
        rate: NonZeroU32::new(1).unwrap(),
        burst: NonZeroU32::new(5).unwrap(),
        ..ServerConfig::default()
    };
    with_server_config(config, |fixture| async move {
        let (_, other) = fixture.token("viewer").await;
        let send = async |token: &str| {
            fixture.request_as(Some(token), "GET".parse().unwrap(), "/api/sandbox/stats", None).await
        };

        let mut answers = Vec::new();
        for _ in 0..8 {
            answers.push(send(&fixture.admin).await);
        }
        let of_another = send(&other).await;

        assert_eq!(answers[0].status, 200);
        let refused = answers.iter().find(|answer| answer.status != 200).unwrap();
        assert_eq!((refused.status, refused.code()), (429, ErrorCode::RateLimited));
        assert!(refused.header("retry-after").is_some());
        assert_eq!(of_another.status, 200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn openapi_description_is_complete_and_served() {
    with_server(|fixture| async move {
        let served = fixture.get("/openapi.json").await.json();

        assert_eq!(served, serde_json::to_value(document()).unwrap());
        let text = served.to_string();
        for (at, _) in text.match_indices("#/components/schemas/") {
            let name: String =
                text[at + 21..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            assert!(served["components"]["schemas"].get(&name).is_some(), "{name}");
        }
        let mut names = BTreeSet::new();
        for (path, item) in served["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                assert!(
                    names.insert(operation["operationId"].to_string()),
                    "{method} {path}: duplicate operationId"
                );
                for (status, response) in operation["responses"].as_object().unwrap() {
                    assert_ne!(response["description"], json!(""), "{method} {path} {status}");
                    assert!(response["description"].is_string(), "{method} {path} {status}");
                }
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn address_with_many_wrong_tokens_gets_429_and_a_valid_token_still_works() {
    let config = ServerConfig { wrong_tokens: NonZeroU32::new(5).unwrap(), ..ServerConfig::default() };
    with_server_config(config, |fixture| async move {
        let send = async |token: &str| {
            fixture.request_as(Some(token), "GET".parse().unwrap(), "/api/sandbox/stats", None).await
        };

        let mut answers = Vec::new();
        for _ in 0..8 {
            answers.push(send("wrong").await);
        }

        let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [401, 401, 401, 401, 401, 429, 429, 429]);
        assert!(answers[7].header("retry-after").is_some());
        assert_eq!(send(&fixture.admin).await.status, 200);
    })
    .await;
}

#[tokio::test]
async fn rejected_request_is_logged_with_address_but_without_token() {
    let (reported, _guard) = CapturedLog::start();
    let config = ServerConfig { wrong_tokens: NonZeroU32::new(1).unwrap(), ..ServerConfig::default() };
    with_server_config(config, |fixture| async move {
        let (_, viewer) = fixture.token("viewer").await;
        let send = async |token: &str, path: &str, host: &str| {
            let request = Request::post(fixture.url(path))
                .header("authorization", format!("Bearer {token}"))
                .header("host", host);
            fixture.send(request.body(Full::default()).unwrap()).await.status
        };

        let statuses = [
            send("a-wrong-one", "/api/sandbox", "localhost").await,
            send("another-wrong-one", "/api/sandbox", "localhost").await,
            send(&viewer, "/api/sandbox", "localhost").await,
            send(&viewer, "/api/sandbox", "evil.example").await,
        ];

        assert_eq!(statuses, [401, 429, 403, 403]);
        for event in ["unauthorized", "rate_limited", "forbidden", "foreign_origin"] {
            let lines = reported.lines(&format!("security_event=\"{event}\" peer=\"127.0.0.1\""));
            assert!(lines.len() == 1 && lines[0].contains(" WARN "), "{event}: {lines:#?}");
        }
        for secret in ["wrong-one", &viewer, &fixture.admin] {
            assert_eq!(reported.lines(secret), [""; 0]);
        }
    })
    .await;
}
