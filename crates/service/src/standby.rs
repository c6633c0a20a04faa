//! A service while another one works on the queue that they share: what it is asked it passes to that one, so that any of them
//! may be asked.

use std::net::IpAddr;
use std::time::Duration;

use axum::Router;
use axum::http::header::CONNECTION;
use tidegate_http::listener::Listener;
use tidegate_transfer::wire::ticket::Place;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::api::{Problem, hardened};
use crate::queue::{Queue, QueueResult, SharedQueue};

/// Longest wait for a connection to the one that works.
const REACHED: Duration = Duration::from_secs(2);

/// Passes on, until nobody else works on `queue`: then it is this service's, which others reach at `place`. Who asks while
/// nobody works is told to come again.
pub(crate) async fn until_ours(queue: &SharedQueue, listener: &Listener, place: &str) -> QueueResult<Queue> {
    let works = {
        let (queue, own) = (queue.clone(), place.to_owned());
        move || reach(queue.clone(), own.clone())
    };
    tokio::select! {
        taken = queue.take(place) => taken,
        () = listener.pass(works, nobody()) => unreachable!("it passes on until it is dropped"),
    }
}

/// A connection to the one that works; nothing where that would be this one, as after it was started again.
async fn reach(queue: SharedQueue, own: String) -> Option<TcpStream> {
    let place = queue.worker().await.filter(|place| *place != own)?;
    match timeout(REACHED, TcpStream::connect(&place)).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::warn!("cannot reach the service that works, at {place}: {error}");
            None
        }
        Err(_) => {
            tracing::warn!(
                "no connection to the service that works, at {place}, within {} s",
                REACHED.as_secs()
            );
            None
        }
    }
}

/// What is answered while nobody works. The connection ends with it: by the next request somebody may, to whom that is passed.
fn nobody() -> Router {
    let come_again = || async {
        let why = "no service works on the queue at the moment";
        let problem = Problem::unavailable(why, "ask again: another takes over within seconds");
        ([(CONNECTION, "close")], problem)
    };
    hardened(Router::new().fallback(come_again))
}

/// Where other services reach `listener`: as it is said, or where it listens, by this host's name if that is everywhere.
pub(crate) fn place(listener: &Listener, said: Option<&Place>) -> String {
    let address = listener.address();
    let host = match said {
        Some(place) => place.host.clone(),
        None if address.ip().is_unspecified() => {
            rustix::system::uname().nodename().to_string_lossy().into_owned()
        }
        None => address.ip().to_string(),
    };
    let port = said.and_then(|place| place.port).unwrap_or(address.port());
    match host.parse() {
        Ok(IpAddr::V6(_)) => format!("[{host}]:{port}"),
        _ => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn others_reach_it_where_it_is_said_or_where_it_listens() {
        let at = |address: &str| Listener::bind(address.parse().expect("an address"), None).expect("bound");
        let (here, everywhere, six) = (at("127.0.0.1:0"), at("0.0.0.0:0"), at("[::1]:0"));
        let ports = [&here, &everywhere, &six].map(|listener| listener.address().port());
        assert_eq!(place(&here, None), format!("127.0.0.1:{}", ports[0]));
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        assert_eq!(place(&everywhere, None), format!("{name}:{}", ports[1]));
        assert_eq!(place(&six, None), format!("[::1]:{}", ports[2]));
        for (said, reached) in
            [("dtn1", format!("dtn1:{}", ports[0])), ("[fd00::1]:7118", "[fd00::1]:7118".to_owned())]
        {
            assert_eq!(place(&here, Some(&said.parse().expect("a place"))), reached);
        }
    }
}
