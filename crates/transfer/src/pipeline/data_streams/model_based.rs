//! The congestion control of streams: what each has, and what of it moved while that goes by a model of the path.

use std::io;

use tidegate_control::BitRate;

use super::{DataStreams, Flight};
use crate::congestion::CongestionName;
use crate::sys::net::TcpStream;
use crate::sys::tcp::{self, TcpInfo};

/// What of a stream has moved while its congestion control went by a model of the path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ModelBased {
    /// Whether it does now, since so many bytes had arrived.
    since: Option<u64>,
    /// Bytes of earlier times.
    before: u64,
}

impl ModelBased {
    /// The stream on `socket`, which has moved nothing.
    pub fn of(socket: &TcpStream) -> Self {
        Self { since: is_model_based(socket).then_some(0), before: 0 }
    }

    /// Whether it does now.
    pub const fn is(&self) -> bool {
        self.since.is_some()
    }

    /// Bytes that arrived meanwhile.
    pub fn delivered(&self, info: &TcpInfo) -> u64 {
        self.before + self.since.map_or(0, |since| arrived(info).saturating_sub(since))
    }

    fn becomes(&mut self, is: bool, info: &TcpInfo) {
        self.before = self.delivered(info);
        self.since = is.then(|| arrived(info));
    }
}

fn arrived(info: &TcpInfo) -> u64 {
    info.delivered.or(info.acknowledged).unwrap_or_default()
}

fn is_model_based(socket: &TcpStream) -> bool {
    tcp::congestion(socket).is_ok_and(|name| CongestionName::goes_by_a_model(&name))
}

impl<F> DataStreams<F> {
    /// Gives one of the streams that are under way another congestion control; `false` if there is none.
    pub fn try_congestion(&self, name: &CongestionName) -> io::Result<bool> {
        let mut flights = self.flights.lock();
        let under_way = flights.live.iter_mut().filter(|(_, flight)| flight.under_way);
        // The last one to begin has the least to lose.
        let Some((index, flight)) = under_way.max_by_key(|(index, _)| **index) else { return Ok(false) };
        tracing::debug!("stream {index} has {} for a trial", name.as_str());
        flight.give(name).map(|()| true)
    }

    /// Gives all streams another congestion control, those that are still to come too.
    pub fn set_congestion(&self, name: &CongestionName) {
        let mut flights = self.flights.lock();
        for (index, flight) in &mut flights.live {
            if let Err(error) = flight.give(name) {
                tracing::debug!(
                    "stream {index} keeps its congestion control, and not {}: {error}",
                    name.as_str()
                );
            }
        }
        flights.given = Some(name.clone());
    }

    /// Lets all streams together whose congestion control goes by a model send no more than `rate`.
    pub fn limit_model_based(&self, rate: BitRate) {
        let flights = self.flights.lock();
        let model_based = || flights.live.values().filter(|flight| flight.model_based.is());
        let under_way = model_based().filter(|flight| flight.under_way).count().max(1);
        let each = (rate.0 / 8 / under_way as u64).max(1);
        for flight in model_based() {
            if let (Some(socket), Some(pace)) = (&flight.socket, &flight.pace) {
                pace.tell(socket, each);
            }
        }
    }
}

impl<F> Flight<F> {
    fn give(&mut self, name: &CongestionName) -> io::Result<()> {
        let (Some(socket), Some(pace)) = (&self.socket, &mut self.pace) else { return Ok(()) };
        let Some(info) = tcp::info(socket) else { return Ok(()) };
        tcp::set_congestion(socket, name.as_str())?;
        self.model_based.becomes(name.is_model_based(), &info);
        pace.let_go(socket);
        Ok(())
    }
}
