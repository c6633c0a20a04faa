//! All protocols, told apart by the scheme of a URL.

use std::sync::Arc;

#[cfg(not(all(feature = "ftp", feature = "sftp")))]
use tidegate_contract::feature;
use tidegate_transfer::error::Result;
use url::Url;

use super::fresh::{FreshUrls, Refresh};
#[cfg(feature = "ftp")]
use super::ftp::{self, Ftp};
use super::gs::{Gs, GsContext};
use super::http::{self, Http};
use super::index::{Enters, Index};
use super::local::Local;
use super::login::Logins;
use super::patience::Patience;
use super::request::Requests;
use super::s3;
use super::s3::place::Object;
pub use super::settings::{Proxies, ServerSettings};
#[cfg(feature = "sftp")]
use super::sftp::{Sftp, SftpContext};
use super::tls::Tls;
use super::{Ask, Opened, Refusal, Remote, Remotes, Version, Why, shown};
pub use crate::list::SCHEMES;
use crate::record::Names;

/// Everything that workers' ways to servers share.
#[derive(Debug)]
pub struct Servers {
    http: Arc<http::HttpContext>,
    s3: Arc<s3::S3Context>,
    gs: Arc<GsContext>,
    #[cfg(feature = "ftp")]
    ftp: Arc<ftp::FtpContext>,
    #[cfg(feature = "sftp")]
    sftp: Arc<SftpContext>,
    fresh: Option<Arc<FreshUrls>>,
    patience: Patience,
}

impl Servers {
    /// With these settings; nothing is read or opened before it is needed but `.netrc`.
    pub fn new(settings: &ServerSettings) -> Self {
        let tls = Arc::new(Tls::new(settings.ca.clone()));
        let logins = Arc::new(settings.netrc.as_deref().map(Logins::read).unwrap_or_default());
        let http = Arc::new(http::HttpContext::new(settings, &tls, &logins));
        let requests = || Requests::of(Arc::clone(&http));
        Self {
            s3: Arc::new(s3::S3Context::new(settings.s3.clone(), requests())),
            gs: Arc::new(GsContext::new(settings.gs.clone(), requests())),
            #[cfg(feature = "ftp")]
            ftp: Arc::new(ftp::FtpContext::new(settings, &tls, &logins)),
            #[cfg(feature = "sftp")]
            sftp: Arc::new(SftpContext::of(settings)),
            http,
            fresh: None,
            patience: Patience::new(settings.retry_for, settings.interrupt.clone()),
        }
    }

    /// The same, getting fresh URLs by `refresh` for those of HTTP that are refused.
    #[must_use]
    pub fn refreshed_by(mut self, refresh: Option<Refresh>) -> Self {
        self.fresh = refresh.map(|refresh| Arc::new(FreshUrls::new(refresh)));
        self
    }

    /// What lies beneath the directory at `url`, as its web server or FTP server lists it.
    pub fn tree(&self, url: &Url) -> Names {
        self.tree_entering(url, Box::new(|_| true))
    }

    /// The same of directories that it `enters`.
    pub(crate) fn tree_entering(&self, url: &Url, enters: Enters) -> Names {
        let patience = self.patience.clone();
        match url.scheme() {
            #[cfg(feature = "ftp")]
            "ftp" | "ftps" => Box::new(Index::new(Ftp::new(Arc::clone(&self.ftp)), url, enters, patience)),
            #[cfg(feature = "sftp")]
            "sftp" => Box::new(Index::new(Sftp::new(Arc::clone(&self.sftp)), url, enters, patience)),
            _ => Box::new(Index::new(Http::new(Arc::clone(&self.http)), url, enters, patience)),
        }
    }

    /// What lies beneath `url`, if that can be listed: `s3://bucket/prefix/`, `gs://bucket/prefix/`.
    pub fn list(&self, url: &Url) -> Option<Result<Names>> {
        let object = match url.scheme() {
            "s3" => Object::of(url),
            "gs" => GsContext::object(url),
            _ => return None,
        };
        let is_prefix = |object: &Object| object.key.is_empty() || object.key.ends_with('/');
        match object {
            Ok(object) if !is_prefix(&object) => None,
            Ok(object) if url.scheme() == "gs" => Some(self.gs.names(object, self.patience.clone())),
            Ok(object) => {
                let client = self.s3.client(&object.bucket);
                Some(client.map(|client| s3::list::names(client, object, self.patience.clone())))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

impl Remotes for Servers {
    fn remote(&self) -> Box<dyn Remote> {
        let http = || Http::new(Arc::clone(&self.http));
        let s3 = s3::S3::new(Arc::clone(&self.s3), http());
        let gs = Gs::new(Arc::clone(&self.gs), http());
        Box::new(Everything {
            http: http(),
            s3,
            gs,
            #[cfg(feature = "ftp")]
            ftp: Ftp::new(Arc::clone(&self.ftp)),
            #[cfg(feature = "sftp")]
            sftp: Sftp::new(Arc::clone(&self.sftp)),
            local: Local,
            fresh: self.fresh.clone(),
        })
    }
}

/// One worker's way to servers of every kind.
struct Everything {
    http: Http,
    s3: s3::S3,
    gs: Gs,
    #[cfg(feature = "ftp")]
    ftp: Ftp,
    #[cfg(feature = "sftp")]
    sftp: Sftp,
    local: Local,
    fresh: Option<Arc<FreshUrls>>,
}

impl Everything {
    /// Has the remote for `ask` do something, with fresh URLs where there are any.
    fn with<T>(
        &mut self,
        ask: &Ask<'_>,
        act: impl Fn(&mut dyn Remote, &Ask<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        match self.fresh.clone().filter(|_| matches!(ask.url.scheme(), "http" | "https")) {
            Some(fresh) => fresh.ask(ask, |ask| act(&mut self.http, ask)),
            None => act(self.remote(ask)?, ask),
        }
    }

    fn remote(&mut self, ask: &Ask<'_>) -> Result<&mut dyn Remote, Refusal> {
        match ask.url.scheme() {
            "http" | "https" => Ok(&mut self.http),
            "s3" => Ok(&mut self.s3),
            "gs" => Ok(&mut self.gs),
            #[cfg(feature = "ftp")]
            "ftp" | "ftps" => Ok(&mut self.ftp),
            #[cfg(feature = "sftp")]
            "sftp" => Ok(&mut self.sftp),
            "file" => Ok(&mut self.local),
            #[cfg(not(feature = "ftp"))]
            "ftp" | "ftps" => Err(Refusal::new(Why::Senseless, feature::missing(&shown(ask.url), "ftp"))),
            #[cfg(not(feature = "sftp"))]
            "sftp" => Err(Refusal::new(Why::Senseless, feature::missing(&shown(ask.url), "ssh"))),
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
        self.with(ask, |remote, ask| remote.open(ask))
    }

    fn look(&mut self, ask: &Ask<'_>) -> Result<Version, Refusal> {
        self.with(ask, |remote, ask| remote.look(ask))
    }
}
