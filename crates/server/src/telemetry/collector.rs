//! Where a collector is, and what is sent along with everything.

use hyper::Uri;
use hyper::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    TRANSFER_ENCODING,
};

use super::delivery::Signal;

/// What its headers say is shown nowhere.
#[derive(Debug, Clone)]
pub struct Collector {
    base: String,
    headers: HeaderMap,
}

#[derive(Debug, thiserror::Error)]
pub enum BadCollector {
    #[error("it has to begin with `http://` or `https://`, as in `http://localhost:4318`")]
    Scheme,
    #[error("it is no address; write one as in `http://localhost:4318`")]
    NoAddress,
    #[error("a name and a password do not belong here; give them as a header `authorization`")]
    Password,
    #[error("nothing may come after the path; leave out `?`, `#` and what follows")]
    BeyondPath,
    #[error("leave out `/v1/traces` or `/v1/metrics`: they are added")]
    WholePath,
}

#[derive(Debug, thiserror::Error)]
pub enum BadHeader {
    #[error("it is no name of a header; letters, digits and `-` are allowed")]
    Name,
    #[error("this header is set by the program itself; leave it out")]
    Own,
    #[error("only printable ASCII characters are allowed; what is there is not repeated here")]
    Value,
}

const OWN: [HeaderName; 6] =
    [CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING];

impl Collector {
    /// The address to which `/v1/traces` and `/v1/metrics` are added.
    pub fn at(address: &str) -> Result<Self, BadCollector> {
        let is_web = ["http://", "https://"].iter().any(|scheme| address.starts_with(scheme));
        if !is_web {
            return Err(BadCollector::Scheme);
        }
        if address.contains(['?', '#']) {
            return Err(BadCollector::BeyondPath);
        }
        let parsed: Uri = address.parse().map_err(|_| BadCollector::NoAddress)?;
        let authority = parsed.authority().ok_or(BadCollector::NoAddress)?;
        if authority.as_str().contains('@') {
            return Err(BadCollector::Password);
        }
        if authority.host().is_empty() || authority.as_str().ends_with(':') {
            return Err(BadCollector::NoAddress);
        }
        let base = address.trim_end_matches('/').to_owned();
        if Signal::ALL.iter().any(|signal| base.ends_with(signal.path())) {
            return Err(BadCollector::WholePath);
        }
        Ok(Self { base, headers: HeaderMap::new() })
    }

    pub fn with_header(mut self, name: &str, value: &str) -> Result<Self, BadHeader> {
        let name: HeaderName = name.parse().map_err(|_| BadHeader::Name)?;
        if OWN.contains(&name) {
            return Err(BadHeader::Own);
        }
        let mut value: HeaderValue = value.parse().map_err(|_| BadHeader::Value)?;
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
    fn the_path_of_the_signal_is_added() {
        for (given, expected) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("https://[::1]:4318/", "https://[::1]:4318/v1/traces"),
            ("https://host/otlp/", "https://host/otlp/v1/traces"),
        ] {
            assert_eq!(Collector::at(given).unwrap().address_for(Signal::Traces), expected);
        }
    }

    #[test]
    fn what_is_no_address_of_a_collector_is_told_with_what_to_do() {
        for (given, expected) in [
            ("localhost:4318", "begin with `http://`"),
            ("ftp://host", "begin with `http://`"),
            ("http://", "no address"),
            ("http://host:", "no address"),
            ("http://a b", "no address"),
            ("http://me:hunter2@host", "give them as a header"),
            ("http://host?key=hunter2", "leave out `?`"),
            ("http://host:4318/v1/traces", "they are added"),
            ("http://host:4318/v1/metrics/", "they are added"),
        ] {
            let told = Collector::at(given).unwrap_err().to_string();
            assert!(told.contains(expected), "{given}: {told}");
            assert!(!told.contains("hunter2"), "{told}");
        }
    }

    #[test]
    fn headers_are_kept_and_never_shown() {
        let collector = Collector::at("http://host").unwrap();

        let with = collector.clone().with_header("Authorization", "Bearer hunter2").unwrap();

        assert_eq!(with.headers()["authorization"], "Bearer hunter2");
        assert!(!format!("{with:?}").contains("hunter2"));
        assert!(matches!(collector.clone().with_header("a b", "c"), Err(BadHeader::Name)));
        assert!(matches!(collector.clone().with_header("Content-Type", "c"), Err(BadHeader::Own)));
        assert!(matches!(collector.with_header("a", "b\nc"), Err(BadHeader::Value)));
    }
}
