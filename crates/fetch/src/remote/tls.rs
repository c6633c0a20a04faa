//! Whom we trust: the system's certificates, and those in a file besides.

mod own;
pub mod words;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use self::own::OwnAuthority;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::Verifier;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::text::show;

/// The settings of all TLS connections, made when the first one is. One for all workers, since they then
/// resume each other's sessions and read the system's certificates once.
#[derive(Debug)]
pub struct Tls {
    ca: Option<PathBuf>,
    config: OnceLock<Result<Arc<ClientConfig>>>,
}

/// Whether connections to servers can be trusted here: an error where the system has no certificates.
pub fn check_system_certificates() -> Result<()> {
    Tls::new(None).client().map(|_| ())
}

impl Tls {
    /// Trusts the system (or `SSL_CERT_FILE`, `SSL_CERT_DIR`) and the certificates in `ca`.
    pub const fn new(ca: Option<PathBuf>) -> Self {
        Self { ca, config: OnceLock::new() }
    }

    /// The settings of a connection.
    pub fn client(&self) -> Result<Arc<ClientConfig>> {
        self.config.get_or_init(|| self.load()).clone()
    }

    fn load(&self) -> Result<Arc<ClientConfig>> {
        let bad = |error: rustls::Error| {
            Error::new(ErrorKind::Io, format!("cannot set up TLS with this system's certificates: {error}"))
        };
        let extra = self.extra()?;
        let provider = Arc::new(ring::default_provider());
        let verifier = Verifier::new_with_extra_roots(extra.clone(), Arc::clone(&provider)).map_err(bad)?;
        let verifier = OwnAuthority { verifier, trusted: extra };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(bad)?
            .dangerous() // The platform's verifier is not; rustls calls so whatever is not its own.
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Ok(Arc::new(config))
    }

    fn extra(&self) -> Result<Vec<CertificateDer<'static>>> {
        let Some(path) = &self.ca else { return Ok(Vec::new()) };
        let name = path.as_os_str().as_encoded_bytes();
        let pem = std::fs::read(path).map_err(|e| Error::io("read the certificates in", name, e))?;
        let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        match found {
            Ok(found) if !found.is_empty() => Ok(found),
            _ => {
                Err(Error::new(ErrorKind::Usage, format!("{} holds no certificate in PEM form", show(name))))
            }
        }
    }
}
