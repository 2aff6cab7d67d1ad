//! Lists that come in pages, read to their end.

use hyper::Method;
use pinfold_api::NEXT_CURSOR;
use serde::de::DeserializeOwned;

use crate::client::{NOTHING, encoded, read};
use crate::{Client, ClientError};

impl Client {
    /// Every entry of the list at a path, of those that `query` asks for.
    pub(crate) async fn all<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &str,
    ) -> Result<Vec<T>, ClientError> {
        let (mut all, mut from) = (Vec::new(), String::new());
        loop {
            let asked: Vec<_> = [from.as_str(), query].into_iter().filter(|it| !it.is_empty()).collect();
            let mark = if asked.is_empty() { "" } else { "?" };
            let page = format!("{path}{mark}{}", asked.join("&"));
            let response = self.ask(Method::GET, &page, NOTHING).await?;
            let next = response.headers().get(NEXT_CURSOR).and_then(|next| next.to_str().ok());
            let next = next.map(|next| format!("cursor={}", encoded(next)));
            all.extend(read::<Vec<T>>(response).await?);
            match next {
                Some(next) => from = next,
                None => return Ok(all),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::{Receiver, channel};
    use std::thread;

    use super::*;

    /// A server with a list of two pages, and what it is asked for.
    fn server_of(first: &'static str, second: &'static str) -> (Client, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::new(&format!("http://{}", listener.local_addr().unwrap()), "").unwrap();
        let next = format!("{NEXT_CURSOR}: a b\r\n");
        let (tell, asked) = channel();
        thread::spawn(move || {
            for (header, page) in [(next.as_str(), first), ("", second)] {
                let (connection, _) = listener.accept().unwrap();
                tell.send(request_on(&connection)).unwrap();
                answer(&connection, header, page);
            }
        });
        (client, asked)
    }

    /// The first line of its head, which is read to its end.
    fn request_on(connection: &TcpStream) -> String {
        let lines = BufReader::new(connection).lines().map(Result::unwrap);
        lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().swap_remove(0)
    }

    /// And no other one on this connection.
    fn answer(mut connection: &TcpStream, header: &str, page: &str) {
        let length = format!("content-length: {}\r\n", page.len());
        let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n{length}{header}\r\n");
        write!(connection, "{head}{page}").unwrap();
    }

    #[tokio::test]
    async fn a_list_is_read_to_its_end() {
        let (client, asked) = server_of(r#"["a", "a b"]"#, r#"["c"]"#);

        let all: Vec<String> = client.all("/list", "status=all").await.unwrap();

        assert_eq!(all, ["a", "a b", "c"]);
        let both = ["GET /list?status=all HTTP/1.1", "GET /list?cursor=a%20b&status=all HTTP/1.1"];
        assert_eq!(asked.try_iter().collect::<Vec<_>>(), both);
    }

    #[tokio::test]
    async fn no_list_ends_with_its_first_page() {
        let (client, sandboxes) = server_of("[]", "[]");
        client.list("").await.unwrap();
        let (client, executions) = server_of("[]", "[]");
        client.executions("sbx_1").await.unwrap();
        let (client, tokens) = server_of("[]", "[]");
        client.tokens().await.unwrap();
        let (client, images) = server_of("[]", "[]");
        client.images().await.unwrap();

        for (asked, path) in [
            (sandboxes, "/api/sandbox/list"),
            (executions, "/api/sandbox/sbx_1/executions"),
            (tokens, "/api/tokens"),
            (images, "/api/images"),
        ] {
            let both = [format!("GET {path} HTTP/1.1"), format!("GET {path}?cursor=a%20b HTTP/1.1")];
            assert_eq!(asked.try_iter().collect::<Vec<_>>(), both);
        }
    }
}
