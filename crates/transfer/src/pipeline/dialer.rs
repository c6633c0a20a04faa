//! Dials the data streams of a session. A connection for the first is made while the session still asks for its transfer:
//! what it is for is said on it once the endpoint has accepted.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::ClientConfig;

use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::sys::clock::Instant;
use crate::sys::sync::Mutex;
use crate::sys::thread::{self, JoinHandle};
use crate::terms::DataPlane;
use crate::wire::channel::Channel;
use crate::wire::handshake::{self, HANDSHAKE_TIME, StreamOpening};
use crate::wire::ticket::Address;
use crate::wire::way::Way;

/// How long a connection may wait to be told what it is for; the endpoint bears twice that.
const FRESH: Duration = HANDSHAKE_TIME.checked_div(2).expect("not by zero");

/// Dials data streams; its clones number them together.
#[derive(Clone, Debug)]
pub(crate) struct Dialer(Arc<Dialling>);

#[derive(Debug)]
struct Dialling {
    /// Where the peer listens, and how the session found it.
    address: Address,
    way: Way,
    /// Whom we expect there.
    config: Arc<ClientConfig>,
    /// How the bulk travels.
    plane: DataPlane,
    /// What binds a stream to the session.
    token: OnceLock<Digest>,
    next: AtomicU32,
    ahead: Mutex<Option<(Instant, JoinHandle<Result<Spare>>)>>,
}

/// A connection that is of no use yet, and says so when it is given up.
#[derive(Debug)]
struct Spare(Option<Channel>);

impl Drop for Spare {
    fn drop(&mut self) {
        if let Some(mut channel) = self.0.take() {
            let _ = channel.finish();
        }
    }
}

impl Dialer {
    /// Dials streams of a session, once it [was accepted](Self::accepted).
    pub fn new((address, way): (Address, Way), config: Arc<ClientConfig>, plane: DataPlane) -> Self {
        let (token, next, ahead) = (OnceLock::new(), AtomicU32::new(0), Mutex::default());
        Self(Arc::new(Dialling { address, way, config, plane, token, next, ahead }))
    }

    /// Begins a connection for the first stream.
    pub fn begin(&self) {
        let connecting = Arc::clone(&self.0);
        let ahead = thread::Builder::new().name("dial".to_owned()).spawn(move || {
            let channel = connecting.connect()?;
            Ok(Spare(Some(channel)))
        });
        // Without one, the first stream takes its time.
        *self.0.ahead.lock() = ahead.ok().map(|ahead| (Instant::now(), ahead));
    }

    /// The endpoint has accepted, and streams show `token`.
    pub fn accepted(&self, token: Digest) {
        let _ = self.0.token.set(token);
    }

    /// Opens the next stream.
    ///
    /// # Errors
    /// Nobody is there, or nothing was accepted yet.
    pub fn dial(&self) -> Result<(u32, Channel)> {
        let this = &*self.0;
        let token =
            this.token.get().ok_or_else(|| Error::protocol("a data stream before it was accepted"))?;
        let index = this.next.fetch_add(1, Relaxed);
        let stream = StreamOpening { plane: this.plane, token, index };
        let introduced = |channel| handshake::introduce(channel, &this.address, &stream);
        // If anything is wrong with the one that was made ahead, another one shows it.
        let ahead = this.ahead().and_then(|channel| introduced(channel).ok());
        let channel = ahead.map_or_else(|| introduced(this.connect()?), Ok)?;
        Ok((index, channel))
    }
}

impl Dialling {
    fn connect(&self) -> Result<Channel> {
        handshake::connect_stream(&self.address, &self.way, &self.config, self.plane)
    }

    /// The connection that was made ahead, unless the endpoint may have tired of it.
    fn ahead(&self) -> Option<Channel> {
        let (since, connecting) = self.ahead.lock().take()?;
        let mut spare = connecting.join().ok()?.ok()?;
        if since.elapsed() < FRESH { spare.0.take() } else { None }
    }
}
