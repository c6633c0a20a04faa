//! The path MTU between this host and a site, as the kernel tells it: the largest packet that its route, and what came
//! back of larger ones, let through. Under another one a path has other rates (Mathis et al.: in proportion to it).

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{ip_mtu, ipv6_mtu};
use tidegate_control::ByteCount;
use tokio::sync::OnceCell;
use url::Url;

use tidegate_spec::pair::{Pair, Site};

/// A route is looked up again after so long: thousands ask about the same few sites, and what a kernel has learned of a
/// path holds for ten minutes.
const HELD: Duration = Duration::from_secs(60);
/// Who has not found out a host's address by then does without: an estimate is not to wait for a name server.
const RESOLVING: Duration = Duration::from_millis(500);
/// Sites that are remembered; with more, all are looked up anew.
const SITES: usize = 4096;
/// Sites of these are hosts; `s3://` names a bucket.
const HOSTS: [&str; 6] = ["tg", "gsiftp", "ftp", "ftps", "http", "https"];

/// What was looked up, or is being looked up by the first who asked.
type Lookup = Arc<OnceCell<Option<ByteCount>>>;

/// Path MTUs of this host. Clones share what was looked up.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathMtus {
    known: Arc<Mutex<HashMap<Site, (Instant, Lookup)>>>,
}

impl PathMtus {
    /// That of the path between two sites; none where this host is neither of them, or the other cannot be told.
    pub async fn of(&self, pair: &Pair) -> Option<ByteCount> {
        let far = match (is_local(&pair.source), is_local(&pair.destination)) {
            (true, false) => &pair.destination,
            (false, true) => &pair.source,
            _ => return None,
        };
        let lookup = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            match known.get(far) {
                Some((since, lookup)) if since.elapsed() < HELD => Arc::clone(lookup),
                _ => {
                    if known.len() >= SITES {
                        known.clear();
                    }
                    let lookup = Lookup::default();
                    known.insert(far.clone(), (Instant::now(), Arc::clone(&lookup)));
                    lookup
                }
            }
        };
        *lookup.get_or_init(|| look_up(far)).await
    }
}

fn is_local(site: &Site) -> bool {
    site.as_str() == Site::LOCAL
}

async fn look_up(site: &Site) -> Option<ByteCount> {
    let url = Url::parse(site.as_str()).ok().filter(|url| HOSTS.contains(&url.scheme()))?;
    let host = url.host_str()?.trim_start_matches('[').trim_end_matches(']').to_owned();
    // Nothing is sent there: any port has the route.
    let asked = tokio::net::lookup_host((host, url.port().unwrap_or(1)));
    let address = tokio::time::timeout(RESOLVING, asked).await.ok()?.ok()?.next()?;
    of_route(address).ok()
}

/// What the kernel says of the route to `address`.
fn of_route(address: SocketAddr) -> std::io::Result<ByteCount> {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    let mtu = if address.is_ipv4() { ip_mtu(&socket) } else { ipv6_mtu(&socket) };
    Ok(ByteCount(mtu?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_path_has_the_mtu_of_its_route_and_no_other() {
        let mtus = PathMtus::default();
        let text = std::fs::read_to_string("/sys/class/net/lo/mtu").expect("a loopback");
        // No packet of IPv4 is larger.
        let loopback = ByteCount(text.trim().parse().map(|mtu: u64| mtu.min(65_535)).expect("a number"));
        for (source, destination, wanted) in [
            ("/data", "tg://ticket@127.0.0.1:7117/x", Some(loopback)),
            ("gsiftp://127.0.0.2/x", "/data", Some(loopback)),
            ("/data", "/copy", None),
            ("tg://127.0.0.1", "tg://127.0.0.2", None),
            ("/data", "s3://127.0.0.1/x", None),
            ("/data", "tg://no.such.host.invalid/x", None),
        ] {
            let pair = Pair::of(source, destination).expect("a pair");
            assert_eq!(mtus.of(&pair).await, wanted, "{pair}");
            assert_eq!(mtus.of(&pair).await, wanted, "{pair}, as remembered");
        }
    }
}
