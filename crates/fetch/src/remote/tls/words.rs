//! What went wrong with TLS, in a sentence for people rather than in the library's names for it.

use rustls::{CertificateError, Error};
use tidegate_transfer::wire::distrust::in_words;

/// What to do about an authority that is not known here.
const WITH_CA: &str = "a private authority's file is given with --ca";

/// What is wrong with a connection to `host`.
pub fn of(host: &str, error: &Error) -> String {
    match error {
        Error::InvalidCertificate(reason) => {
            let (why, advice) = (in_words(reason), advice(reason));
            format!("the certificate of {host} is not trusted: {why}{advice}")
        }
        Error::InvalidMessage(_) => {
            format!("what answers at {host} speaks no TLS there; is it a port for http?")
        }
        Error::AlertReceived(alert) => {
            format!("{host} refused the TLS connection ({})", plain(&format!("{alert:?}")))
        }
        Error::PeerIncompatible(_) => {
            format!("{host} and this host have no version of TLS from 1.2 on, or no cipher, in common")
        }
        Error::NoCertificatesPresented => format!("{host} shows no certificate"),
        other => format!("no TLS connection to {host}: {other}"),
    }
}

/// What helps where a certificate is not trusted.
fn advice(reason: &CertificateError) -> String {
    match reason {
        CertificateError::UnknownIssuer => format!("; {WITH_CA}"),
        other if other.to_string().contains("CaUsedAsEndEntity") => {
            format!("; a certificate that is its own authority is given itself with --ca, and {WITH_CA}")
        }
        _ => String::new(),
    }
}

/// A name such as `HandshakeFailure` as words, as far as it is a name.
fn plain(name: &str) -> String {
    let name = name.split(['(', '{', ' ']).next().unwrap_or_default();
    let mut words = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(c.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::{AlertDescription, InvalidMessage, OtherError, PeerIncompatible};

    use super::*;

    #[derive(Debug)]
    struct Named(&'static str);

    impl std::fmt::Display for Named {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl std::error::Error for Named {}

    #[test]
    fn nothing_of_the_librarys_reaches_people() {
        let other =
            |name| Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(Named(name)))));
        for (error, wanted) in [
            (
                Error::InvalidCertificate(CertificateError::UnknownIssuer),
                "no authority that is trusted here issued it; a private",
            ),
            (Error::InvalidCertificate(CertificateError::Expired), "it has expired"),
            (Error::InvalidCertificate(CertificateError::NotValidForName), "it is for another name"),
            (other("CaUsedAsEndEntity"), "it is that of an authority, and not of a server"),
            (Error::AlertReceived(AlertDescription::HandshakeFailure), "(handshake failure)"),
            (Error::InvalidMessage(InvalidMessage::InvalidContentType), "speaks no TLS there"),
            (Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon), "in common"),
        ] {
            let said = of("h.example", &error);
            assert!(said.contains(wanted) && said.contains("h.example"), "{said}");
            assert!(!said.contains("Other") && !said.contains('{') && said.lines().count() == 1, "{said}");
        }
    }
}
