//! What went wrong with TLS, in a sentence for people rather than in the library's names for it.

use rustls::{CertificateError, Error};

/// What to do about an authority that is not known here.
const WITH_CA: &str = "a private authority's file is given with --ca";

/// What is wrong with a connection to `host`.
pub fn of(host: &str, error: &Error) -> String {
    match error {
        Error::InvalidCertificate(reason) => {
            let (what, advice) = of_certificate(reason);
            format!("the certificate of {host} is not trusted: {what}{advice}")
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

/// What is wrong with a certificate, and what helps.
fn of_certificate(reason: &CertificateError) -> (String, String) {
    use CertificateError as Reason;
    let said = |what: &str| (what.to_owned(), String::new());
    match reason {
        Reason::UnknownIssuer => ("nobody known here has signed it".to_owned(), format!("; {WITH_CA}")),
        Reason::Expired | Reason::ExpiredContext { .. } => {
            said("it has expired, if this host's clock is right")
        }
        Reason::NotValidYet | Reason::NotValidYetContext { .. } => {
            said("it is not valid yet, if this host's clock is right")
        }
        Reason::NotValidForName | Reason::NotValidForNameContext { .. } => said("it is for another name"),
        Reason::InvalidPurpose | Reason::InvalidPurposeContext { .. } => said("it is none for servers"),
        Reason::Revoked => said("it was revoked"),
        Reason::BadSignature => said("its signature is wrong"),
        Reason::BadEncoding => said("it is malformed"),
        Reason::Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
            let what = "it is that of an authority, and not one for a server".to_owned();
            (what, format!("; let the server have one that the authority has signed, and {WITH_CA}"))
        }
        Reason::Other(other) => said(&plain(&other.to_string())),
        other => said(&plain(&format!("{other:?}"))),
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
                "nobody known here has signed it; a private",
            ),
            (Error::InvalidCertificate(CertificateError::Expired), "it has expired"),
            (Error::InvalidCertificate(CertificateError::NotValidForName), "it is for another name"),
            (
                Error::InvalidCertificate(CertificateError::UnhandledCriticalExtension),
                "unhandled critical extension",
            ),
            (other("CaUsedAsEndEntity"), "it is that of an authority, and not one for a server"),
            (other("PathLenConstraintViolated"), "trusted: path len constraint violated"),
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
