//! Requests in clear through a proxy: they go to the proxy's address and name the whole URL (RFC 9112,
//! section 3.2.2). ureq would ask the proxy for a tunnel, which many proxies allow for TLS only.

use std::fmt;

use tidegate_transfer::congestion::CongestionName;
use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, NextTimeout, TcpConnector, Transport,
};

use super::named::NamedConnector;
use super::wire::{Addresses, ConnectionCount, Watched};

/// Finds the proxy, whatever host is asked for.
#[derive(Clone)]
pub(crate) struct ProxyAddress {
    pub proxy: Uri,
    pub addresses: Addresses,
}

tidegate_contract::opaque!(ProxyAddress);

impl Resolver for ProxyAddress {
    fn resolve(
        &self,
        _uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        self.addresses.look_up(&self.proxy, config, timeout)
    }
}

/// What makes connections to a proxy, which wants `login` as a value of `Proxy-Authorization`.
pub(crate) fn connector(
    login: Option<String>,
    congestion: Option<CongestionName>,
    opened: &ConnectionCount,
) -> impl Connector<Out = impl Transport> {
    ().chain(NamedConnector(congestion))
        .chain(TcpConnector::default())
        .chain(Forward { login })
        .chain(Watched::new(opened))
}

struct Forward {
    login: Option<String>,
}

tidegate_contract::opaque!(Forward);

impl<In: Transport> Connector<In> for Forward {
    type Out = Absolute<In>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        let authority = details.uri.authority().map_or("", |authority| authority.as_str());
        let origin = format!("http://{authority}");
        Ok(chained.map(|inner| Absolute { inner, origin, login: self.login.clone(), begins: true }))
    }
}

/// Puts the origin into each request line.
struct Absolute<T> {
    inner: T,
    origin: String,
    login: Option<String>,
    /// Whether what is sent next is the beginning of a request: the first there is, or after an answer.
    begins: bool,
}

impl<T> fmt::Debug for Absolute<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Absolute").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl<T: Transport> Transport for Absolute<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let begins = std::mem::take(&mut self.begins);
        let head = &self.inner.buffers().output()[..amount];
        let Some(head) = begins.then(|| absolute(head, &self.origin, self.login.as_deref())).flatten() else {
            return self.inner.transmit_output(amount, timeout);
        };
        let mut rest = &head[..];
        while !rest.is_empty() {
            let output = self.inner.buffers().output();
            let count = rest.len().min(output.len());
            output[..count].copy_from_slice(&rest[..count]);
            self.inner.transmit_output(count, timeout)?;
            rest = &rest[count..];
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.begins = true;
        self.inner.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }
}

/// `GET /x HTTP/1.1` and what follows, with the whole URL in it; `None` if it begins otherwise.
fn absolute(head: &[u8], origin: &str, login: Option<&str>) -> Option<Vec<u8>> {
    let end = head.windows(2).position(|pair| pair == b"\r\n")?;
    let line = std::str::from_utf8(&head[..end]).ok()?;
    let (method, rest) = line.split_once(' ')?;
    if !rest.starts_with('/') || !rest.ends_with(" HTTP/1.1") {
        return None;
    }
    let mut whole = format!("{method} {origin}{rest}\r\n");
    if let Some(login) = login {
        whole.push_str(&format!("Proxy-Authorization: {login}\r\n"));
    }
    let mut whole = whole.into_bytes();
    whole.extend(&head[end + 2..]);
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_line_gets_the_whole_url() {
        let head = b"GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n";
        let whole = absolute(head, "http://x:81", Some("Basic abc")).expect("a request");
        let expected = "GET http://x:81/a?b HTTP/1.1\r\nProxy-Authorization: Basic abc\r\nHost: x\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&whole), expected);
        for other in [&b"GET http://x/ HTTP/1.1\r\n"[..], b"bytes of a body\r\n", b"", b"GET /a HTTP/1.1"] {
            assert_eq!(absolute(other, "http://x", None), None);
        }
    }
}
