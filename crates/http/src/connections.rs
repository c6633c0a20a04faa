//! The connections of a listener: which of them makes room when there are too many. One on which something is being answered
//! never does. Of the others those go first whose client has not shown that it may ask anything, and among these one of the
//! origin that has most: whoever floods comes from somewhere.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;

/// Most connections that were told to end and have not yet: beyond that a newcomer is turned away.
const MAX_ENDING: usize = 64;

/// The connections of one listener.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    most: usize,
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    /// By number, so the oldest first.
    all: BTreeMap<u64, Known>,
    next: u64,
    ending: usize,
}

/// What is known of a connection.
#[derive(Debug)]
struct Known {
    origin: IpAddr,
    /// Whether its client has shown that it may ask something.
    is_proven: bool,
    /// Requests that are being answered.
    busy: usize,
    /// Since when there is none, in the order in which that came to be.
    idle_since: u64,
    is_ending: bool,
    end: Arc<Notify>,
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    number: u64,
    connections: Connections,
    end: Arc<Notify>,
}

/// A connection, as the handlers of its requests know it.
#[derive(Clone, Debug)]
pub struct Line {
    number: u64,
    table: Arc<Mutex<Table>>,
    end: Arc<Notify>,
}

/// A request that is being answered, until it is dropped.
#[derive(Debug)]
struct Busy(Line);

/// The body of an answer, with which that ends.
#[derive(Debug)]
pub(crate) struct Answering {
    body: Body,
    _busy: Busy,
}

/// Where a connection comes from: an IPv4 address, or the 64 bits of an IPv6 address that one host chooses beneath.
fn origin(peer: SocketAddr) -> IpAddr {
    match peer.ip().to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

impl Connections {
    /// None yet, and at most so many.
    pub fn new(most: usize) -> Self {
        Self { most, table: Arc::default() }
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.table.lock().expect("not poisoned").all.len()
    }

    /// The place of one more from `peer`; another one ends for it where there are as many as may be. `None` if none can.
    pub fn enter(&self, peer: SocketAddr) -> Option<Place> {
        let mut table = self.table.lock().expect("not poisoned");
        if table.all.len() - table.ending >= self.most && !table.make_room() {
            return None;
        }
        let number = table.tick();
        let end = Arc::new(Notify::new());
        let known = Known {
            origin: origin(peer),
            is_proven: false,
            busy: 0,
            idle_since: number,
            is_ending: false,
            end: Arc::clone(&end),
        };
        table.all.insert(number, known);
        Some(Place { number, connections: self.clone(), end })
    }

    /// Files have run out: has one end, if any can.
    pub(crate) fn relieve(&self) {
        self.table.lock().expect("not poisoned").make_room();
    }
}

impl Table {
    fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Has one end that can be spared; `false` if there is none.
    fn make_room(&mut self) -> bool {
        let Some(number) = self.spared().filter(|_| self.ending < MAX_ENDING) else { return false };
        if let Some(known) = self.all.get_mut(&number) {
            known.is_ending = true;
            self.ending += 1;
            known.end.notify_one();
        }
        true
    }

    fn spared(&self) -> Option<u64> {
        let idle = || self.all.iter().filter(|(_, known)| known.busy == 0 && !known.is_ending);
        let has_unproven = idle().any(|(_, known)| !known.is_proven);
        let spared = || idle().filter(|(_, known)| known.is_proven != has_unproven);
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for (_, known) in spared() {
            *counts.entry(known.origin).or_default() += 1;
        }
        let first = |known: &Known| (Reverse(counts.get(&known.origin).copied()), known.idle_since);
        spared().min_by_key(|(_, known)| first(known)).map(|(number, _)| *number)
    }
}

impl Place {
    /// The connection, for handlers.
    pub fn line(&self) -> Line {
        let (number, table) = (self.number, Arc::clone(&self.connections.table));
        Line { number, table, end: Arc::clone(&self.end) }
    }

    /// Waits until it has to end.
    pub async fn ended(&self) {
        self.end.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.connections.table.lock().expect("not poisoned");
        if table.all.remove(&self.number).is_some_and(|known| known.is_ending) {
            table.ending -= 1;
        }
    }
}

impl Line {
    /// Its client has shown that it may ask something: others go before it.
    pub fn is_proven(&self) {
        self.change(|known, _| known.is_proven = true);
    }

    /// Ends it, whatever is being answered.
    pub fn end(&self) {
        self.end.notify_one();
    }

    /// A request came, which is being answered until what is answered is dropped.
    pub(crate) fn answering(&self) -> impl FnOnce(Body) -> Answering + use<> {
        self.change(|known, _| known.busy += 1);
        let busy = Busy(self.clone());
        move |body| Answering { body, _busy: busy }
    }

    fn change(&self, change: impl FnOnce(&mut Known, u64)) {
        let mut table = self.table.lock().expect("not poisoned");
        let now = table.tick();
        if let Some(known) = table.all.get_mut(&self.number) {
            change(known, now);
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.change(|known, now| {
            known.busy -= 1;
            known.idle_since = now;
        });
    }
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], 1))
    }

    /// Whether it was told to end.
    fn is_ending(place: &Place) -> bool {
        place.connections.table.lock().expect("not poisoned").all[&place.number].is_ending
    }

    #[test]
    fn idle_ones_that_have_shown_nothing_go_first_the_oldest_of_the_fullest_origin() {
        let connections = Connections::new(5);
        let enter = |host| connections.enter(at(host)).expect("room");
        let (proven, busy, other) = (enter(1), enter(1), enter(2));
        proven.line().is_proven();
        let answer = busy.line().answering()(Body::empty());
        let flood: Vec<Place> = (0..4).map(|_| enter(1)).collect();
        assert_eq!(flood.iter().map(is_ending).collect::<Vec<_>>(), [true, true, false, false]);
        // The flood's are over, and now the only one of another origin is as good as they are.
        drop(flood);
        let more = [enter(3), enter(4)];
        assert!(!is_ending(&other) && connections.count() == 5);
        let last = enter(5);
        assert!(is_ending(&other) && !more.iter().any(is_ending));
        assert!(!is_ending(&proven) && !is_ending(&busy) && !is_ending(&last));
        drop((other, more, last));
        let fresh = [enter(6), enter(6), enter(6)];
        fresh.iter().for_each(|place| place.line().is_proven());
        assert!(!is_ending(&busy));
        // Where all have shown something the one that is idle for longest goes.
        let newest = enter(6);
        assert!(is_ending(&fresh[0]) && !is_ending(&fresh[2]) && !is_ending(&busy));
        drop((answer, newest));
        connections.relieve();
        assert!(is_ending(&busy), "it is idle by now, and has shown nothing");
    }

    #[test]
    fn nobody_is_cut_off_who_is_being_answered() {
        let connections = Connections::new(2);
        let places = [connections.enter(at(1)).expect("room"), connections.enter(at(2)).expect("room")];
        let answers: Vec<Answering> =
            places.iter().map(|place| place.line().answering()(Body::empty())).collect();
        assert!(connections.enter(at(3)).is_none());
        connections.relieve();
        assert!(!places.iter().any(is_ending));
        drop(answers);
        let newcomer = connections.enter(at(3)).expect("room");
        assert_eq!(places.iter().filter(|place| is_ending(place)).count(), 1);
        drop((places, newcomer));
        assert_eq!((connections.count(), connections.table.lock().expect("not poisoned").ending), (0, 0));
    }
}
