//! The threads that take in data streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use super::ReceiverState;
use super::stream::StreamHandler;
use crate::congestion;
use crate::pipeline::intake::receive_frames;
use crate::quota::Held;
use crate::sys::buffers::look_at_receive_buffer;
use crate::sys::net::{Shutdown, TcpStream};
use crate::sys::tcp;
use crate::sys::thread::{self, JoinHandle};
use crate::wire::channel::Channel;
use crate::wire::message::Message;

/// Streams at once for each worker allowed: lost ones linger until the loss is noticed here.
const LINGERING: usize = 4;

/// A stream that nobody takes in yet.
pub(super) struct NewStream {
    pub index: u32,
    pub channel: Channel,
    /// Told whether it was of any use.
    pub closed: Box<dyn FnOnce(bool) + Send>,
}

/// The thread that takes in one stream.
struct Stream {
    index: u32,
    thread: JoinHandle<()>,
    socket: Option<TcpStream>,
    /// Whether it waits for the stream right now, and not for room or a disk.
    waiting: Arc<AtomicBool>,
    _held: Option<Held>,
}

impl Stream {
    /// How long nothing has come; as long as may be where the kernel does not tell.
    fn idle(&self) -> Duration {
        self.socket.as_ref().and_then(tcp::info).map_or(Duration::MAX, |info| info.idle)
    }
}

/// All that there are.
#[derive(Default)]
pub(super) struct Streams(Vec<Stream>);

impl Streams {
    /// Takes in what comes on a new one.
    pub fn add(&mut self, shared: &Arc<ReceiverState>, stream: NewStream) {
        let NewStream { index, mut channel, closed } = stream;
        self.0.retain(|stream| !stream.thread.is_finished());
        if self.0.len() >= LINGERING * usize::from(shared.terms.max_workers) || shared.path.is_stopped() {
            tracing::debug!("stream {index} is one too many");
            return;
        }
        // One moves everything, if need be.
        let held = if self.0.is_empty() { None } else { shared.share.threads.take(1) };
        if held.is_none() && !self.0.is_empty() {
            tracing::debug!("no thread is free for stream {index}");
            return;
        }
        if let Some(name) = shared.terms.congestion.first() {
            congestion::give(channel.socket(), &name);
        }
        let socket = channel.socket().try_clone().ok();
        let waiting = Arc::new(AtomicBool::new(false));
        let (shared, waits) = (Arc::clone(shared), Arc::clone(&waiting));
        let work = move || {
            let handler = StreamHandler { shared: &shared, index, waiting: &waits };
            let result = receive_frames(&mut channel, &shared.path.staging, shared.terms.verify, &handler);
            shared.report_taken();
            let useful = result.is_ok() || shared.taken.lock().contains_key(&index);
            if let Err(error) = result
                && !shared.path.is_stopped()
            {
                tracing::debug!("stream {index}: {error}");
                shared.outbox.send(&Message::StreamLost(index));
            }
            closed(useful);
        };
        match thread::Builder::new().name(format!("network-{index}")).spawn(work) {
            Ok(thread) => self.0.push(Stream { index, thread, socket, waiting, _held: held }),
            Err(error) => tracing::warn!("cannot take in stream {index}: {error}"),
        }
    }

    /// The sender misses confirmations of these streams: ends those that bring nothing, and answers with those that never
    /// came.
    pub fn look_after(&mut self, overdue: &[u32], patience: Duration) -> Vec<u32> {
        self.0.retain(|stream| !stream.thread.is_finished());
        let mut lost = Vec::new();
        for &index in overdue {
            match self.0.iter().find(|stream| stream.index == index) {
                // Whoever waits for room or for a disk comes back for it, and what is slow is not dead.
                Some(stream) if !stream.waiting.load(Relaxed) || stream.idle() < patience / 3 => {}
                Some(Stream { socket: Some(socket), .. }) => {
                    tracing::warn!("data stream {index} delivers nothing: it is replaced");
                    let _ = socket.shutdown(Shutdown::Both);
                }
                _ => lost.push(index),
            }
        }
        lost
    }

    /// Raises the buffers of those that they hold back.
    pub fn look_at_buffers(&self) {
        self.0.iter().filter_map(|stream| stream.socket.as_ref()).for_each(look_at_receive_buffer);
    }

    /// Ends all of them. One may wait for a peer that is silent, and would keep the journal open until then.
    pub fn end(&mut self) {
        for socket in self.0.iter().filter_map(|stream| stream.socket.as_ref()) {
            let _ = socket.shutdown(Shutdown::Both);
        }
        for stream in self.0.drain(..) {
            if stream.thread.join().is_err() {
                tracing::error!("a stream's worker panicked");
            }
        }
    }
}
