//! All protocols, told apart by the scheme of a URL.

use std::sync::Arc;

use super::ftp::{self, Ftp};
use super::http::{self, Http};
use super::local::Local;
use super::login::Logins;
pub use super::settings::{Proxies, ServerSettings};
use super::tls::Tls;
use super::{Ask, Opened, Refusal, Remote, Remotes, Version, Why, shown};

/// Schemes that are understood.
pub const SCHEMES: [&str; 5] = ["http", "https", "ftp", "ftps", "file"];

/// Everything that workers' ways to servers share.
#[derive(Debug)]
pub struct Servers {
    http: Arc<http::Shared>,
    ftp: Arc<ftp::Shared>,
}

impl Servers {
    /// With these settings; nothing is read or opened before it is needed but `.netrc`.
    pub fn new(settings: &ServerSettings) -> Self {
        let tls = Arc::new(Tls::new(settings.ca.clone()));
        let logins = Arc::new(settings.netrc.as_deref().map(Logins::read).unwrap_or_default());
        Self {
            http: Arc::new(http::Shared::new(settings, &tls, &logins)),
            ftp: Arc::new(ftp::Shared::new(settings, &tls, &logins)),
        }
    }
}

impl Remotes for Servers {
    fn remote(&self) -> Box<dyn Remote> {
        let (http, ftp) = (Http::new(Arc::clone(&self.http)), Ftp::new(Arc::clone(&self.ftp)));
        Box::new(Everything { http, ftp, local: Local })
    }
}

/// One worker's way to servers of every kind.
struct Everything {
    http: Http,
    ftp: Ftp,
    local: Local,
}

impl Everything {
    fn remote(&mut self, ask: &Ask<'_>) -> Result<&mut dyn Remote, Refusal> {
        match ask.url.scheme() {
            "http" | "https" => Ok(&mut self.http),
            "ftp" | "ftps" => Ok(&mut self.ftp),
            "file" => Ok(&mut self.local),
            other => {
                let known = SCHEMES.join(", ");
                let what =
                    format!("{}: {other} is none of the protocols known here ({known})", shown(ask.url));
                Err(Refusal::new(Why::Senseless, what))
            }
        }
    }
}

impl Remote for Everything {
    fn open(&mut self, ask: &Ask<'_>) -> Result<Opened, Refusal> {
        self.remote(ask)?.open(ask)
    }

    fn look(&mut self, ask: &Ask<'_>) -> Result<Version, Refusal> {
        self.remote(ask)?.look(ask)
    }
}
