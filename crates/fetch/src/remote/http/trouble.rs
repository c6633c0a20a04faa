//! What went wrong with a request, in words, and what to try next.

use std::io;
use std::time::SystemTime;

use tidegate_transfer::error::{Error, ErrorKind, is_no_such_name};
use ureq::http::Response;
use url::Url;

use super::answer;
use crate::foreign::io_again;
use crate::remote::tls::words;
use crate::remote::{Refusal, Why, shown, signed};

/// What to do about a link that is signed and refused.
const LINK_ADVICE: &str =
    "; the link may have expired: a fresh one continues what is there (--refresh-url-with gets it)";

/// The refusal in an answer that is neither the file nor a redirect.
pub(crate) fn refused<T>(url: &Url, from: &Url, answer: &Response<T>) -> Refusal {
    let status = answer.status();
    let (why, wait) = {
        let headers = answer.headers();
        (answer::why(status.as_u16(), headers), answer::retry_after(headers, SystemTime::now()))
    };
    let reason = status.canonical_reason().unwrap_or("no standard status");
    let through = if from.host() == url.host() {
        String::new()
    } else {
        format!(" (after a redirect to {})", from.host_str().unwrap_or_default())
    };
    let advice = match status.as_u16() {
        401 if signed::is_signed(url) => LINK_ADVICE,
        401 => "; a name and password go into ~/.netrc or the URL",
        407 => "; the proxy wants a name and password in its URL",
        403 if signed::is_signed(url) => LINK_ADVICE,
        _ => "",
    };
    let what = format!("{}{through}: the server says {} {reason}{advice}", shown(url), status.as_u16());
    let mut refusal = Refusal::new(why, what).after(wait);
    if matches!(status.as_u16(), 401 | 407) {
        refusal.error.kind = ErrorKind::Authentication;
    }
    refusal.refuses_link = why == Why::Denied && matches!(status.as_u16(), 401 | 403);
    refusal
}

/// Whether an answer of status 400 says that a link has expired, as S3 and Google's storage do.
pub(crate) fn says_expired(body: &[u8]) -> bool {
    body.windows(7).any(|word| word.eq_ignore_ascii_case(b"expired"))
}

/// The refusal of a link that has expired.
pub(crate) fn expired(url: &Url) -> Refusal {
    let what = format!("{}: the server says 400 Bad Request, and that the link has expired", shown(url));
    Refusal { refuses_link: true, ..Refusal::new(Why::Denied, what) }
}

/// Whether the connection went away, as it does when the server has closed it meanwhile.
pub(crate) fn is_lost(error: &ureq::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof};
    let ureq::Error::Io(error) = error else { return false };
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof)
}

/// A request that got no answer.
pub fn failed(url: &Url, error: &ureq::Error) -> Refusal {
    let mut refusal = told(url, error);
    if let Some(cause) = system_error(error) {
        refusal.error = refusal.error.because(cause);
    }
    refusal
}

/// What the operating system said, if that is what a request failed over.
pub(crate) fn system_error(error: &ureq::Error) -> Option<io::Error> {
    match error {
        ureq::Error::Io(error) => Some(io_again(error)),
        ureq::Error::Timeout(_) => Some(io::ErrorKind::TimedOut.into()),
        _ => None,
    }
}

fn told(url: &Url, error: &ureq::Error) -> Refusal {
    let name = url.host_str().unwrap_or_default();
    let host = &url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
    let refuse = |why, what: String| Refusal::new(why, format!("{}: {what}", shown(url)));
    if let Some(error) = tls_error(error) {
        let what = words::of(host, error);
        return match error {
            rustls::Error::InvalidCertificate(_) => {
                let mut refusal = refuse(Why::Denied, what);
                refusal.error.kind = ErrorKind::Authentication;
                refusal
            }
            _ => refuse(Why::Unreachable, what),
        };
    }
    match error {
        ureq::Error::HostNotFound => refuse(Why::Missing, format!("there is no host {name}")),
        ureq::Error::Io(error) if is_no_such_name(error) => {
            refuse(Why::Missing, format!("there is no host {name}"))
        }
        ureq::Error::Timeout(_) => refuse(Why::Unreachable, format!("{host} does not answer in time")),
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            refuse(Why::Unreachable, format!("{host} takes no connections"))
        }
        ureq::Error::Io(_) if is_lost(error) => {
            refuse(Why::Unreachable, format!("{host} closed the connection without an answer"))
        }
        ureq::Error::Io(error) => refuse(Why::Unreachable, format!("no connection to {host}: {error}")),
        ureq::Error::ConnectProxyFailed(_) => {
            refuse(Why::Unreachable, format!("the proxy does not lead to {host}"))
        }
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
            refuse(Why::Senseless, "this URL cannot be asked for".to_owned())
        }
        ureq::Error::Other(error) => match error.downcast_ref::<Error>() {
            Some(ours) => {
                let mut refusal = refuse(Why::Denied, ours.message.clone());
                refusal.error.kind = ours.kind;
                refusal
            }
            None => refuse(Why::Unreachable, format!("no connection to {host}: {error}")),
        },
        ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => {
            refuse(Why::Senseless, format!("{host} does not answer as HTTP servers do"))
        }
        other => refuse(Why::Unreachable, format!("no answer from {host}: {other}")),
    }
}

/// What TLS failed over, if it did.
pub(crate) fn tls_error(error: &ureq::Error) -> Option<&rustls::Error> {
    match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}
