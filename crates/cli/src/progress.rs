//! The live view on a terminal: a bar with rate and ETA, the three concurrencies with what they
//! move, and how full the staging is at both ends.
//!
//! ```text
//! source/ → tg://host:7117/in/
//!   ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╸───────────────  64 %   942 Mbit/s   ETA 6 s
//!   1.28 GiB of 2 GiB   231 of 379 files
//!             workers                             throughput
//!   read      13  ▂▄▇███████████████████  1.01 Gbit/s  ▂▄▇███████████████████
//!   network    7  ▂▄▅▅▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄   942 Mbit/s  ▂▄▇███████████████████
//!   write      5  ▂▄▅▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃   940 Mbit/s  ▂▄▇███████████████████
//!   staging   sender ━━━╸────────  31 %   receiver ────────────   0 %
//! ```
//!
//! Stages that a job does not have are left out. Where single files can be told apart, each of those under
//! way has a bar of its own below.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tidegate_control::{Arrival, BitRate, ByteCount, Concurrency, Ends, Epoch, Meter, PerStage, Stage};
use tidegate_run::audience::{Attempt, FileBar, Follower};
use tidegate_transfer::counters::Totals;
use tidegate_transfer::sys::sync::Mutex;

use crate::terminal;

/// How often the view is drawn.
const FRAME: Duration = Duration::from_millis(100);

/// Most epochs a trend shows.
const MAX_TREND: usize = 40;

/// Most files under way that are shown one by one.
const MAX_SHOWN_FILES: usize = 8;

const BOLD: &str = "1";
const DIM: &str = "2";
const CYAN: &str = "36";
const GREEN: &str = "32";
const YELLOW: &str = "33";

/// What is shown of a try until it is dropped, if anything is.
pub struct View {
    state: Option<(Arc<Shown>, JoinHandle<()>)>,
}

struct Heading {
    title: String,
    stages: &'static [Stage],
    staging: ByteCount,
    colour: bool,
}

struct Shown {
    setpoint: Mutex<Concurrency>,
    epochs: Mutex<VecDeque<Epoch>>,
    over: AtomicBool,
}

impl View {
    /// A view of `attempt`, if it is `wanted` and there is a terminal for it.
    pub fn of(attempt: Attempt<'_>, wanted: bool) -> Self {
        if !wanted || !terminal::can_show_view() {
            return Self { state: None };
        }
        let Attempt { title, stages, staging, ledger, under_way, start } = attempt;
        let heading = Heading { title: title.to_owned(), stages, staging, colour: terminal::has_colour() };
        let ledger = Arc::clone(ledger);
        let shown = Arc::new(Shown {
            setpoint: Mutex::new(start),
            epochs: Mutex::default(),
            over: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&shown);
        let draw = move || {
            let (mut meter, started) = (Meter::default(), Instant::now());
            while !theirs.over.load(Relaxed) {
                let (totals, arrived) = (ledger.totals(), ledger.arrival());
                let now = started.elapsed();
                meter.hear(now, arrived.new_bytes);
                let rate = meter.rate(now);
                let setpoint = *theirs.setpoint.lock();
                let epochs = theirs.epochs.lock().clone();
                let files = under_way.as_ref().map(|under_way| under_way()).unwrap_or_default();
                let heading = &heading;
                let frame =
                    Frame { heading, totals, arrived, rate, setpoint, epochs: &epochs, files: &files };
                terminal::draw(&frame.lines(terminal::width()));
                thread::park_timeout(FRAME);
            }
            terminal::clear();
        };
        Self { state: Some((shown, thread::spawn(draw))) }
    }
}

impl Follower for View {
    fn show(&self, epoch: &Epoch) {
        let Some((shown, _)) = &self.state else { return };
        *shown.setpoint.lock() = epoch.setpoint;
        let mut epochs = shown.epochs.lock();
        epochs.push_back(epoch.clone());
        if epochs.len() > MAX_TREND {
            epochs.pop_front();
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Some((shown, thread)) = self.state.take() {
            shown.over.store(true, Relaxed);
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// One picture.
struct Frame<'a> {
    heading: &'a Heading,
    totals: Totals,
    arrived: Arrival,
    rate: BitRate,
    setpoint: Concurrency,
    epochs: &'a VecDeque<Epoch>,
    files: &'a [FileBar],
}

impl Frame<'_> {
    fn lines(&self, width: usize) -> Vec<String> {
        let mut lines = vec![self.paint(BOLD, &self.heading.title)];
        lines.extend(self.progress(width));
        lines.extend(self.stages(width));
        if let Some(epoch) = self.epochs.back() {
            lines.push(self.staging(epoch.staging_free_bytes, width));
        }
        lines.extend(self.files(width));
        lines
    }

    /// A bar for each file under way, the first ones if there are many.
    fn files(&self, width: usize) -> Vec<String> {
        // Name, bar and size share what the percentage leaves.
        let room = width.saturating_sub(36);
        let (names, bars) = ((room * 3 / 5).clamp(8, 48), (room * 2 / 5).clamp(4, 32));
        let line = |file: &FileBar| {
            let name = shortened(&file.name, names);
            let share = file.bytes.map_or(0.0, |bytes| file.done as f64 / bytes.max(1) as f64);
            let (percent, of) = match file.bytes {
                Some(bytes) => {
                    (format!("{:>3.0} %", (share * 100.0).min(99.0)), format!(" of {}", ByteCount(bytes)))
                }
                None => ("  - %".to_owned(), String::new()),
            };
            format!(
                "  {name:<names$}  {}  {percent}  {}{of}",
                self.bar(share, bars, GREEN),
                ByteCount(file.done)
            )
        };
        let mut lines: Vec<String> = self.files.iter().take(MAX_SHOWN_FILES).map(line).collect();
        if let Some(more @ 1..) = self.files.len().checked_sub(MAX_SHOWN_FILES) {
            lines.push(self.paint(DIM, &format!("  … and {more} more under way")));
        }
        lines
    }

    fn progress(&self, width: usize) -> [String; 2] {
        let totals = &self.totals;
        let here = self.arrived.bytes;
        let files = totals.files_done + totals.files_skipped + totals.files_failed;
        // Not before everything is there.
        let whole = totals.listed && files == totals.files_listed;
        let share = match totals.bytes_listed {
            0 => f64::from(u8::from(whole)),
            listed => here.0 as f64 / listed as f64,
        };
        let percent = match (whole, totals.bytes_listed) {
            (true, _) => "100".to_owned(),
            // Whoever named them does not know how large they are.
            (false, 0) => "-".to_owned(),
            (false, _) => ((share * 100.0) as u64).min(99).to_string(),
        };
        let left = self.arrived.time_left(self.rate).map(|left| clock(left.as_secs_f64()));
        let eta = format!("ETA {}", left.as_deref().unwrap_or("-"));
        let behind = format!("  {percent:>3} %  {:>11}  {eta:<12}", self.rate.to_string());
        let bar = self.bar(share, width.saturating_sub(2 + behind.chars().count()), CYAN);
        let more = if totals.listed { "" } else { " or more" };
        let of = match (whole, totals.bytes_listed) {
            (false, 0) => String::new(),
            (_, listed) => format!(" of {}{more}", ByteCount(listed)),
        };
        let mut counts = format!("{here}{of}   {files} of {}{more} files", totals.files_listed);
        for (number, what) in [(totals.files_skipped, "there already"), (totals.files_failed, "failed")] {
            if number > 0 {
                counts.push_str(&format!("   {number} {what}"));
            }
        }
        [format!("  {bar}{behind}"), format!("  {counts}")]
    }

    fn stages(&self, width: usize) -> Vec<String> {
        // Name, workers, rate and what separates them; the rest is for the two trends.
        let room = (width.saturating_sub(31) / 2).clamp(4, MAX_TREND);
        let newest: Vec<&Epoch> = self.epochs.iter().rev().take(room).rev().collect();
        let stages = self.heading.stages;
        // One scale for all of them, so that they can be compared.
        let max = |of: &dyn Fn(&Epoch, Stage) -> f64| {
            let all = newest.iter().flat_map(|epoch| stages.iter().map(|stage| of(epoch, *stage)));
            all.fold(0.0, f64::max)
        };
        let workers = |epoch: &Epoch, stage: Stage| f64::from(epoch.concurrency[stage]);
        let rate = |epoch: &Epoch, stage: Stage| epoch.throughput_bps[stage].0 as f64;
        let (max_workers, max_rate) = (max(&workers), max(&rate));
        let rates = self.epochs.back().map_or(PerStage::all(BitRate::ZERO), |epoch| epoch.throughput_bps);
        let head = format!("  {:<10}{:<width$}{:>11}", "", "workers", "throughput", width = room + 6);
        let mut lines = vec![self.paint(DIM, &head)];
        for &stage in stages {
            let trend = |of: &dyn Fn(&Epoch, Stage) -> f64, max: f64| {
                let bars: String = newest.iter().map(|epoch| spark(of(epoch, stage), max)).collect();
                format!("{bars:<room$}")
            };
            lines.push(format!(
                "  {:<8}{:>4}  {}{:>13}  {}",
                stage.to_string(),
                self.setpoint[stage],
                self.paint(GREEN, &trend(&workers, max_workers)),
                rates[stage].to_string(),
                self.paint(DIM, &trend(&rate, max_rate)),
            ));
        }
        lines
    }

    fn staging(&self, free: Ends<ByteCount>, width: usize) -> String {
        let room = (width.saturating_sub(48) / 2).clamp(4, 16);
        let end = |name: &str, free: ByteCount| {
            let used = 1.0 - free.0 as f64 / self.heading.staging.0.max(1) as f64;
            let used = used.clamp(0.0, 1.0);
            format!("{name} {} {:>3.0} %", self.bar(used, room, YELLOW), used * 100.0)
        };
        let sender = self.heading.stages.contains(&Stage::Read).then(|| end("sender", free.sender));
        let receiver = self.heading.stages.contains(&Stage::Write).then(|| end("receiver", free.receiver));
        let ends: Vec<String> = sender.into_iter().chain(receiver).collect();
        format!("  staging       {}", ends.join("   "))
    }

    /// A bar of `width` characters, filled up to `share`, half a character exactly.
    fn bar(&self, share: f64, width: usize, colour: &str) -> String {
        let halves = (share.clamp(0.0, 1.0) * width as f64 * 2.0) as usize;
        let mut full = "━".repeat(halves / 2);
        if halves % 2 == 1 {
            full.push('╸');
        }
        let rest = "─".repeat(width - full.chars().count());
        format!("{}{}", self.paint(colour, &full), self.paint(DIM, &rest))
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        match self.heading.colour && !text.trim().is_empty() {
            true => format!("\x1b[{colour}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

/// A name in at most `max` characters; what is left out is its middle, since names differ at both ends.
fn shortened(name: &str, max: usize) -> String {
    let count = name.chars().count();
    if count <= max {
        return name.to_owned();
    }
    let head = (max - 1) / 2;
    let tail = max - 1 - head;
    name.chars().take(head).chain(['…']).chain(name.chars().skip(count - tail)).collect()
}

/// A bar one character wide, an eighth to eight eighths of `max` high.
fn spark(value: f64, max: f64) -> char {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let share = if max > 0.0 { value / max } else { 0.0 };
    LEVELS[((share * 8.0).ceil() as usize).clamp(1, 8) - 1]
}

/// So many seconds, as `9 s`, `1:15 min` or `2:01 h`.
pub fn clock(seconds: f64) -> String {
    let seconds = seconds.min(359_999.0).round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame_lines(width: usize, totals: Totals) -> Vec<String> {
        lines_of(&Stage::ALL, width, totals)
    }

    fn lines_of(stages: &'static [Stage], width: usize, totals: Totals) -> Vec<String> {
        let heading = Heading {
            title: "demo: 80 Mbit/s a reader, 160 Mbit/s a stream, 200 Mbit/s a writer".to_owned(),
            stages,
            staging: ByteCount::mib(16),
            colour: false,
        };
        let mut epochs = VecDeque::new();
        for i in 1..=MAX_TREND as u64 {
            epochs.push_back(Epoch {
                t_ms: i * 1000,
                interval_ms: 1000,
                concurrency: PerStage { read: 512, network: 7, write: 5 },
                setpoint: PerStage { read: 512, network: 7, write: 5 },
                throughput_bps: PerStage::all(BitRate::mbps(1010 * i)),
                staging_free_bytes: Ends { sender: ByteCount::mib(4), receiver: ByteCount(0) },
                staging_capacity_bytes: Ends { sender: ByteCount::mib(16), receiver: ByteCount::mib(16) },
                ..Epoch::default()
            });
        }
        let setpoint = PerStage { read: 512, network: 7, write: 5 };
        let rate = BitRate::mbps(942);
        let name = "a/long/directory/with/a/file/whose/name/has/no/end/SRR12345678_1.fastq.gz";
        let bar = |i| FileBar {
            name: format!("{i}{name}"),
            done: 1023 << 20,
            bytes: (i > 1).then_some(1_u64 << (30 + i)),
        };
        let files: Vec<FileBar> = (0..9_u32).map(bar).collect();
        let (heading, arrived) = (&heading, totals.arrival(0));
        Frame { heading, totals, arrived, rate, setpoint, epochs: &epochs, files: &files }.lines(width)
    }

    fn totals() -> Totals {
        Totals {
            bytes_listed: 2 << 30,
            bytes_moved: 1 << 30,
            bytes_skipped: 1023 << 20,
            files_listed: 123_456,
            files_done: 654,
            files_skipped: 12,
            listed: true,
            ..Totals::default()
        }
    }

    #[test]
    fn no_line_is_longer_than_the_terminal() {
        for width in [79, 100, 119, 160] {
            for line in frame_lines(width, totals()).iter().skip(1) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn a_download_shows_its_stages_and_files() {
        let lines = lines_of(&[Stage::Network, Stage::Write], 79, totals());
        let all = lines.join("\n");
        assert!(!all.contains("read ") && all.contains("network ") && all.contains("write "), "{all}");
        assert!(!all.contains("sender") && all.contains("receiver"), "{all}");
        assert!(all.contains("_1.fastq.gz  ") && all.contains("  - %  1023 MiB\n"), "{all}");
        assert!(all.contains(" 25 %  1023 MiB of 4 GiB\n"), "{all}");
        assert!(lines.last().expect("a line").contains("… and 1 more under way"), "{all}");
        assert_eq!(shortened("abcdefgh", 5), "ab…gh");
    }

    #[test]
    fn everything_is_only_there_when_the_last_file_is() {
        let almost = Totals { bytes_moved: 2 << 30, bytes_skipped: 0, ..totals() };
        assert!(frame_lines(79, almost)[1].contains(" 99 %"));
        let whole = Totals { files_listed: 666, ..almost };
        assert!(frame_lines(79, whole)[1].contains("100 %"));
        // Of files whose sizes nobody knows yet.
        let unknown = Totals { bytes_listed: 0, bytes_moved: 0, bytes_skipped: 0, ..totals() };
        for totals in [Totals::default(), unknown, Totals { bytes_moved: 5, ..unknown }] {
            let lines = frame_lines(79, totals);
            assert!(lines[1].contains("  - %") && !lines[2].contains("of 0 B"), "{lines:?}");
        }
    }

    #[test]
    fn trends_and_times_read_well() {
        assert_eq!([0.0, 1.0, 4.0, 8.0].map(|value| spark(value, 8.0)), ['▁', '▁', '▄', '█']);
        assert_eq!(spark(0.0, 0.0), '▁');
        assert_eq!(
            (clock(9.4), clock(75.0), clock(7300.0)),
            ("9 s".into(), "1:15 min".into(), "2:01 h".into())
        );
    }
}
