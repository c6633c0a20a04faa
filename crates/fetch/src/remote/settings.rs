//! What people may decide about talking to servers.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tidegate_contract::home::home;
use tidegate_transfer::congestion::CongestionName;
use tidegate_transfer::transfer::Interrupt;
use url::Url;

use super::carrier::SftpCarrier;
use super::gs_settings::GsSettings;
use super::s3_settings::S3Settings;

/// How servers are spoken to.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Longest wait for a connection, for an answer, and for the next byte of a body.
    pub timeout: Duration,
    /// How long the listing of a server that was reached and is away is waited for.
    pub retry_for: Duration,
    /// Ends such waiting.
    pub interrupt: Interrupt,
    /// What we call ourselves.
    pub user_agent: String,
    /// A file of certificates (PEM) that are trusted besides the system's.
    pub ca: Option<PathBuf>,
    /// Which proxies requests go through.
    pub proxies: Proxies,
    /// Whether a redirect may lead from `https` to `http`.
    pub allow_downgrade: bool,
    /// Which addresses are of the public Internet, whose servers may not redirect us to others.
    pub is_public: fn(IpAddr) -> bool,
    /// Whether a web page is taken for a file whose name does not end in `.html`. Archives answer errors
    /// with such pages and the status 200.
    pub allow_pages: bool,
    /// Whether FTP servers open the data connection to us, rather than we to them.
    pub ftp_active: bool,
    /// Which servers `s3://` means, and who we are there; `None` for what the environment and `~/.aws` say.
    pub s3: Option<S3Settings>,
    /// Which server `gs://` means, and who we are and who pays there; `None` for what the environment says.
    pub gs: Option<GsSettings>,
    /// The port at which `ftps` begins with TLS at once; elsewhere it asks for it by `AUTH TLS`.
    pub ftps_implicit_port: u16,
    /// Where `.netrc` is; `None` for no such file.
    pub netrc: Option<PathBuf>,
    /// What reaches hosts by ssh, for `sftp`; `None` where nothing does.
    pub ssh: Option<Arc<dyn SftpCarrier>>,
    /// The congestion control of connections; `None` for the system's.
    pub congestion: Option<CongestionName>,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            retry_for: Duration::from_secs(600),
            interrupt: Interrupt::default(),
            user_agent: concat!("tidegate/", env!("CARGO_PKG_VERSION")).to_owned(),
            ca: None,
            proxies: Proxies::none(),
            allow_downgrade: false,
            is_public: super::public::is_public,
            allow_pages: false,
            ftp_active: false,
            s3: None,
            gs: None,
            ftps_implicit_port: 990,
            netrc: None,
            ssh: None,
            congestion: None,
        }
    }
}

impl ServerSettings {
    /// The defaults, with proxies and `.netrc` as the environment names them.
    pub fn from_env() -> Self {
        let netrc = std::env::var_os("NETRC").map(PathBuf::from);
        let netrc = netrc.or_else(|| home().map(|home| home.join(".netrc")));
        Self { proxies: Proxies::from_env(), netrc, ..Self::default() }
    }
}

/// Proxies by the scheme of the URL that is asked for.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For `http`, such as `http://proxy.example:3128`.
    pub http: Option<String>,
    /// For `https`.
    pub https: Option<String>,
    /// Hosts that are asked directly: `.example.org,127.0.0.1,10.0.0.0/8`, or `*` for all.
    pub(crate) none_for: String,
}

impl std::fmt::Debug for Proxies {
    /// Without the addresses: they may hold passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxies")
            .field("http", &self.http.is_some())
            .field("https", &self.https.is_some())
            .field("none_for", &self.none_for)
            .finish()
    }
}

impl Proxies {
    /// No proxy at all.
    pub const fn none() -> Self {
        Self { http: None, https: None, none_for: String::new() }
    }

    /// One proxy for everything but the hosts of `none_for`.
    pub fn all(proxy: &str, none_for: &str) -> Self {
        Self { http: Some(proxy.to_owned()), https: Some(proxy.to_owned()), none_for: none_for.to_owned() }
    }

    /// What `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy` say, in lower or upper case.
    /// `HTTP_PROXY` is not read in upper case: where requests come through CGI, strangers set it.
    pub fn from_env() -> Self {
        let read = |names: &[&str]| {
            names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        };
        Self {
            http: read(&["http_proxy", "all_proxy", "ALL_PROXY"]),
            https: read(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            none_for: read(&["no_proxy", "NO_PROXY"]).unwrap_or_default(),
        }
    }

    /// The proxy for `url`, if any.
    pub fn of(&self, url: &Url) -> Option<&str> {
        let proxy = if url.scheme() == "https" { &self.https } else { &self.http };
        let host = url.host_str()?.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let spared = self.none_for.split([',', ' ']).filter(|entry| !entry.is_empty()).any(|entry| {
            let entry = entry.to_ascii_lowercase();
            if let Ok(network) = entry.parse::<IpNet>() {
                return host.parse::<IpAddr>().is_ok_and(|address| network.contains(&address.to_canonical()));
            }
            let (name, port) = match entry.rsplit_once(':') {
                Some((name, port)) if !name.contains(':') => (name, port.parse().ok()),
                _ => (entry.as_str(), None),
            };
            let name = name.trim_start_matches('*').trim_start_matches('.');
            let inside = host == name || host.strip_suffix(name).is_some_and(|front| front.ends_with('.'));
            (entry == "*" || inside) && port.is_none_or(|port| url.port_or_known_default() == Some(port))
        });
        if spared { None } else { proxy.as_deref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_for_all_hosts_but_those_spared() {
        let proxies = Proxies::all("http://proxy:3128", "localhost, .local.example,10.0.0.1:8080,::1");
        let of = |url| proxies.of(&Url::parse(url).expect("a URL")).is_some();
        assert!(of("http://example.org/x"));
        assert!(of("https://example.org/x"));
        assert!(!of("http://localhost/x"));
        assert!(!of("http://data.local.example/x"));
        assert!(of("http://notlocal.example/x"));
        assert!(!of("http://10.0.0.1:8080/x"));
        assert!(of("http://10.0.0.1/x"));
        assert!(!of("http://[::1]/x"));
        assert!(Proxies::all("http://p", "*").of(&Url::parse("http://x/").expect("a URL")).is_none());
        let proxies = Proxies::all("http://p", "10.0.0.0/8,2001:db8::/32 192.168.7.0/24,172.16.0.0/99");
        let of = |url| proxies.of(&Url::parse(url).expect("a URL")).is_some();
        for inside in
            ["http://10.9.8.7/x", "https://10.0.0.1:8443/", "http://[2001:db8::7]/", "http://192.168.7.255/"]
        {
            assert!(!of(inside), "{inside}");
        }
        // A name is looked up by the proxy, or not at all.
        for outside in
            ["http://11.0.0.1/", "http://[2001:db9::1]/", "http://10.example.org/", "http://172.16.0.1/"]
        {
            assert!(of(outside), "{outside}");
        }
        assert!(!format!("{:?}", Proxies::all("http://user:secret@p", "")).contains("secret"));
    }
}
