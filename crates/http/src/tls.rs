//! TLS certificate and key of the server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// A certificate and its key, read once. A renewed certificate needs a restart, which stops no sandbox.
#[derive(Clone)]
pub struct Tls(pub(super) TlsAcceptor);

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("could not read the certificate in `{}`; it must be a PEM chain", path.display())]
    Certificate { path: PathBuf, source: pem::Error },
    #[error("no certificate in `{}`; it must be a PEM chain", path.display())]
    NoCertificate { path: PathBuf },
    #[error("could not read the key in `{}`; it must be a PEM private key", path.display())]
    Key { path: PathBuf, source: pem::Error },
    #[error("the certificate and the key do not match")]
    Unusable(#[from] rustls::Error),
}

impl Tls {
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let unreadable = |source| TlsError::Certificate { path: certificate.to_owned(), source };
        let chain =
            CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let chain = chain.map_err(unreadable)?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate { path: certificate.to_owned() });
        }
        let key = PrivateKeyDer::from_pem_file(key)
            .map_err(|source| TlsError::Key { path: key.to_owned(), source })?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = config.with_no_client_auth().with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config).into()))
    }
}
