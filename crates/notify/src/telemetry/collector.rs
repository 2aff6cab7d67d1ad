//! The address of an OTLP collector, and extra request headers.

use hyper::Uri;
use hyper::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    TRANSFER_ENCODING,
};

use super::collector_client::Signal;

/// A collector's base URL and headers. Header values are marked sensitive and never printed.
#[derive(Debug, Clone)]
pub struct Collector {
    base: String,
    headers: HeaderMap,
}

#[derive(Debug, thiserror::Error)]
pub enum CollectorAddressError {
    #[error("must begin with `http://` or `https://`, as in `http://localhost:4318`")]
    Scheme,
    #[error("not an address; write one as in `http://localhost:4318`")]
    NoAddress,
    #[error("must not contain a name or password; give them as a header `authorization`")]
    Password,
    #[error("must not have a query or fragment; leave out `?`, `#` and what follows")]
    QueryOrFragment,
    #[error("leave out `/v1/traces` or `/v1/metrics`: they are added")]
    SignalPath,
}

#[derive(Debug, thiserror::Error)]
pub enum CollectorHeaderError {
    #[error("not a header name; letters, digits and `-` are allowed")]
    Name,
    #[error("this header is set by Pinfold itself; leave it out")]
    Own,
    #[error("only printable ASCII characters are allowed; the value is not shown")]
    Value,
}

const OWN: [HeaderName; 6] =
    [CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING];

impl Collector {
    /// A collector at a base URL; `/v1/traces` and `/v1/metrics` are appended.
    pub fn new(address: &str) -> Result<Self, CollectorAddressError> {
        let is_web = ["http://", "https://"].iter().any(|scheme| address.starts_with(scheme));
        if !is_web {
            return Err(CollectorAddressError::Scheme);
        }
        if address.contains(['?', '#']) {
            return Err(CollectorAddressError::QueryOrFragment);
        }
        let parsed: Uri = address.parse().map_err(|_| CollectorAddressError::NoAddress)?;
        let authority = parsed.authority().ok_or(CollectorAddressError::NoAddress)?;
        if authority.as_str().contains('@') {
            return Err(CollectorAddressError::Password);
        }
        if authority.host().is_empty() || authority.as_str().ends_with(':') {
            return Err(CollectorAddressError::NoAddress);
        }
        let base = address.trim_end_matches('/').to_owned();
        if Signal::ALL.iter().any(|signal| base.ends_with(signal.path())) {
            return Err(CollectorAddressError::SignalPath);
        }
        Ok(Self { base, headers: HeaderMap::new() })
    }

    pub fn with_header(mut self, name: &str, value: &str) -> Result<Self, CollectorHeaderError> {
        let name: HeaderName = name.parse().map_err(|_| CollectorHeaderError::Name)?;
        if OWN.contains(&name) {
            return Err(CollectorHeaderError::Own);
        }
        let mut value: HeaderValue = value.parse().map_err(|_| CollectorHeaderError::Value)?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(self)
    }

    pub(super) fn address_for(&self, signal: Signal) -> String {
        format!("{}{}", self.base, signal.path())
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signal_path_is_appended() {
        for (given, expected) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("https://[::1]:4318/", "https://[::1]:4318/v1/traces"),
            ("https://host/otlp/", "https://host/otlp/v1/traces"),
        ] {
            assert_eq!(Collector::new(given).unwrap().address_for(Signal::Traces), expected);
        }
    }

    #[test]
    fn an_invalid_address_is_refused_with_a_hint() {
        for (given, expected) in [
            ("localhost:4318", "begin with `http://`"),
            ("ftp://host", "begin with `http://`"),
            ("http://", "not an address"),
            ("http://host:", "not an address"),
            ("http://a b", "not an address"),
            ("http://me:hunter2@host", "give them as a header"),
            ("http://host?key=hunter2", "leave out `?`"),
            ("http://host:4318/v1/traces", "they are added"),
            ("http://host:4318/v1/metrics/", "they are added"),
        ] {
            let message = Collector::new(given).unwrap_err().to_string();
            assert!(message.contains(expected), "{given}: {message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn header_values_are_never_printed() {
        let collector = Collector::new("http://host").unwrap();

        let with = collector.clone().with_header("Authorization", "Bearer hunter2").unwrap();

        assert_eq!(with.headers()["authorization"], "Bearer hunter2");
        assert!(!format!("{with:?}").contains("hunter2"));
        assert!(matches!(collector.clone().with_header("a b", "c"), Err(CollectorHeaderError::Name)));
        assert!(matches!(collector.clone().with_header("Content-Type", "c"), Err(CollectorHeaderError::Own)));
        assert!(matches!(collector.with_header("a", "b\nc"), Err(CollectorHeaderError::Value)));
    }
}
