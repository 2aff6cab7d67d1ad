//! Lists with filters and paging.

use pinfold_api::ErrorCode;
use serde_json::{Value, json};

use crate::fixture::{Answer, with_server};

fn names(answer: &Answer) -> Vec<String> {
    let name = |it: &Value| it["name"].as_str().unwrap_or_default().to_owned();
    answer.json().as_array().unwrap().iter().map(name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn list_is_filtered_and_paged() {
    with_server(|fixture| async move {
        for (name, agent_type, label) in [("a", "default", "x"), ("b", "VALIDATION", "x"), ("c", "default", "y")] {
            let spec = json!({
                "name": name, "agent_type": agent_type, "labels": { "l": label }, "task_id": format!("task {name}"),
                "limits": { "memory_mb": 64, "disk_mb": 16 },
            });
            assert_eq!(fixture.post("/api/sandbox", spec).await.status, 201);
        }
        let all = fixture.get("/api/sandbox/list").await;
        let last = all.json()[2]["id"].as_str().unwrap().to_owned();
        fixture.delete(&format!("/api/sandbox/{last}?force=1")).await;

        assert_eq!(names(&all), ["a", "b", "c"]);
        for (query, expected) in [
            ("", &["a", "b"][..]),
            ("?status=all", &["a", "b", "c"]),
            ("?status=terminated", &["c"]),
            ("?status=ready", &["a", "b"]),
            ("?status=quarantined", &[]),
            ("?agent_type=validation", &["b"]),
            ("?agent_type=default&status=all", &["a", "c"]),
            ("?label=l%3Dx", &["a", "b"]),
            ("?label=l%3Dx&label=l%3Dy", &[]),
            ("?task_id=task%20b", &["b"]),
        ] {
            assert_eq!(names(&fixture.get(&format!("/api/sandbox/list{query}")).await), expected, "{query}");
        }

        let first = fixture.get("/api/sandbox/list?status=all&limit=2").await;
        let cursor = first.header("x-next-cursor").unwrap();
        let second = fixture.get(&format!("/api/sandbox/list?status=all&limit=2&cursor={cursor}")).await;
        assert_eq!((names(&first), names(&second)), (vec!["a".into(), "b".into()], vec!["c".to_owned()]));
        assert_eq!(second.header("x-next-cursor"), None);
        let one = all.json()[0].clone();
        for field in ["id", "status", "created_at", "age_minutes", "agent_type", "task_id", "flags"] {
            assert!(one.get(field).is_some(), "{field}: {one}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_ids_are_not_found() {
    with_server(|fixture| async move {
        let unknown = "sbx_01m7h9849weh0tapx1maw3q2yb";
        let nothing = "exe_01m7h9849weh0tapx1maw3q2yb";
        for (path, code) in [
            (format!("/api/sandbox/{unknown}"), ErrorCode::UnknownSandbox),
            (format!("/api/sandbox/{unknown}/resources"), ErrorCode::UnknownSandbox),
            (format!("/api/sandbox/{unknown}/executions"), ErrorCode::UnknownSandbox),
            (format!("/api/sandbox/{unknown}/wait?state=ready"), ErrorCode::UnknownSandbox),
            (format!("/api/sandbox/{unknown}/files/etc/hosts"), ErrorCode::UnknownSandbox),
            (format!("/api/executions/{nothing}"), ErrorCode::UnknownExecution),
            (format!("/api/executions/{nothing}/output"), ErrorCode::UnknownExecution),
            ("/api/nothing".to_owned(), ErrorCode::UnknownRoute),
        ] {
            let answer = fixture.get(&path).await;
            assert_eq!((answer.status, answer.code()), (404, code), "{path}");
        }
        let answer = fixture.delete(&format!("/api/sandbox/{unknown}")).await;
        assert_eq!((answer.status, answer.code()), (404, ErrorCode::UnknownSandbox));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_and_jobs_are_listed_in_pages() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        fixture.sh(&id, "true").await;
        let job = fixture.sh_in_background(&id, crate::fixture::sh("true")).await;
        fixture.sh(&id, "true").await;

        let first = fixture.get(&format!("/api/sandbox/{id}/executions?limit=2")).await;
        let cursor = first.header("x-next-cursor").unwrap();
        let rest = fixture.get(&format!("/api/sandbox/{id}/executions?limit=2&cursor={cursor}")).await;
        let jobs = fixture.get(&format!("/api/sandbox/{id}/jobs")).await.json();

        assert_eq!(first.json()[1]["execution_id"], job);
        assert_eq!((rest.json().as_array().unwrap().len(), rest.header("x-next-cursor")), (1, None));
        assert_eq!((jobs.as_array().unwrap().len(), &jobs[0]["execution_id"]), (1, &job.into()));
    })
    .await;
}
