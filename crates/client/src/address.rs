//! The address of a server: `http://HOST:PORT` or `https://HOST:PORT`, and nothing else.

use hyper::Uri;

use crate::ClientError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

/// The address without a trailing slash. A path or a password would be ignored or leaked, so they are refused.
pub(crate) fn parse(given: &str) -> Result<(String, Scheme), ClientError> {
    let bad = || ClientError::BadUrl { url: given.to_owned() };
    let uri: Uri = given.parse().map_err(|_| bad())?;
    let scheme = match uri.scheme_str() {
        Some("http") => Scheme::Http,
        Some("https") => Scheme::Https,
        Some(_) | None => return Err(bad()),
    };
    let authority = uri.authority().ok_or_else(bad)?;
    let refused = |url: String, why: String| Err(ClientError::BadUrlPart { url, why });
    let host_and_port = authority.as_str().rsplit('@').next().unwrap_or_default();
    if host_and_port != authority.as_str() {
        let url = format!("{}://{host_and_port}", uri.scheme_str().unwrap_or_default());
        return refused(url, "leave out the name and password; set PINFOLD_TOKEN".to_owned());
    }
    if authority.host().is_empty() {
        return Err(bad());
    }
    let port = host_and_port.strip_prefix(authority.host()).and_then(|rest| rest.strip_prefix(':'));
    if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
        return refused(given.to_owned(), "the port must be 1 to 65535".to_owned());
    }
    match uri.path_and_query().map(|path| path.as_str()) {
        None | Some("/" | "") => Ok((given.trim_end_matches('/').to_owned(), scheme)),
        Some(path) => refused(given.to_owned(), format!("leave out the path `{path}`")),
    }
}
