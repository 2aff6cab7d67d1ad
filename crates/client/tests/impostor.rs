//! A program that took the server's loopback port learns no token.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pinfold_client::Client;

const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Records everything that it receives, and answers each request with the same text.
struct Impostor {
    address: SocketAddr,
    received: Arc<Mutex<String>>,
}

impl Impostor {
    fn start(status: &'static str, body: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<String>>::default();
        let record = received.clone();
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                answer(stream, status, body, &record);
            }
        });
        Self { address, received }
    }

    fn received(&self) -> String {
        self.received.lock().unwrap().clone()
    }
}

fn answer(mut stream: TcpStream, status: &str, body: &str, record: &Mutex<String>) {
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut buffer = [0; 4_096];
    // The head and the body may arrive apart; the timeout ends the request.
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        record.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..length]));
    }
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n");
    let _ = write!(stream, "{head}content-length: {length}\r\n\r\n{body}");
}

#[tokio::test]
async fn impostor_on_loopback_never_receives_the_token() {
    let token = format!("pft_01m7h9849weh0tapx1maw3q2yb_{SECRET}");
    let proof = r#"{"proof": "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"}"#;
    for (status, body) in
        [("200 OK", proof), ("200 OK", "{}"), ("404 Not Found", "{}"), ("401 Unauthorized", "no")]
    {
        let impostor = Impostor::start(status, body);
        let urls =
            [format!("http://{}", impostor.address), format!("http://localhost:{}", impostor.address.port())];
        for url in urls {
            let client = Client::new(&url, &token).unwrap();

            assert!(!client.is_up().await || status.starts_with("200"), "{status} {body}");
            let answer = client.stats().await;

            let text = answer.map(|_| ()).unwrap_err().to_string();
            let received = impostor.received();
            assert!(!received.is_empty(), "{status} {body}");
            assert!(!received.contains(SECRET), "{status} {body}: it received\n{received}");
            assert!(text.contains("token was not sent"), "{status} {body}: {text}");
        }
    }
}
