//! TLS certificate and key of the server.

use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::fs::MetadataExt;
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
    #[error(
        "the key in `{}` has mode {mode:03o}, so other users can read or replace it; run `chmod 600 {}` and \
         create a new key if others may have read it",
        path.display(),
        path.display()
    )]
    ExposedKey { path: PathBuf, mode: u32 },
    #[error("could not open the key in `{}`", path.display())]
    OpenKey { path: PathBuf, source: io::Error },
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
        let key = read_key(key)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = config.with_no_client_auth().with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config).into()))
    }
}

/// Reads a key that no other user can read. The mode is that of the opened file, so it cannot be exchanged in between.
fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let failed = |source| TlsError::OpenKey { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let mode = metadata.mode() & 0o777;
    if is_exposed(mode, metadata.uid()) {
        return Err(TlsError::ExposedKey { path: path.to_owned(), mode });
    }
    PrivateKeyDer::from_pem_reader(BufReader::new(file))
        .map_err(|source| TlsError::Key { path: path.to_owned(), source })
}

/// Whether users besides the owner can use the key. A group may read a key of root, as distributions set up for their
/// certificates.
fn is_exposed(mode: u32, owner: u32) -> bool {
    let allowed = if owner == 0 { 0o740 } else { 0o700 };
    mode & !allowed != 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn key_that_others_can_read_is_refused_with_file_mode_and_fix() {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("key.pem");
        std::fs::write(&key, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").unwrap();
        let load = |mode| {
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
            read_key(&key).map(|_| ())
        };

        for mode in [0o644, 0o604, 0o602, 0o620, 0o666] {
            let text = load(mode).unwrap_err().to_string();
            let (path, mode) = (key.display(), format!("mode {mode:03o}"));
            assert!(text.contains(&mode) && text.contains(&format!("chmod 600 {path}")), "{text}");
        }
        for mode in [0o600, 0o400] {
            load(mode).unwrap();
        }
    }

    #[test]
    fn group_may_read_only_a_key_of_root() {
        assert!(!is_exposed(0o640, 0));
        assert!(is_exposed(0o640, 1000));
    }
}
