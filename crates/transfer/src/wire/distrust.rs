//! Why a certificate is not trusted, in words: the library's are its own names of things.

use std::error::Error as StdError;
use std::io;

use rustls::CertificateError;

use crate::text::foreign;

/// Why the certificate is not trusted that `error` is about, if it is about one.
pub fn reason(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(rustls::Error::InvalidCertificate(why)) = error.downcast_ref() {
            return Some(in_words(why));
        }
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

/// What is wrong with a certificate, as the end of a sentence.
pub fn in_words(why: &CertificateError) -> String {
    use CertificateError as C;
    let words = match why {
        C::UnknownIssuer => "no authority that is trusted here issued it",
        C::Expired | C::ExpiredContext { .. } => "it has expired",
        C::NotValidYet | C::NotValidYetContext { .. } => "it is not valid yet, or a clock is wrong",
        C::NotValidForName | C::NotValidForNameContext { .. } => "it is for another name",
        C::Revoked => "it was revoked",
        C::BadSignature => "its signature is wrong",
        C::BadEncoding => "it is damaged",
        C::InvalidPurpose | C::InvalidPurposeContext { .. } => "it is for another purpose",
        // What the library has no name of its own for comes from a layer below it.
        other if other.to_string().contains("CaUsedAsEndEntity") => {
            "it is that of an authority, and not of a server whom the authority certifies"
        }
        other => return foreign(&format!("it is not valid: {other}")),
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::sync::Arc;

    use super::*;

    /// As the library wraps what it does not know.
    #[derive(Debug)]
    struct Named(&'static str);

    impl fmt::Display for Named {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl StdError for Named {}

    fn other(name: &'static str) -> CertificateError {
        CertificateError::Other(rustls::OtherError(Arc::new(Named(name))))
    }

    #[test]
    fn no_name_of_the_library_is_shown() {
        for (why, wanted) in [
            (other("CaUsedAsEndEntity"), "that of an authority"),
            (CertificateError::UnknownIssuer, "no authority"),
            (CertificateError::NotValidForName, "another name"),
        ] {
            let words = in_words(&why);
            assert!(words.contains(wanted) && !words.contains("OtherError"), "{words}");
        }
        assert!(!in_words(&other("\x1b[2J")).contains('\x1b'));
    }

    #[test]
    fn the_reason_is_found_inside_of_other_errors() {
        let tls = || rustls::Error::InvalidCertificate(CertificateError::Expired);
        let within = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, tls()));
        for error in [&tls() as &(dyn StdError + 'static), &within] {
            assert_eq!(reason(error).as_deref(), Some("it has expired"));
        }
        assert_eq!(reason(&io::Error::from(io::ErrorKind::ConnectionRefused)), None);
        assert_eq!(reason(&rustls::Error::DecryptError), None);
    }
}
