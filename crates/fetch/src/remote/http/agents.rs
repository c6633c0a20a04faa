//! One worker's connections to HTTP servers: settings, proxies, and a second try where a kept one was closed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_transfer::error::ErrorKind;
use ureq::config::Config;
use ureq::http::{HeaderMap, Method, Request, Response};
use ureq::{Agent, Body, Proxy, ProxyProtocol};
use url::{Host, Url};

use super::cookies::Cookies;
use super::forward::{self, ProxyAddress};
use super::moved::Moved;
use super::trouble::{failed, is_lost};
use super::wire::{self, Addresses, Guarded, NOT_PUBLIC};
use crate::remote::login::{Login, Logins};
use crate::remote::public::may_be_public;
use crate::remote::settings::ServerSettings;
use crate::remote::tls::Tls;
use crate::remote::{Refusal, Why, shown};

/// Most bytes of an answer's header.
const LARGEST_HEADER: usize = 64 << 10;
/// Input buffer of a connection. One read from the socket fills it; 128 KiB stays in the processor's
/// second-level cache (docs/decisions/0008).
const INPUT: usize = 128 << 10;
/// Output buffer of a connection: what one write of an upload hands to the kernel.
const OUTPUT: usize = 128 << 10;
/// Connections kept idle for different hosts; redirects lead to a second one for most.
const IDLE: usize = 8;
/// How long an idle connection may be used again. Servers close theirs after 5 to 75 s.
const IDLE_AGE: Duration = Duration::from_secs(90);

/// What all workers' HTTP shares.
#[derive(Debug)]
pub struct HttpContext {
    /// What people decided.
    pub settings: ServerSettings,
    tls: Arc<Tls>,
    /// Who we are to whom.
    pub logins: Arc<Logins>,
    addresses: Addresses,
    /// Where files were found.
    pub moved: Moved,
    /// What redirects set.
    pub cookies: Cookies,
}

impl HttpContext {
    /// With these settings, trust and logins.
    pub fn new(settings: &ServerSettings, tls: &Arc<Tls>, logins: &Arc<Logins>) -> Self {
        Self {
            settings: settings.clone(),
            tls: Arc::clone(tls),
            logins: Arc::clone(logins),
            addresses: Addresses::default(),
            moved: Moved::default(),
            cookies: Cookies::default(),
        }
    }
}

/// One worker's agents, made when they are needed.
#[derive(Debug)]
pub(crate) struct AgentPool {
    shared: Arc<HttpContext>,
    /// One for `http` and one for `https`, through a proxy or not; at most eight.
    lines: Vec<PooledAgent>,
}

/// Which addresses a request may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All: people named the host.
    All,
    /// Those of the public Internet: a server there named it.
    Public,
}

/// An agent, the proxy it goes through, whether for TLS, and how many connections it has opened.
#[derive(Debug)]
struct PooledAgent {
    proxy: Option<String>,
    tls: bool,
    reach: Reach,
    agent: Agent,
    opened: wire::ConnectionCount,
}

impl AgentPool {
    /// None yet.
    pub const fn new(shared: Arc<HttpContext>) -> Self {
        Self { shared, lines: Vec::new() }
    }

    /// What all workers share.
    pub fn shared(&self) -> &HttpContext {
        &self.shared
    }

    /// The agent for `url`, which follows no redirects and takes no status for an error.
    pub fn agent(&mut self, url: &Url, reach: Reach) -> Result<&Agent, Refusal> {
        self.line(url, reach).map(|line| &line.agent)
    }

    /// Where redirects of `url` may lead: anywhere only if all of its own addresses are private too.
    pub fn reach(&self, url: &Url) -> Result<Reach, Refusal> {
        let is_public = self.shared.settings.is_public;
        let public = match url.host() {
            Some(Host::Ipv4(address)) => is_public(address.into()),
            Some(Host::Ipv6(address)) => is_public(address.into()),
            // A proxy looks names up itself.
            Some(Host::Domain(name)) if self.shared.settings.proxies.of(url).is_some() => may_be_public(name),
            Some(Host::Domain(_)) => {
                let addresses = self.shared.addresses.of(&uri_text(&bare(url)), &self.config(None));
                let addresses = addresses.map_err(|error| failed(url, &error))?;
                addresses.iter().any(|address| is_public(address.ip()))
            }
            None => true,
        };
        Ok(if public { Reach::Public } else { Reach::All })
    }

    /// One request and its answer. A connection kept from an earlier request may have been closed by the
    /// server in the meantime; then the request goes out once more on a new one.
    pub fn exchange(
        &mut self,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        reach: Reach,
    ) -> Result<Response<Body>, Refusal> {
        let line = self.line(url, reach)?;
        let bare = bare(url);
        let request = || {
            let mut request = Request::builder().method(method).uri(uri_text(&bare));
            if let Some(all) = request.headers_mut() {
                *all = headers.clone();
            }
            request.body(())
        };
        let mut again = true;
        loop {
            let request = request().map_err(|_| {
                Refusal::new(Why::Senseless, format!("{}: this URL cannot be asked for", shown(url)))
            })?;
            let before = line.opened.load(Ordering::Relaxed);
            match line.agent.run(request) {
                Ok(answer) => {
                    tracing::trace!("{method} {}: {}", shown(url), answer.status());
                    return Ok(answer);
                }
                Err(error) => {
                    let kept = line.opened.load(Ordering::Relaxed) == before;
                    if again && kept && is_lost(&error) {
                        again = false;
                        continue;
                    }
                    return Err(failed(url, &error));
                }
            }
        }
    }

    fn line(&mut self, url: &Url, reach: Reach) -> Result<&PooledAgent, Refusal> {
        let proxy = self.shared.settings.proxies.of(url).map(str::to_owned);
        if proxy.is_some() && reach == Reach::Public && !self.may_be_public(url) {
            return Err(Refusal::new(Why::Denied, format!("{}: {NOT_PUBLIC}", shown(url))));
        }
        let tls = url.scheme() == "https";
        let at = match self
            .lines
            .iter()
            .position(|line| line.proxy == proxy && line.tls == tls && line.reach == reach)
        {
            Some(at) => at,
            None => {
                let line = self.new_line(proxy, tls, reach, url)?;
                self.lines.push(line);
                self.lines.len() - 1
            }
        };
        Ok(&self.lines[at])
    }

    /// Whether `url` may lead to a public host, as far as can be told without looking its name up.
    fn may_be_public(&self, url: &Url) -> bool {
        let is_public = self.shared.settings.is_public;
        match url.host() {
            Some(Host::Ipv4(address)) => is_public(address.into()),
            Some(Host::Ipv6(address)) => is_public(address.into()),
            Some(Host::Domain(name)) => may_be_public(name),
            None => false,
        }
    }

    fn new_line(
        &self,
        proxy: Option<String>,
        tls: bool,
        reach: Reach,
        url: &Url,
    ) -> Result<PooledAgent, Refusal> {
        let through = match &proxy {
            None => None,
            Some(proxy) => Some(usable(proxy, url)?),
        };
        let opened = wire::ConnectionCount::default();
        let addresses = self.shared.addresses.clone();
        let congestion = self.shared.settings.congestion.clone();
        let agent = match through {
            Some(proxy) if !tls && proxy.protocol() == ProxyProtocol::Http => {
                let login = proxy.username().map(|user| {
                    let password = proxy.password().unwrap_or_default();
                    Login { user: user.to_owned(), password: password.to_owned() }.basic()
                });
                let there = ProxyAddress { proxy: proxy.uri().clone(), addresses };
                Agent::with_parts(self.config(None), forward::connector(login, congestion, &opened), there)
            }
            through => {
                let connector = wire::connector(&self.shared.tls, congestion, &opened);
                // The addresses of a proxy are those that people named.
                let guarded = reach == Reach::Public && through.is_none();
                let only = guarded.then_some(self.shared.settings.is_public);
                Agent::with_parts(self.config(through), connector, Guarded { addresses, only })
            }
        };
        Ok(PooledAgent { proxy, tls, reach, agent, opened })
    }

    fn config(&self, proxy: Option<Proxy>) -> Config {
        let settings = &self.shared.settings;
        Agent::config_builder()
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .proxy(proxy)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(settings.user_agent.as_str())
            .accept("*/*")
            .accept_encoding("identity")
            .no_delay(true)
            .max_response_header_size(LARGEST_HEADER)
            .input_buffer_size(INPUT)
            .output_buffer_size(OUTPUT)
            .max_idle_connections(IDLE)
            .max_idle_connections_per_host(1)
            .max_idle_age(IDLE_AGE)
            .timeout_connect(Some(settings.timeout))
            .timeout_resolve(Some(settings.timeout))
            .timeout_per_read(Some(settings.timeout))
            .timeout_per_write(Some(settings.timeout))
            .build()
    }
}

/// The proxy to go through for `url`.
fn usable(proxy: &str, url: &Url) -> Result<Proxy, Refusal> {
    match Proxy::new(proxy) {
        Ok(proxy) if matches!(proxy.protocol(), ProxyProtocol::Http | ProxyProtocol::Https) => Ok(proxy),
        // Not named, since it may hold a password.
        _ => {
            let (url, scheme) = (shown(url), url.scheme());
            let what = format!(
                "{url}: the proxy set for {scheme} is none of http://HOST:PORT and https://HOST:PORT"
            );
            let mut refusal = Refusal::new(Why::Senseless, what);
            refusal.error.kind = ErrorKind::Usage;
            Err(refusal)
        }
    }
}

/// `url` without a user's name and password.
fn bare(url: &Url) -> Url {
    let mut bare = url.clone();
    let _ = bare.set_username("");
    let _ = bare.set_password(None);
    bare
}

/// A URL as a request takes it: what `url` leaves as it is and HTTP does not know is percent-encoded.
fn uri_text(url: &Url) -> String {
    let mut text = String::with_capacity(url.as_str().len());
    for c in url.as_str().chars() {
        match c {
            '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}' => {
                text.push_str(&format!("%{:02X}", u32::from(c)));
            }
            c => text.push(c),
        }
    }
    text
}
