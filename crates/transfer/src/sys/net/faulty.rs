//! A network that goes away and comes again, for what one thread connects; what others connect is theirs.

use std::cell::RefCell;
use std::io;
use std::marker::PhantomData;
use std::net::{Shutdown, TcpStream};

thread_local! {
    static NETWORK: RefCell<Option<State>> = const { RefCell::new(None) };
}

#[derive(Debug, Default)]
struct State {
    away: bool,
    connected: Vec<TcpStream>,
}

/// The network between this thread and all others, until dropped.
#[derive(Debug)]
pub(crate) struct Network(PhantomData<*const ()>);

/// Puts a network beneath what this thread connects, on which all is well so far.
pub(crate) fn network() -> Network {
    NETWORK.set(Some(State::default()));
    Network(PhantomData)
}

impl Network {
    /// Ends every connection, and lets none be made.
    pub fn lose(&self) {
        with(|state| {
            state.away = true;
            // What the other end has closed already is not connected.
            state.connected.drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        });
    }

    /// Lets connections be made again.
    pub fn restore(&self) {
        with(|state| state.away = false);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        NETWORK.set(None);
    }
}

fn with<T>(act: impl FnOnce(&mut State) -> T) -> Option<T> {
    NETWORK.with_borrow_mut(|state| state.as_mut().map(act))
}

/// Fails while there is no network.
pub(super) fn before_connect() -> io::Result<()> {
    match with(|state| state.away) {
        Some(true) => Err(io::ErrorKind::NetworkUnreachable.into()),
        _ => Ok(()),
    }
}

/// Remembers what will be lost.
pub(super) fn connected(stream: &TcpStream) -> io::Result<()> {
    with(|state| stream.try_clone().map(|stream| state.connected.push(stream))).unwrap_or(Ok(()))
}
