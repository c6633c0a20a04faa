//! TLS 1.3 in two kinds of trust: a pinned certificate (tickets), or a CA on both sides.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};

use crate::error::{Error, ErrorKind, Result, plain};
use crate::hash::Digest;
use crate::sys;
use crate::sys::clock;
use crate::wire::greeting::APPLICATION;

/// A certificate and its key, and for mutual TLS the CA that the peer's must be signed by.
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    roots: Option<Arc<RootCertStore>>,
}

/// Files of a site's own PKI.
#[derive(Clone, Debug)]
pub struct PkiFiles {
    /// The CA that signs both ends' certificates (PEM).
    pub ca: PathBuf,
    /// Our certificate chain (PEM).
    pub cert: PathBuf,
    /// Our private key (PEM).
    pub key: PathBuf,
}

/// Whom a client expects to meet.
#[derive(Clone, Debug)]
pub enum Trust {
    /// The endpoint with this certificate fingerprint.
    Pinned(Digest),
    /// The same, showing it our own certificate of the site's PKI.
    PinnedPki(Digest, Arc<Identity>),
    /// Any endpoint with a certificate of our CA for the host's name.
    Pki(Arc<Identity>),
}

fn provider() -> Arc<CryptoProvider> {
    // AES-128 first: as strong as the key exchange, and the cheapest with AES instructions.
    let mut provider = ring::default_provider();
    provider
        .cipher_suites
        .sort_by_key(|suite| suite.suite() != rustls::CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

fn tls_error(action: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Authentication, format!("{action}: {error}")).because(io::Error::other(error))
}

fn file_error(action: &str, path: &Path, why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Usage, format!("{action} {}: {why}", path.display()))
}

/// The file at `path` that should hold `what` could not be read. Nothing that is in it is shown: it may be a key.
fn pem_error(what: &str, path: &Path, error: pem::Error) -> Error {
    let failed = |why: &str| file_error(&format!("cannot read the {what}"), path, why);
    match error {
        pem::Error::Io(error) => {
            failed(&format!("{}; name a file that can be read", plain(&error))).because(error)
        }
        pem::Error::NoItemsFound => failed("it holds none in PEM; name the file that does")
            .because(io::Error::other(pem::Error::NoItemsFound)),
        error => failed("its PEM is damaged; copy or make it anew, or name another")
            .because(io::Error::other(error)),
    }
}

/// Where an identity of our own is kept.
fn files_in(state: &Path) -> (PathBuf, PathBuf) {
    (state.join("endpoint.cert.pem"), state.join("endpoint.key.pem"))
}

impl Identity {
    /// The self-signed identity kept in `state`, made on first use; the key file has mode 0600.
    pub fn load_or_create(state: &Path) -> Result<Self> {
        if let Some(identity) = Self::load(state)? {
            return Ok(identity);
        }
        let (cert, key) = files_in(state);
        // Of two that begin at once, one makes it: the certificate of one and the key of the other are no pair.
        let _held = sys::lock::hold_directory(state)
            .map_err(|error| file_error("cannot use the state directory", state, &error).because(error))?;
        if let Some(identity) = Self::load(state)? {
            return Ok(identity);
        }
        let made = rcgen::generate_simple_self_signed(vec!["tidegate".to_owned()])
            .map_err(|error| tls_error("cannot make a certificate", error))?;
        write_private(&cert, made.cert.pem().as_bytes())?;
        write_private(&key, made.signing_key.serialize_pem().as_bytes())?;
        let (chain, key) = load_pair(&cert, &key)?;
        Ok(Self { chain, key, roots: None })
    }

    /// The one kept in `state`, if there is one.
    pub fn load(state: &Path) -> Result<Option<Self>> {
        let (cert, key) = files_in(state);
        if !key.exists() {
            return Ok(None);
        }
        let (chain, key) = load_pair(&cert, &key)?;
        Ok(Some(Self { chain, key, roots: None }))
    }

    /// An identity of a site's own PKI.
    pub fn from_pki(files: &PkiFiles) -> Result<Self> {
        let (chain, key) = load_pair(&files.cert, &files.key)?;
        Ok(Self { chain, key, roots: Some(Arc::new(Self::authorities(&files.ca)?)) })
    }

    /// The authorities in a file, of which there must be one.
    pub fn authorities(ca: &Path) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        let authorities = CertificateDer::pem_file_iter(ca).map_err(|error| pem_error("CA", ca, error))?;
        for authority in authorities {
            let authority = authority.map_err(|error| pem_error("CA", ca, error))?;
            roots.add(authority).map_err(|error| {
                file_error("cannot use the CA", ca, format_args!("{error}; name another file"))
                    .because(io::Error::other(error))
            })?;
        }
        match roots.is_empty() {
            true => Err(pem_error("CA", ca, pem::Error::NoItemsFound)),
            false => Ok(roots),
        }
    }

    /// SHA-256 of our certificate, as a ticket carries it.
    pub fn fingerprint(&self) -> Digest {
        fingerprint(&self.chain[0])
    }

    /// Whether peers prove themselves by certificate instead of a ticket.
    pub(crate) fn is_mutual(&self) -> bool {
        self.roots.is_some()
    }

    /// Whom our authorities let in, if peers prove themselves by certificate.
    fn verifier(&self, roots: Arc<RootCertStore>) -> Result<Arc<dyn ClientCertVerifier>> {
        WebPkiClientVerifier::builder_with_provider(roots, provider())
            .build()
            .map_err(|error| tls_error("cannot use the CA", error))
    }

    /// Refuses the certificates that a peer showed unless our authorities have signed them.
    pub(crate) fn check_peer(&self, shown: &[CertificateDer<'_>]) -> Result<()> {
        let Some(roots) = &self.roots else { return Ok(()) };
        let refused = "the certificate is not valid here";
        let Some((own, between)) = shown.split_first() else {
            return Err(Error::new(ErrorKind::Authentication, refused));
        };
        let now = UnixTime::since_unix_epoch(clock::wall().duration_since(UNIX_EPOCH).unwrap_or_default());
        let verified = self.verifier(Arc::clone(roots))?.verify_client_cert(own, between, now);
        verified.map(drop).map_err(|error| tls_error(refused, error))
    }

    /// The authorities of both, each once.
    pub(crate) fn authorities_with(
        &self,
        earlier: Option<&Arc<RootCertStore>>,
    ) -> Option<Arc<RootCertStore>> {
        let mut all = RootCertStore::clone(self.roots.as_ref()?);
        for authority in earlier.into_iter().flat_map(|earlier| &earlier.roots) {
            if !all.roots.contains(authority) {
                all.roots.push(authority.clone());
            }
        }
        Some(Arc::new(all))
    }

    /// The endpoint's side of TLS.
    pub fn server(&self) -> Result<Arc<ServerConfig>> {
        self.server_knowing(self.roots.clone())
    }

    /// The same where the certificates of peers may be of these authorities.
    pub(crate) fn server_knowing(&self, roots: Option<Arc<RootCertStore>>) -> Result<Arc<ServerConfig>> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| tls_error("cannot set up TLS", error))?;
        let builder = match roots {
            Some(roots) => builder.with_client_cert_verifier(self.verifier(roots)?),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .map_err(|error| tls_error("cannot use the certificate", error))?;
        // A one-way sender that closes without reading tickets makes the kernel reset the stream.
        config.send_tls13_tickets = 0;
        config.alpn_protocols = vec![APPLICATION.to_vec()];
        Ok(Arc::new(config))
    }
}

impl Trust {
    /// The client's side of TLS.
    pub fn client(&self) -> Result<Arc<ClientConfig>> {
        let provider = provider();
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| tls_error("cannot set up TLS", error))?;
        let mut config = match self {
            Self::Pinned(fingerprint) => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Pinned { fingerprint: *fingerprint, algorithms }))
                .with_no_client_auth(),
            Self::PinnedPki(fingerprint, identity) => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Pinned { fingerprint: *fingerprint, algorithms }))
                .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
                .map_err(|error| tls_error("cannot use the certificate", error))?,
            Self::Pki(identity) => {
                let roots = identity.roots.clone().unwrap_or_else(|| Arc::new(RootCertStore::empty()));
                builder
                    .with_root_certificates(roots)
                    .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
                    .map_err(|error| tls_error("cannot use the certificate", error))?
            }
        };
        config.alpn_protocols = vec![APPLICATION.to_vec()];
        Ok(Arc::new(config))
    }
}

fn fingerprint(certificate: &CertificateDer<'_>) -> Digest {
    let mut digest = [0; 32];
    let suite = ring::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().expect("a TLS 1.3 suite");
    digest.copy_from_slice(suite.common.hash_provider.hash(certificate).as_ref());
    digest
}

/// Accepts the one certificate a ticket names, and checks that the peer holds its key.
#[derive(Debug)]
struct Pinned {
    fingerprint: Digest,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if fingerprint(end_entity) == self.fingerprint {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(rustls::Error::InvalidCertificate(rustls::CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::PeerIncompatible(rustls::PeerIncompatible::Tls12NotOffered))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn load_pair(cert: &Path, key: &Path) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let chain: Vec<_> = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect)
        .map_err(|error| pem_error("certificate", cert, error))?;
    if chain.is_empty() {
        return Err(pem_error("certificate", cert, pem::Error::NoItemsFound));
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| pem_error("key", key, error))?;
    Ok((chain, key))
}

/// Writes a file that only its owner may read, whole or not at all.
pub fn write_private(path: &Path, content: &[u8]) -> Result<()> {
    let written = sys::whole_file::write_private(path, content);
    written.map_err(|error| {
        let failed = Error::io("write", path.as_os_str().as_encoded_bytes(), error);
        // Room may be made; what else keeps it from being written is for whoever named the directory to mend.
        let kind = if failed.kind == ErrorKind::NoSpace { failed.kind } else { ErrorKind::Usage };
        Error { kind, ..failed }
    })
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    /// What an error came from, which is in an error of the operating system unless it is one.
    fn source(error: &Error) -> &io::Error {
        error.source().and_then(|source| source.downcast_ref()).expect("a source")
    }

    #[test]
    fn a_file_of_a_pki_that_cannot_be_read_says_which_why_and_what_to_do_and_keeps_its_source() {
        let directory = tempfile::tempdir().expect("a directory");
        let made = Identity::load_or_create(directory.path()).map(|_| files_in(directory.path()));
        let (cert, key) = made.expect("made");
        let [missing, empty, damaged] =
            ["missing", "empty", "damaged"].map(|name| directory.path().join(name));
        std::fs::write(&empty, "no PEM at all\n").expect("written");
        let pem = std::fs::read_to_string(&key).expect("read");
        std::fs::write(&damaged, pem.replace("-----END", "-----BEGIN")).expect("written");
        let read = |[ca, cert, key]: [&PathBuf; 3]| {
            let files = PkiFiles { ca: ca.clone(), cert: cert.clone(), key: key.clone() };
            Identity::from_pki(&files).expect_err("cannot be read")
        };
        for (bad, why) in [(&missing, "No such file"), (&empty, "none in PEM"), (&damaged, "damaged")] {
            for (what, files) in [
                ("CA", [bad, &cert, &key]),
                ("certificate", [&cert, bad, &key]),
                ("key", [&cert, &cert, bad]),
            ] {
                let error = read(files);
                let begin = format!("cannot read the {what} {}: ", bad.display());
                let message = &error.message;
                assert!(message.starts_with(&begin) && message.contains(why), "{message}");
                assert!(message.contains("; name") || message.contains("; copy"), "{message}");
                assert!(!message.contains('\n') && !message.contains(pem.lines().nth(1).expect("one")));
                assert_eq!(error.kind, ErrorKind::Usage, "{message}");
                let source = source(&error);
                match bad == &missing {
                    true => assert_eq!(source.kind(), io::ErrorKind::NotFound),
                    false => {
                        let inner = source.get_ref().and_then(|inner| inner.downcast_ref::<pem::Error>());
                        let is_none = matches!(inner.expect("what PEM says"), pem::Error::NoItemsFound);
                        assert_eq!(is_none, bad == &empty);
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_no_authority_says_so_and_keeps_its_source() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ca.pem");
        std::fs::write(&path, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
            .expect("written");
        let error = Identity::authorities(&path).expect_err("no certificate");
        assert!(error.message.starts_with(&format!("cannot use the CA {}: ", path.display())), "{error}");
        assert!(source(&error).get_ref().is_some_and(|inner| inner.is::<rustls::Error>()));
    }
}
