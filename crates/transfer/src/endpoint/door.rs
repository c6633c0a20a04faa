//! Where peers come in, and what is going on behind that.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use super::hosted::Hosted;
use super::log_limiter::LogLimiter;
use super::turns::Turns;
use super::unauthenticated::{Caps, UnauthenticatedPeers};
use crate::sys::host;
use crate::sys::net::{TcpListener, TcpStream};
use crate::sys::sync::Mutex;

/// Where peers come in.
#[derive(Debug)]
pub(super) struct Door {
    pub listener: TcpListener,
    pub unauthenticated: Mutex<UnauthenticatedPeers<TcpStream>>,
    /// Unauthenticated peers that had to make room, arrivals that failed, and arrivals that could not be served.
    pub crowded: LogLimiter,
    pub failed: LogLimiter,
    pub unserved: LogLimiter,
}

impl Door {
    /// One at which nobody has knocked.
    pub fn at(listener: TcpListener) -> Self {
        let caps = Caps::within(host::descriptors() as u64);
        Self {
            listener,
            unauthenticated: Mutex::new(UnauthenticatedPeers::new(caps)),
            crowded: LogLimiter::default(),
            failed: LogLimiter::default(),
            unserved: LogLimiter::default(),
        }
    }
}

/// What is going on.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Whether nothing new is begun.
    pub draining: AtomicBool,
    pub sessions: Mutex<HashMap<[u8; 16], Arc<Hosted>>>,
    /// Transfers from here to other endpoints.
    pub relayed: AtomicUsize,
    pub turns: Turns,
}
