//! The proof that a server knows a token, as clients on loopback ask for it.

use hyper::Method;
use pinfold_api::{ErrorCode, hex, server_proof, token_hash, token_id};
use pinfold_client::{Client, ClientError};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use crate::fixture::with_server;

#[tokio::test(flavor = "multi_thread")]
async fn proof_is_given_for_valid_tokens_only() {
    with_server(|fixture| async move {
        let (revoked_id, revoked) = fixture.token("viewer").await;
        fixture.delete(&format!("/api/tokens/{revoked_id}")).await;
        let nonce = hex(&[7; 32]);
        let prove = async |id: &str, nonce: &str| {
            let body = json!({ "token_id": id, "nonce": nonce });
            fixture.request_as(None, Method::POST, "/api/proof", Some(body)).await
        };

        let proven = prove(&token_id(&fixture.admin).unwrap(), &nonce).await;
        let unknown = prove("tok_01m7h9849weh0tapx1maw3q2yb", &nonce).await;
        let late = prove(&token_id(&revoked).unwrap(), &nonce).await;
        let malformed = prove(&token_id(&fixture.admin).unwrap(), "00").await;

        let expected = server_proof(&token_hash(&fixture.admin), &nonce, fixture.address.port()).unwrap();
        assert_eq!((proven.status, proven.json()), (200, json!({ "proof": expected })));
        assert_eq!((unknown.status, unknown.code()), (401, ErrorCode::Unauthorized));
        assert_eq!((late.status, late.code()), (401, ErrorCode::Unauthorized));
        assert_eq!((malformed.status, malformed.code()), (400, ErrorCode::BadInput));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn proof_that_a_program_on_another_port_passes_on_is_refused() {
    with_server(|fixture| async move {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (relay, server) = (listener.local_addr().unwrap(), fixture.address);
        let relaying = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut server = TcpStream::connect(server).await.unwrap();
                tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
            }
        });
        let client = |address| Client::new(&format!("http://{address}"), &fixture.admin).unwrap();

        let direct = client(server).stats().await;
        let relayed = client(relay).stats().await;

        relaying.abort();
        assert!(direct.is_ok(), "{direct:?}");
        assert!(matches!(relayed, Err(ClientError::Unproven { .. })), "{relayed:?}");
    })
    .await;
}
