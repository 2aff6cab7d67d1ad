//! Paged lists, read to the end by following the cursor header.

use hyper::Method;
use pinfold_api::NEXT_CURSOR;
use serde::de::DeserializeOwned;

use crate::client::{NO_BODY, encode_query_value, read_json};
use crate::{Client, ClientError};

impl Client {
    /// Reads every entry of the list at `path` that matches `query`.
    pub(crate) async fn read_all_pages<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &str,
    ) -> Result<Vec<T>, ClientError> {
        let (mut all, mut from) = (Vec::new(), String::new());
        loop {
            let parameters: Vec<_> = [from.as_str(), query].into_iter().filter(|it| !it.is_empty()).collect();
            let separator = if parameters.is_empty() { "" } else { "?" };
            let page = format!("{path}{separator}{}", parameters.join("&"));
            let response = self.request(Method::GET, &page, NO_BODY).await?;
            let next = response.headers().get(NEXT_CURSOR).and_then(|next| next.to_str().ok());
            let next = next.map(|next| format!("cursor={}", encode_query_value(next)));
            all.extend(read_json::<Vec<T>>(response).await?);
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

    /// A server with a list of two pages. The receiver gets each request line.
    fn server_of(first: &'static str, second: &'static str) -> (Client, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::new(&format!("http://{}", listener.local_addr().unwrap()), "").unwrap();
        let next = format!("{NEXT_CURSOR}: a b\r\n");
        let (sender, requests) = channel();
        thread::spawn(move || {
            for (header, page) in [(next.as_str(), first), ("", second)] {
                let (connection, _) = listener.accept().unwrap();
                sender.send(read_request_line(&connection)).unwrap();
                answer(&connection, header, page);
            }
        });
        (client, requests)
    }

    /// Reads the request head and returns its first line.
    fn read_request_line(connection: &TcpStream) -> String {
        let lines = BufReader::new(connection).lines().map(Result::unwrap);
        lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().swap_remove(0)
    }

    /// Answers and closes the connection.
    fn answer(mut connection: &TcpStream, header: &str, page: &str) {
        let length = format!("content-length: {}\r\n", page.len());
        let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n{length}{header}\r\n");
        write!(connection, "{head}{page}").unwrap();
    }

    #[tokio::test]
    async fn all_pages_of_a_list_are_read() {
        let (client, requests) = server_of(r#"["a", "a b"]"#, r#"["c"]"#);

        let all: Vec<String> = client.read_all_pages("/list", "status=all").await.unwrap();

        assert_eq!(all, ["a", "a b", "c"]);
        let both = ["GET /list?status=all HTTP/1.1", "GET /list?cursor=a%20b&status=all HTTP/1.1"];
        assert_eq!(requests.try_iter().collect::<Vec<_>>(), both);
    }

    #[tokio::test]
    async fn every_list_method_reads_past_the_first_page() {
        let (client, sandboxes) = server_of("[]", "[]");
        client.list("").await.unwrap();
        let (client, executions) = server_of("[]", "[]");
        client.executions("sbx_1").await.unwrap();
        let (client, tokens) = server_of("[]", "[]");
        client.tokens().await.unwrap();
        let (client, images) = server_of("[]", "[]");
        client.images().await.unwrap();

        for (requests, path) in [
            (sandboxes, "/api/sandbox/list"),
            (executions, "/api/sandbox/sbx_1/executions"),
            (tokens, "/api/tokens"),
            (images, "/api/images"),
        ] {
            let both = [format!("GET {path} HTTP/1.1"), format!("GET {path}?cursor=a%20b HTTP/1.1")];
            assert_eq!(requests.try_iter().collect::<Vec<_>>(), both);
        }
    }
}
