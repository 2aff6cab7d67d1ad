//! Files inside a sandbox.

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use pinfold_api::ErrorCode;
use serde_json::json;

use crate::fixture::with_server;

#[tokio::test(flavor = "multi_thread")]
async fn files_are_written_read_listed_and_removed() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        let files = format!("/api/sandbox/{id}/files");
        let put = async |path: &str, content: Vec<u8>| {
            let request =
                Request::put(fixture.url(path)).header("authorization", format!("Bearer {}", fixture.admin));
            fixture.send(request.body(Full::new(Bytes::from(content))).unwrap()).await
        };
        let content: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();

        let written = put(&format!("{files}/workspace/a%20file?mode=640"), content.clone()).await;

        assert_eq!((written.status, &written.json()["bytes"]), (200, &json!(3_000_000)));
        assert_eq!(fixture.get(&format!("{files}/workspace/a%20file")).await.bytes, content);
        let part = fixture.get(&format!("{files}/workspace/a%20file?from=255&most=3")).await;
        assert_eq!(&part.bytes[..], [255, 0, 1]);
        assert_eq!(fixture.sh(&id, "stat -c %a '/workspace/a file'").await["stdout"], "640\n");
        let list = fixture.get(&format!("{files}/workspace?list=1")).await.json();
        assert_eq!(
            (&list["entries"][0]["name"], &list["entries"][0]["size"]),
            (&json!("a file"), &json!(3_000_000))
        );
        let removed = fixture.delete(&format!("{files}/workspace/a%20file")).await;
        assert_eq!((removed.status, &removed.json()["removed"]), (200, &json!(1)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_file_operation_is_refused() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        fixture.sh(&id, "mkdir -p /workspace/d/e; mkfifo /workspace/pipe").await;
        let files = format!("/api/sandbox/{id}/files");

        for (path, status, code) in [
            ("/workspace/none", 404, ErrorCode::UnknownFile),
            ("/workspace/d", 409, ErrorCode::WrongState),
            ("/workspace/pipe", 409, ErrorCode::WrongState),
            ("/../../../../../../../../etc/shadow", 404, ErrorCode::UnknownFile),
        ] {
            let answer = fixture.get(&format!("{files}{path}")).await;
            assert_eq!((answer.status, answer.code()), (status, code), "{path}");
        }
        let not_empty = fixture.delete(&format!("{files}/workspace/d")).await;
        assert_eq!((not_empty.status, not_empty.code()), (409, ErrorCode::WrongState));
        assert_eq!(fixture.delete(&format!("{files}/workspace/d?recursive=1")).await.json()["removed"], 2);
        fixture.delete(&format!("/api/sandbox/{id}?force=1")).await;
        let gone = fixture.get(&format!("{files}/workspace")).await;
        assert_eq!((gone.status, gone.code()), (410, ErrorCode::SandboxGone));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_and_links_work_also_with_names_that_are_not_utf8() {
    with_server(|fixture| async move {
        let id = fixture.sandbox().await;
        let files = format!("/api/sandbox/{id}/files/workspace");
        let put = async |path: &str, content: &'static [u8]| {
            let request = Request::put(fixture.url(&format!("{files}{path}")))
                .header("authorization", format!("Bearer {}", fixture.admin));
            fixture.send(request.body(Full::new(Bytes::from(content))).unwrap()).await
        };

        let made = put("/d?kind=directory&mode=715", b"").await;
        let again = put("/d?kind=directory", b"").await;
        assert_eq!((made.status, again.status), (200, 200), "{}", made.json());
        assert_eq!(fixture.sh(&id, "stat -c %a /workspace/d").await["stdout"], "715\n");
        put("/d/%FF", b"odd").await;
        for target in [b"../\xfe", b"../\xfd"] {
            assert_eq!(put("/d/link?kind=link", target).await.json()["bytes"], 4);
        }

        let link = fixture.get(&format!("{files}/d/link?stat=1")).await.json();
        assert_eq!((&link["kind"], &link["target_base64"]), (&json!("link"), &json!("Li4v/Q==")), "{link}");
        let list = fixture.get(&format!("{files}/d?list=1&most=10")).await.json();
        assert_eq!(list["entries"][1]["name_base64"], "/w==", "{list}");
        assert_eq!(fixture.get(&format!("{files}/d?list=1&most=1")).await.json()["more"], true);
        let content = fixture.get(&format!("{files}/d/%FF")).await;
        assert_eq!(
            (&content.bytes[..], &content.headers["x-file-mode"]),
            (&b"odd"[..], &"644".parse().unwrap())
        );
        for (wrong, content, status, field) in [
            ("/d/%FF?kind=directory", &b""[..], 409, None),
            ("/x?kind=directory", b"content", 400, Some("body")),
            ("/x?kind=link&mode=777", b"y", 400, Some("mode")),
            ("/x?kind=link", b"", 400, Some("body")),
            ("/x?kind=pipe", b"", 400, Some("kind")),
        ] {
            let answer = put(wrong, content).await;
            assert_eq!(answer.status, status, "{wrong}: {}", answer.json());
            assert_eq!(answer.json()["error"]["details"]["field"].as_str(), field, "{wrong}");
        }
        let refused = fixture.get(&format!("{files}?stat=1&list=1")).await;
        assert_eq!((refused.status, refused.code()), (400, ErrorCode::BadInput));
    })
    .await;
}
