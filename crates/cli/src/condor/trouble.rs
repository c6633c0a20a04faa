//! What went wrong, in HTCondor's words: what kind it is tells where, when and whether a job is tried again.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use tidegate_contract::error_kind::{ErrorKind, Retry};
use tidegate_contract::exit::Exit;
use tidegate_contract::summary::FailedFile;
use tidegate_contract::text::{one_line, shorten};
use tidegate_run::remotes::{self, Remote};
use tidegate_service::classad::ClassAd;
use tidegate_transfer::wire::ticket::{DEFAULT_PORT, Place};

use super::request::Request;

/// Why something was not moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    kind: ErrorKind,
    /// In one line.
    pub why: String,
    /// Whether it is this host's, and no server's.
    is_here: bool,
}

impl Trouble {
    /// Something of that kind.
    pub fn new(kind: ErrorKind, why: &str) -> Self {
        Self { kind, why: shorten(one_line(why)), is_here: false }
    }

    /// It is this host's.
    pub fn here(self) -> Self {
        Self { is_here: true, ..self }
    }

    /// What a run says of one file.
    pub fn of_file(failed: &FailedFile) -> Self {
        Self::new(failed.kind, &failed.message)
    }

    /// Whether every request of a batch meets it, and not one for itself.
    pub fn is_of_all(&self) -> bool {
        use ErrorKind::{Authentication, Busy, Interrupted, NoSpace};
        self.kind.retry() == Retry::Outage
            || matches!(self.kind, Authentication | Busy | Interrupted | NoSpace)
    }

    /// The ad that tells of it.
    ///
    /// HTCondor has four words for what may end a transfer that has begun: too slow, no space, timed out, quota. Where none
    /// is true, as for content that does not match its checksum, none is said.
    pub fn told(&self, request: &Request, upload: bool) -> ClassAd {
        let ad = |kind: &str| ClassAd::default().with("ErrorType", kind);
        let at_server = |kind: &str| ad(kind).with("FailedServer", request.server());
        let refused =
            |how: &str| at_server("Authorization").with("FailureType", how).with("ShouldRefresh", false);
        let parameter = || {
            let version = env!("CARGO_PKG_VERSION");
            ad("Parameter").with("PluginVersion", version).with("PluginLaunched", true)
        };
        let mut retry = self.kind.retry();
        let ad = match self.kind {
            ErrorKind::Usage | ErrorKind::UnsafeName => parameter(),
            ErrorKind::NotFound | ErrorKind::Denied if self.is_here => parameter(),
            ErrorKind::NotFound | ErrorKind::Connection if let Some((how, host)) = unresolved(request) => {
                retry = if how == "Definitive" { Retry::Never } else { Retry::Outage };
                ad("Resolution").with("FailedName", &*host).with("FailureType", how)
            }
            ErrorKind::NotFound => at_server("Specification"),
            ErrorKind::Denied => refused("Authorization"),
            ErrorKind::Authentication => refused("Authentication"),
            ErrorKind::NoSpace => {
                // Room at a destination may be made; the job's own disk is as large as it asked for.
                retry = if upload { retry } else { Retry::Never };
                at_server("Transfer").with("FailureType", "NoSpace")
            }
            ErrorKind::Connection if is_out_of_reach(request) => at_server("Contact"),
            ErrorKind::Connection | ErrorKind::Busy | ErrorKind::Interrupted => {
                at_server("Transfer").with("FailureType", "TimedOut")
            }
            _ => at_server("Transfer"),
        };
        ad.with("Retryable", if retry == Retry::Never { NEVER } else { SOON })
            .with("ErrorCode", i64::from(Exit::of(self.kind).code()))
            .with("ErrorString", &*self.why)
    }
}

/// Trying again does not help.
const NEVER: i64 = -1;
/// It may, whenever that is.
const SOON: i64 = 0;

/// How long a server may take to answer when it is asked whether it is there at all.
const PATIENCE: Duration = Duration::from_secs(2);

/// How the name of the server's host is not found, and the name, if it is not.
fn unresolved(request: &Request) -> Option<(&'static str, String)> {
    let place = place(request)?;
    let error = (&*place.host, 0).to_socket_addrs().err()?;
    // The resolver's own words are all that the standard library hands on.
    let is_definitive = error.to_string().to_ascii_lowercase().contains("not known");
    Some((if is_definitive { "Definitive" } else { "PreContact" }, place.host))
}

/// Whether nobody takes a connection now that one was lost, or never made.
fn is_out_of_reach(request: &Request) -> bool {
    let Some(Place { host, port: Some(port) }) = place(request) else { return false };
    let Ok(mut addresses) = (&*host, port).to_socket_addrs() else { return false };
    !addresses.any(|address| TcpStream::connect_timeout(&address, PATIENCE).is_ok())
}

/// Where we connect to for `request`, if we do: others connect for us by ssh and by proxies, and a bucket is no host.
fn place(request: &Request) -> Option<Place> {
    let scheme = request.scheme();
    let port = match &*scheme {
        "tg" => DEFAULT_PORT,
        "http" => 80,
        "https" => 443,
        "ftp" => 21,
        "ftps" => 990,
        _ => return None,
    };
    if scheme == "tg" {
        return match remotes::find(request.server()) {
            Ok(Remote::Served(address)) => Some(Place { host: address.host, port: Some(address.port) }),
            Ok(Remote::Ssh(..) | Remote::Pool(_)) => None,
            Err(_) => request
                .server()
                .parse()
                .ok()
                .map(|place: Place| Place { port: place.port.or(Some(port)), ..place }),
        };
    }
    let proxies = ["all_proxy".to_owned(), format!("{scheme}_proxy")];
    let is_set = |name: &String| {
        [name.clone(), name.to_ascii_uppercase()].iter().any(|name| std::env::var_os(name).is_some())
    };
    if proxies.iter().any(is_set) {
        return None;
    }
    request.server().parse().ok().map(|place: Place| Place { port: place.port.or(Some(port)), ..place })
}

#[cfg(test)]
mod tests {
    use tidegate_service::classad::Value;

    use super::*;

    #[test]
    fn each_kind_has_htcondors_word_and_says_whether_to_try_again() {
        let request = Request { url: "tg://T@127.0.0.1:1/a".to_owned(), name: "/x/a".to_owned() };
        let word = |ad: &ClassAd, name: &str| ad.get(name).map(Value::as_word).unwrap_or_default().to_owned();
        for (kind, upload, error, failure, retryable) in [
            (ErrorKind::Usage, false, "Parameter", "", "-1"),
            (ErrorKind::UnsafeName, false, "Parameter", "", "-1"),
            (ErrorKind::NotFound, false, "Specification", "", "-1"),
            (ErrorKind::Denied, false, "Authorization", "Authorization", "-1"),
            (ErrorKind::Authentication, false, "Authorization", "Authentication", "-1"),
            (ErrorKind::NoSpace, false, "Transfer", "NoSpace", "-1"),
            (ErrorKind::NoSpace, true, "Transfer", "NoSpace", "0"),
            (ErrorKind::Connection, false, "Contact", "", "0"),
            (ErrorKind::Busy, false, "Transfer", "TimedOut", "0"),
            (ErrorKind::Interrupted, false, "Transfer", "TimedOut", "0"),
            (ErrorKind::Corrupt, false, "Transfer", "", "0"),
            (ErrorKind::Changed, false, "Transfer", "", "0"),
            (ErrorKind::Io, false, "Transfer", "", "0"),
            (ErrorKind::Protocol, false, "Transfer", "", "0"),
        ] {
            let ad = Trouble::new(kind, "why\nnot").told(&request, upload);
            let said = ["ErrorType", "FailureType", "Retryable"].map(|name| word(&ad, name));
            assert_eq!(said, [error, failure, retryable], "{kind:?}");
            assert!(
                !word(&ad, "ErrorString").contains('\n') && word(&ad, "ErrorCode").parse::<i64>().is_ok()
            );
            assert_eq!(ad.get("FailedServer").is_some(), error != "Parameter");
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("tg://T@{}/a", listener.local_addr().expect("bound"));
        let lost =
            Trouble::new(ErrorKind::Connection, "lost").told(&Request { url, ..request.clone() }, false);
        assert_eq!((&*word(&lost, "ErrorType"), &*word(&lost, "FailureType")), ("Transfer", "TimedOut"));
        let here = Trouble::new(ErrorKind::NotFound, "gone").here().told(&request, true);
        assert_eq!(word(&here, "ErrorType"), "Parameter");
    }
}
