//! The sender's data streams, and what is on its way on each: frames the receiver has not yet said it
//! took. When a stream is lost, exactly these are sent again.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tidegate_control::{BitRate, ByteCount, PathSample};

use crate::congestion::{self, CongestionName};
use crate::counters::StreamCounters;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::manifest::BLOCK;
use crate::pipeline::dialer::Dialer;
use crate::pipeline::evenness::StreamPace;
use crate::pipeline::joint::{JoinedStream, Joint};
use crate::pipeline::staging::Block;
use crate::pipeline::stream_sums::{StreamSums, add};
use crate::sys::buffers::SendBuffer;
use crate::sys::clock::Instant;
use crate::sys::net::{self, Shutdown, TcpStream};
use crate::sys::sync::{Condvar, Mutex};
use crate::sys::tcp::{self, TcpInfo};
use crate::sys::thread;
use crate::wire::channel::Channel;
use crate::wire::frame::Frame;

mod model_based;

use model_based::ModelBased;

/// How long what waits in the kernel to be sent on a stream may take at the stream's rate.
const QUEUED: Duration = Duration::from_millis(50);

/// How often a stream is opened in vain before the transfer is given up, and the pause after the first time.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Longest pause between streams that carry nothing.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Most frames on their way on one stream: 8 GiB of a large file. A receiver that confirms confirms long before.
const MAX_UNCONFIRMED: usize = 64 << 10;

/// Least of it that is allowed: whoever fills a stream is woken at half of it, and has a block in hand.
const LEAST_QUEUED: u32 = 2 * BLOCK as u32;

/// How long to wait before another stream is opened after so many in a row that carried nothing: the other end has
/// no room for them now.
pub(crate) fn in_vain_pause(streams: u32) -> Duration {
    match streams {
        0 => Duration::ZERO,
        _ => LONGEST_PAUSE.min(Duration::from_millis(50) * 2u32.pow(streams.min(8))),
    }
}

/// Opens a stream, again after growing pauses where that fails in a way that may pass, unless it is `over`.
pub(crate) fn open_patiently<T>(mut open: impl FnMut() -> Result<T>, over: impl Fn() -> bool) -> Result<T> {
    let mut failures = 0;
    loop {
        match open() {
            Err(error) if error.kind.retry() == Retry::Outage && failures < ATTEMPTS && !over() => {
                tracing::debug!("no stream yet: {error}");
                thread::sleep(FIRST_PAUSE * (1 << failures));
                failures += 1;
            }
            opened => return opened.map_err(|error| error.within("no data stream")),
        }
    }
}

/// Where the sender's streams come from.
#[derive(Debug)]
pub(crate) enum Supply {
    /// We dial them.
    Dial(Dialer),
    /// They lead to a receiver of this process.
    Join(Joint),
    /// The receiver dials them.
    Await(Arrivals),
}

/// Streams that have arrived and have no worker yet.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    queue: Mutex<VecDeque<(u32, Channel)>>,
    changed: Condvar,
}

/// All data streams of a sender. `F` is what it remembers of a frame.
#[derive(Debug)]
pub(crate) struct DataStreams<F> {
    supply: Supply,
    flights: Mutex<Flights<F>>,
    /// A stream has begun, or none will.
    begun: Condvar,
}

#[derive(Debug)]
struct Flights<F> {
    live: HashMap<u32, Flight<F>>,
    retired: TcpInfo,
    /// Bytes of those that arrived while their congestion control went by a model.
    retired_model: u64,
    /// The congestion control that new ones are given.
    given: Option<CongestionName>,
    closed: bool,
}

#[derive(Debug)]
struct Flight<F> {
    unconfirmed: VecDeque<F>,
    confirmed: u64,
    /// None where it leads to a receiver of this process.
    socket: Option<TcpStream>,
    /// Bytes that were handed over to that.
    handed_over: u64,
    /// Bytes that may wait in the kernel to be sent.
    queued: u32,
    /// How fast it may send.
    pace: Option<StreamPace>,
    /// By what its congestion control goes.
    model_based: ModelBased,
    /// Whether it had something under way when it was looked at last.
    under_way: bool,
    /// Where they wait, and what was sent until it is acknowledged.
    buffer: SendBuffer,
    /// Whether the receiver has taken anything from it.
    useful: Arc<AtomicBool>,
    /// Since when it is waited for a confirmation.
    since: Instant,
    /// Bytes that were acknowledged when it was counted last, and those between the last two counts.
    counted: u64,
    moved: u64,
    /// Whose it is.
    worker: u16,
}

/// One stream in the hands of one worker.
#[derive(Debug)]
pub(crate) struct DataStream {
    index: u32,
    leads: Leads,
    useful: Arc<AtomicBool>,
}

/// Where a stream leads.
#[derive(Debug)]
enum Leads {
    Elsewhere(Channel),
    Here(JoinedStream),
}

impl<F> DataStreams<F> {
    /// Streams of this supply, which are given this congestion control.
    pub fn new(supply: Supply, given: Option<CongestionName>) -> Self {
        let retired = TcpInfo::default();
        let flights = Flights { live: HashMap::new(), retired, retired_model: 0, given, closed: false };
        Self { supply, flights: Mutex::new(flights), begun: Condvar::default() }
    }

    /// A stream that the peer dialled.
    ///
    /// It is closed at once if `most` wait already.
    pub fn arrived(&self, index: u32, channel: Channel, most: usize) {
        if let Supply::Await(Arrivals { queue, changed }) = &self.supply {
            let mut queue = queue.lock();
            if queue.len() >= most {
                tracing::debug!("stream {index} is one too many");
                return;
            }
            queue.push_back((index, channel));
            changed.notify_one();
        }
    }

    /// A stream for `worker`: dialled now, or the next one to arrive. `None` once closed, or if none
    /// arrived for a while.
    pub fn open(&self, worker: u16) -> Result<Option<DataStream>> {
        let (index, leads) = match &self.supply {
            Supply::Dial(dialer) => dialer.dial().map(elsewhere)?,
            Supply::Join(joint) => joint.open().map(|(index, stream)| (index, Leads::Here(stream)))?,
            Supply::Await(Arrivals { queue, changed }) => {
                let mut queue = queue.lock();
                if queue.is_empty() {
                    queue = changed.wait_timeout(queue, Duration::from_millis(50)).0;
                }
                match queue.pop_front() {
                    Some(next) => elsewhere(next),
                    None => return Ok(None),
                }
            }
        };
        let socket = match &leads {
            Leads::Elsewhere(channel) => Some(channel.socket().try_clone()),
            Leads::Here(_) => None,
        };
        let socket = socket
            .transpose()
            .map_err(|error| Error::new(ErrorKind::Io, format!("cannot watch a stream: {error}")))?;
        let useful = Arc::new(AtomicBool::new(false));
        let mut flights = self.flights.lock();
        if flights.closed {
            return Ok(None);
        }
        if let (Some(socket), Some(name)) = (&socket, &flights.given) {
            congestion::give(socket, name);
        }
        let model_based = socket.as_ref().map(ModelBased::of).unwrap_or_default();
        let flight = Flight {
            pace: socket.as_ref().map(|socket| StreamPace::new(socket, model_based.is())),
            model_based,
            under_way: false,
            unconfirmed: VecDeque::new(),
            confirmed: 0,
            socket,
            handed_over: 0,
            queued: u32::MAX,
            buffer: SendBuffer::default(),
            useful: Arc::clone(&useful),
            since: Instant::now(),
            counted: 0,
            moved: 0,
            worker,
        };
        flights.live.insert(index, flight);
        self.begun.notify_all();
        Ok(Some(DataStream { index, leads, useful }))
    }

    /// Takes up `block` for `data_stream`, before any of it is [written](DataStream::write): its frames are remembered
    /// until confirmed, also where that fails.
    pub(crate) fn take_up(&self, data_stream: &DataStream, block: &mut Block<F>) -> io::Result<()> {
        match self.flights.lock().live.get_mut(&data_stream.index) {
            Some(flight) => {
                if flight.unconfirmed.len() >= MAX_UNCONFIRMED {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "nothing of it is confirmed"));
                }
                if flight.unconfirmed.is_empty() {
                    flight.since = Instant::now();
                }
                flight.unconfirmed.extend(block.frames.drain(..));
            }
            // The receiver said it lost this stream.
            None => return Err(io::ErrorKind::ConnectionReset.into()),
        }
        Ok(())
    }

    /// Whether the receiver has taken everything sent on `data_stream`.
    pub(crate) fn is_settled(&self, data_stream: &DataStream) -> bool {
        let flights = self.flights.lock();
        flights.live.get(&data_stream.index).is_none_or(|flight| flight.unconfirmed.is_empty())
    }

    /// The receiver has taken `count` frames of stream `index` so far; answers with those that it had not before.
    pub fn confirm(&self, index: u32, count: u64) -> Vec<F> {
        let mut flights = self.flights.lock();
        let Some(flight) = flights.live.get_mut(&index) else { return Vec::new() };
        let fresh = count.saturating_sub(flight.confirmed).min(flight.unconfirmed.len() as u64);
        flight.confirmed += fresh;
        if fresh > 0 {
            flight.useful.store(true, Relaxed);
            flight.since = Instant::now();
        }
        flight.unconfirmed.drain(..fresh as usize).collect()
    }

    /// What was taken up last for `data_stream`, of so many bytes, was written; answers with those of its frames that
    /// are taken with that, as the receiver is in this process.
    pub fn written(&self, data_stream: &DataStream, bytes: u64) -> Vec<F> {
        if let Leads::Elsewhere(_) = data_stream.leads {
            return Vec::new();
        }
        let mut flights = self.flights.lock();
        let Some(flight) = flights.live.get_mut(&data_stream.index) else { return Vec::new() };
        flight.useful.store(true, Relaxed);
        flight.handed_over += bytes;
        flight.confirmed += flight.unconfirmed.len() as u64;
        flight.unconfirmed.drain(..).collect()
    }

    /// The way to a receiver of this process, if that is where they lead.
    pub fn joint(&self) -> Option<&Joint> {
        match &self.supply {
            Supply::Join(joint) => Some(joint),
            Supply::Dial(_) | Supply::Await(_) => None,
        }
    }

    /// Stream `index` is gone; what was on its way must be sent again.
    pub fn lose(&self, index: u32) -> Vec<F> {
        let mut flights = self.flights.lock();
        let Some(flight) = flights.live.remove(&index) else { return Vec::new() };
        flights.retire(&flight);
        // A worker may be blocked on it.
        flight.cut();
        flight.unconfirmed.into()
    }

    /// Streams that the peer has closed or reset while frames are on their way. A receiver that never
    /// got to know a stream cannot miss it, and an idle worker does not look.
    pub fn broken(&self) -> Vec<u32> {
        let flights = self.flights.lock();
        // Receivers say nothing on a stream: anything to read is its end.
        let broken = |flight: &Flight<F>| {
            !flight.unconfirmed.is_empty() && flight.socket.as_ref().is_some_and(net::is_readable)
        };
        flights.live.iter().filter(|(_, flight)| broken(flight)).map(|(index, _)| *index).collect()
    }

    /// Streams of which nothing has been confirmed for `patience` although something was sent; each is named again
    /// after a third of that.
    pub(crate) fn overdue(&self, patience: Duration) -> Vec<u32> {
        let mut flights = self.flights.lock();
        let mut overdue = Vec::new();
        for (index, flight) in &mut flights.live {
            // A receiver of this process has what was written; what waits for its room is not on its way.
            let is_on_its_way = !flight.unconfirmed.is_empty() && flight.socket.is_some();
            if is_on_its_way && flight.since.elapsed() >= patience {
                flight.since += patience / 3;
                overdue.push(*index);
            }
        }
        overdue
    }

    /// Keeps what waits in the kernel to be sent short on every stream. That queue grows to megabytes as long as
    /// a stream is quick, and nothing in it can go by another one: where it becomes slow, all else has long
    /// arrived before that does. Where a buffer holds a stream back, it is raised.
    pub(crate) fn tend_queues(&self) {
        let mut flights = self.flights.lock();
        for flight in flights.live.values_mut() {
            let Some(socket) = &flight.socket else { continue };
            let Some(info) = tcp::info(socket) else { continue };
            let bytes = u128::from(info.delivery) * QUEUED.as_millis() / 1000;
            let queued = u32::try_from(bytes).unwrap_or(u32::MAX).max(LEAST_QUEUED);
            // A system that cannot be told sends as before.
            if queued.abs_diff(flight.queued) > flight.queued / 4 && tcp::limit_unsent(socket, queued).is_ok()
            {
                flight.queued = queued;
            }
            flight.buffer.look(socket, &info);
        }
    }

    /// Waits until streams begin; not so once no more are to.
    pub(crate) fn wait_for_starts(&self) -> bool {
        let starts = |flight: &Flight<F>| flight.pace.is_some_and(|pace| pace.starts());
        let mut flights = self.flights.lock();
        while !flights.closed && !flights.live.values().any(starts) {
            flights = self.begun.wait(flights);
        }
        !flights.closed
    }

    /// Holds back streams that begin where a queue stands; to be called every few milliseconds.
    pub(crate) fn tend_starts(&self) {
        for flight in self.flights.lock().live.values_mut() {
            if let (Some(socket), Some(pace)) =
                (&flight.socket, flight.pace.as_mut().filter(|pace| pace.starts()))
                && let Some(info) = tcp::info(socket)
            {
                pace.tend(socket, &info);
            }
        }
    }

    /// What the kernel tells of the path at `at`; `None` where no stream is under way.
    pub fn path_sample(&self, at: Duration) -> Option<PathSample> {
        let mut flights = self.flights.lock();
        let mut sum = flights.retired;
        let (mut now, mut before): (Option<Duration>, Option<Duration>) = (None, None);
        let mut least: Option<Duration> = None;
        let mut seen = PathSample { at, ..PathSample::default() };
        seen.model_delivered = ByteCount(flights.retired_model);
        for flight in flights.live.values_mut() {
            let Some(info) = flight.info() else { continue };
            add(&mut sum, &info);
            flight.under_way = info.in_flight > 0 || info.unsent > 0;
            let model_based = flight.model_based.is();
            seen.model_delivered.0 += flight.model_based.delivered(&info);
            seen.model_based += u16::from(flight.under_way && model_based);
            seen.loss_based += u16::from(flight.under_way && !model_based);
            seen.queued += u16::from(flight.pace.is_some_and(|pace| pace.is_queued()));
            seen.segment = seen.segment.max(ByteCount(info.segment));
            seen.streams += u16::from(info.acknowledged.is_some_and(|bytes| bytes > 0));
            seen.app_limited += u16::from(info.app_limited);
            if info.rtt > Duration::ZERO && info.least_rtt > Duration::ZERO {
                // Of a stream whose worker is parked it is one of before.
                let rtt = if flight.under_way { &mut now } else { &mut before };
                *rtt = Some(rtt.unwrap_or(Duration::MAX).min(info.rtt));
                least = Some(least.unwrap_or(Duration::MAX).min(info.least_rtt));
            }
        }
        (seen.rtt, seen.min_rtt) = (now.or(before)?, least?);
        seen.delivered = ByteCount(sum.delivered?);
        (seen.retransmits, seen.sent) = (sum.retransmits, sum.segments_sent);
        Some(seen)
    }

    /// Lets all streams together send no more than `rate`; `None` for no limit.
    pub fn limit_rate(&self, rate: Option<BitRate>) {
        let flights = self.flights.lock();
        let each = |rate: BitRate| (rate.0 / 8 / flights.live.len().max(1) as u64).max(1);
        let each = rate.map_or(tcp::EVENLY, each);
        for flight in flights.live.values() {
            if let (Some(socket), Some(pace)) = (&flight.socket, &flight.pace) {
                pace.tell(socket, each);
            }
        }
    }

    /// Ends `data_stream` properly: the receiver will not miss it.
    pub fn finish(&self, data_stream: DataStream) {
        if let Leads::Elsewhere(mut channel) = data_stream.leads
            && let Err(error) = channel.write_all(&Frame::END.encode()).and_then(|()| channel.finish())
        {
            tracing::debug!("ending stream {}: {error}", data_stream.index);
        }
        let mut flights = self.flights.lock();
        if let Some(flight) = flights.live.remove(&data_stream.index) {
            flights.retire(&flight);
        }
    }

    /// No stream begins any more; those that there are go on.
    pub fn close(&self) {
        self.flights.lock().closed = true;
        self.begun.notify_all();
    }

    /// Ends all waiting, and cuts streams that are still open.
    pub fn abort(&self) {
        self.close();
        self.flights.lock().live.values().for_each(Flight::cut);
        if let Supply::Join(joint) = &self.supply {
            joint.end();
        }
    }

    /// Bytes that the receiver's kernel has acknowledged, if ours tells, and how long its window has held streams back,
    /// over all streams there were.
    pub fn progress(&self) -> (Option<u64>, Duration) {
        let flights = self.flights.lock();
        let mut sum = flights.retired;
        flights.live.values().filter_map(Flight::info).for_each(|info| add(&mut sum, &info));
        (sum.acknowledged, sum.receiver_limited)
    }

    /// The kernel's counters over all streams, and what they are now; the round-trip time is the live streams' mean.
    pub fn count(&self) -> (TcpInfo, StreamCounters) {
        let mut flights = self.flights.lock();
        let (mut sum, mut rtts, mut streams) = (flights.retired, (Duration::ZERO, 0), StreamSums::default());
        for flight in flights.live.values_mut() {
            if flight.socket.is_none() {
                flight.moved =
                    flight.handed_over - std::mem::replace(&mut flight.counted, flight.handed_over);
                continue;
            }
            let Some(info) = flight.info() else { continue };
            add(&mut sum, &info);
            let acknowledged = info.acknowledged.unwrap_or_default();
            let moved = acknowledged.saturating_sub(std::mem::replace(&mut flight.counted, acknowledged));
            flight.moved = moved;
            // One whose worker is parked says nothing of the path, and its round trip is one of before.
            if moved > 0 || !flight.unconfirmed.is_empty() {
                rtts = (rtts.0 + info.rtt, rtts.1 + 1);
                streams.add(&info, moved, flight.pace, flight.model_based.is());
            }
        }
        sum.rtt = if rtts.1 > 0 { rtts.0 / rtts.1 } else { Duration::ZERO };
        (sum, streams.counters(&sum))
    }
}

impl<F> DataStreams<F> {
    /// Workers by what their streams moved between the last two counts, the most first.
    pub(crate) fn by_rate(&self) -> Vec<u16> {
        let flights = self.flights.lock();
        let mut moved: Vec<(u64, u16)> =
            flights.live.values().map(|flight| (flight.moved, flight.worker)).collect();
        moved.sort_unstable_by_key(|&(moved, worker)| (std::cmp::Reverse(moved), worker));
        moved.into_iter().map(|(_, worker)| worker).collect()
    }
}

impl<F> Flight<F> {
    /// What the kernel tells of it, if it does.
    fn info(&self) -> Option<TcpInfo> {
        self.socket.as_ref().and_then(tcp::info)
    }

    fn cut(&self) {
        if let Some(socket) = &self.socket {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl DataStream {
    /// Writes a part of a block that was taken up; a receiver of this process takes it whole, with its last part.
    pub fn write<F>(&mut self, block: &mut Block<F>, part: Range<usize>) -> io::Result<()> {
        let channel = match &mut self.leads {
            Leads::Elsewhere(channel) => channel,
            Leads::Here(stream) if part.end == block.length => return stream.hand_over(block),
            Leads::Here(_) => return Ok(()),
        };
        let within = |at: usize| at.min(block.length);
        let bytes = &block.bytes[within(part.start)..within(part.end)];
        match &block.tail {
            Some(tail) if part.end > block.length => {
                let (start, end) = (part.start.max(block.length), part.end);
                let offset = tail.offset + (start - block.length) as u64;
                channel.write_with_file(bytes, tail.file.as_fd(), offset, end - start)
            }
            _ => channel.write_all(bytes),
        }
    }

    /// The stream's number.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Whether the receiver has taken anything from it.
    pub(crate) fn was_useful(&self) -> bool {
        self.useful.load(Relaxed)
    }
}

fn elsewhere((index, channel): (u32, Channel)) -> (u32, Leads) {
    (index, Leads::Elsewhere(channel))
}

impl<F> Flights<F> {
    /// Counts what a stream has moved that is no more.
    fn retire(&mut self, flight: &Flight<F>) {
        if let Some(info) = flight.info() {
            add(&mut self.retired, &info);
            self.retired_model += flight.model_based.delivered(&info);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::FileId;
    use crate::pipeline::staging::Staging;
    use crate::sys::clock::manual;
    use crate::wire::joined::{BlockTaker, Parcel, ReadBack};
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::os::fd::BorrowedFd;
    use tidegate_control::ByteCount;

    fn socket(data_stream: &DataStream) -> &TcpStream {
        match &data_stream.leads {
            Leads::Elsewhere(channel) => channel.socket(),
            Leads::Here(_) => panic!("it leads elsewhere"),
        }
    }

    /// Bytes that a stream whose peer reads nothing takes before it would block.
    fn taken(data_streams: &DataStreams<()>, index: u32, shorten: bool) -> usize {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (_peer, _) = listener.accept().expect("connected");
        stream.set_nonblocking(true).expect("a socket");
        data_streams.arrived(index, Channel::Clear(stream), 1);
        let data_stream = data_streams.open(0).expect("arrived").expect("open");
        if shorten {
            data_streams.tend_queues();
        }
        let piece = vec![0; BLOCK as usize];
        let mut taken = 0;
        while let Ok(n) = socket(&data_stream).write(&piece) {
            taken += n;
        }
        taken
    }

    #[test]
    fn workers_are_told_by_what_their_streams_moved_since_the_last_count() {
        let data_streams = DataStreams::<()>::new(Supply::Await(Arrivals::default()), None);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (mut ends, mut open) = (Vec::new(), Vec::new());
        for worker in 0..3 {
            let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
            ends.push(listener.accept().expect("connected").0);
            data_streams.arrived(u32::from(worker) + 10, Channel::Clear(stream), 1);
            open.push(data_streams.open(worker).expect("arrived").expect("open"));
        }
        let moves = |worker: usize, bytes: usize| {
            let (mut to, mut from) = (socket(&open[worker]), &ends[worker]);
            to.write_all(&vec![0; bytes]).expect("room");
            from.read_exact(&mut vec![0; bytes]).expect("there");
            // What was read may not have been acknowledged yet.
            let acknowledged = || tcp::info(to).and_then(|info| info.acknowledged).unwrap_or_default();
            let end = Instant::now() + Duration::from_secs(10);
            while acknowledged() < bytes as u64 && Instant::now() < end {
                thread::sleep(Duration::from_millis(1));
            }
        };
        moves(0, 5000);
        moves(2, 1000);
        data_streams.count();
        assert_eq!(data_streams.by_rate(), [0, 2, 1]);
        moves(1, 100);
        data_streams.count();
        assert_eq!(data_streams.by_rate(), [1, 0, 2], "what was before counts no more");
    }

    #[test]
    fn a_stream_that_stands_still_does_not_fill_the_kernel() {
        let data_streams = DataStreams::new(Supply::Await(Arrivals::default()), None);
        let (free, short) = (taken(&data_streams, 0, false), taken(&data_streams, 1, true));
        assert!(short + 2 * LEAST_QUEUED as usize <= free, "took {short} bytes, {free} without a limit");
    }

    #[test]
    fn a_stream_is_opened_again_after_growing_pauses_and_not_for_ever() {
        let _clock = manual::stop();
        let lasting = |outage: u32, kind, over| {
            let (began, mut opened) = (Instant::now(), 0);
            let result = open_patiently(
                || {
                    opened += 1;
                    if opened <= outage { Err(Error::new(kind, "away")) } else { Ok(opened) }
                },
                || over,
            );
            (result.map_err(|error| error.message), opened, began.elapsed())
        };
        let pauses =
            |count: u32| (0..count).map(|n| Duration::from_millis(50) * 2u32.pow(n)).sum::<Duration>();
        let given_up = || Err("no data stream: away".to_owned());
        assert_eq!(lasting(0, ErrorKind::Connection, false), (Ok(1), 1, Duration::ZERO));
        assert_eq!(lasting(5, ErrorKind::Connection, false), (Ok(6), 6, pauses(5)));
        assert_eq!(lasting(6, ErrorKind::Connection, false), (given_up(), 6, pauses(5)));
        assert_eq!(lasting(6, ErrorKind::Authentication, false), (given_up(), 1, Duration::ZERO));
        assert_eq!(lasting(6, ErrorKind::Connection, true), (given_up(), 1, Duration::ZERO));
    }

    #[test]
    fn a_stream_of_which_nothing_is_confirmed_for_so_long_is_named_and_then_again() {
        let clock = manual::stop();
        let patience = Duration::from_secs(30);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let data_streams = DataStreams::new(Supply::Await(Arrivals::default()), None);
        data_streams.arrived(3, Channel::Clear(stream), 1);
        let mut data_stream = data_streams.open(0).expect("arrived").expect("open");
        clock.advance(10 * patience);
        assert!(data_streams.overdue(patience).is_empty(), "nothing was sent");
        let staging = Staging::new(ByteCount::mib(1), 1);
        let mut block = staging.acquire().expect("room");
        block.frames.extend([1, 2]);
        data_streams.take_up(&data_stream, &mut block).expect("open");
        let length = block.wire_length();
        data_stream.write(&mut block, 0..length).expect("sent");
        clock.advance(patience - Duration::from_secs(1));
        assert!(data_streams.overdue(patience).is_empty(), "it has a second left");
        assert_eq!(data_streams.confirm(3, 1), [1]);
        clock.advance(patience - Duration::from_secs(1));
        assert!(data_streams.overdue(patience).is_empty(), "something was confirmed since");
        clock.advance(Duration::from_secs(1));
        assert_eq!(data_streams.overdue(patience), [3]);
        assert!(data_streams.overdue(patience).is_empty(), "it was said just now");
        clock.advance(patience / 3);
        assert_eq!(data_streams.overdue(patience), [3]);
        // Replaced: what was on its way comes again, and nobody waits for it here.
        assert_eq!(data_streams.lose(3), [2]);
        clock.advance(patience);
        assert!(data_streams.overdue(patience).is_empty());
    }

    /// Takes nothing.
    #[derive(Debug)]
    struct Full;

    impl BlockTaker for Full {
        fn take(&self, _: Parcel<'_>, _: &dyn Fn() -> bool) -> bool {
            false
        }

        fn clone_range(&self, _: FileId, _: BorrowedFd<'_>, _: Range<u64>) -> Option<ReadBack> {
            None
        }

        fn recall(&self) {}
    }

    #[test]
    fn what_waits_for_room_in_this_process_is_never_overdue_and_comes_again_if_it_is_not_taken() {
        let clock = manual::stop();
        let joint = Joint::default();
        let data_streams = DataStreams::new(Supply::Join(joint.clone()), None);
        assert!(data_streams.open(0).is_err(), "nothing was accepted");
        joint.found(Arc::new(Full));
        let mut data_stream = data_streams.open(0).expect("accepted").expect("open");
        let staging = Staging::new(ByteCount::mib(1), 1);
        let mut block = staging.acquire().expect("room");
        block.frames.extend([1, 2]);
        data_streams.take_up(&data_stream, &mut block).expect("open");
        clock.advance(Duration::from_secs(3600));
        assert!(data_streams.overdue(Duration::from_secs(30)).is_empty());
        assert!(data_streams.broken().is_empty());
        data_stream.write(&mut block, 0..0).expect_err("nothing is taken");
        assert_eq!(data_streams.lose(data_stream.index()), [1, 2]);
    }
}
