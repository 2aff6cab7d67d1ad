//! TLS configuration: which certificate authorities are trusted.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::ClientError;

/// Trusts the authorities of a PEM file, or this host's.
pub(crate) fn trusting_authorities(authorities: Option<&Path>) -> Result<ClientConfig, ClientError> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(path) => {
            let unreadable = |source| ClientError::Authorities { path: path.to_owned(), source };
            for one in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.into()))? {
                let one = one.map_err(|error| unreadable(error.into()))?;
                roots.add(one).map_err(|error| unreadable(error.into()))?;
            }
        }
        // Many hosts have some unreadable certificates; the readable ones are enough.
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    config(roots)
}

/// For plain HTTP: no authority is needed.
pub(crate) fn trusting_none() -> Result<ClientConfig, ClientError> {
    config(RootCertStore::empty())
}

fn config(roots: RootCertStore) -> Result<ClientConfig, ClientError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| ClientError::Request(error.into()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
