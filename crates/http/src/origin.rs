//! Checks Host and Origin, against DNS rebinding and requests from foreign web pages. A request that names its host
//! twice is refused, since a proxy in front may have checked the other name.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::uri::Authority;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use pinfold_api::ErrorCode;

use pinfold_service::Failure;

use super::error_response::ErrorResponse;

/// Accepted host names. IP addresses are always accepted: DNS rebinding needs a name.
pub(super) struct Names(Vec<String>);

impl Names {
    pub(super) fn new(further: &[String]) -> Self {
        let further = further.iter().map(|name| name.to_ascii_lowercase());
        Self(std::iter::once("localhost".to_owned()).chain(further).collect())
    }

    fn contains_host(&self, authority: &Authority) -> bool {
        let host = authority.host().to_ascii_lowercase();
        let plain = host.trim_start_matches('[').trim_end_matches(']');
        plain.parse::<IpAddr>().is_ok() || self.0.contains(&host)
    }

    fn check(&self, request: &Request) -> Result<(), Failure> {
        let foreign = |message: &str| Failure::new(ErrorCode::ForeignOrigin, message);
        // Only HTTP/1.1 is served, so the host is not in a pseudo-header.
        if request.uri().authority().is_some() {
            let message = "must be a path such as `/healthz`; a URL with a host is not accepted";
            return Err(Failure::bad_input("request target", message));
        }
        let host = single(request, &HOST, "Host")?.and_then(|host| host.parse::<Authority>().ok());
        let host = host.filter(|host| self.contains_host(host));
        let host = host.ok_or_else(|| foreign("the Host header is not a name of this server"))?;
        match single(request, &ORIGIN, "Origin")? {
            Some(origin) if !is_same_origin(origin, &host) => {
                Err(foreign("the Origin header is not this server"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// The value of a header that may be given once.
fn single<'a>(request: &'a Request, name: &HeaderName, field: &str) -> Result<Option<&'a str>, Failure> {
    let mut given = request.headers().get_all(name).iter().map(|value| value.to_str().unwrap_or_default());
    match (given.next(), given.next()) {
        (_, Some(_)) => Err(Failure::bad_input(field, "is given more than once; send it once")),
        (first, None) => Ok(first),
    }
}

/// Whether the origin is the same host and port as the request's.
fn is_same_origin(origin: &str, host: &Authority) -> bool {
    let asked = ["http://", "https://"].iter().find_map(|scheme| origin.strip_prefix(scheme));
    asked.is_some_and(|asked| asked.eq_ignore_ascii_case(host.as_str()))
}

pub(super) async fn check(State(names): State<Arc<Names>>, request: Request, next: Next) -> Response {
    match names.check(&request) {
        Ok(()) => next.run(request).await,
        Err(failure) => ErrorResponse(failure).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn is_accepted(host: &str, origin: Option<&str>) -> bool {
        let mut request = Request::builder().uri("/healthz").header(HOST, host);
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        Names::new(&["pinfold.example".to_owned()]).check(&request.body(Body::empty()).unwrap()).is_ok()
    }

    #[test]
    fn only_own_names_and_addresses_are_accepted() {
        for host in
            ["localhost", "LOCALHOST:7463", "127.0.0.1:7463", "[::1]:7463", "10.0.0.7", "pinfold.example"]
        {
            assert!(is_accepted(host, None), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:7463",
            "a b",
            "@",
            "0x7f.1",
        ] {
            assert!(!is_accepted(host, None), "{host}");
        }
    }

    #[test]
    fn only_the_same_origin_is_accepted() {
        assert!(is_accepted("localhost:7463", Some("http://localhost:7463")));
        for origin in
            ["http://localhost:3000", "http://evil.example", "null", "", "http://localhost:7463.evil.example"]
        {
            assert!(!is_accepted("localhost:7463", Some(origin)), "{origin}");
        }
    }
}
