//! The live view on a terminal: a bar with rate and ETA, the three concurrencies, and how full the
//! staging is at both ends.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tidegate_control::{BitRate, ByteCount, Concurrency, Epoch, PerStage, Stage};
use tidegate_transfer::ledger::Ledger;

/// How often the view is drawn.
const FRAME: Duration = Duration::from_millis(100);

/// Weight of the newest tenth of a second in the rate that the ETA is based on.
const WEIGHT: f64 = 0.05;

/// What is shown while a job runs.
pub struct View {
    lines: Option<Lines>,
}

#[derive(Clone)]
struct Lines {
    all: MultiProgress,
    bar: ProgressBar,
    workers: ProgressBar,
    staging: ProgressBar,
}

/// Shows one try of a transfer until dropped.
pub struct Watching {
    state: Option<(Arc<Shown>, JoinHandle<()>)>,
}

struct Shown {
    epoch: Mutex<(Concurrency, Option<Epoch>, u64)>,
    over: AtomicBool,
}

impl View {
    /// A view headed with `title`, or none at all.
    pub fn new(title: &str, visible: bool) -> Self {
        if !visible {
            return Self { lines: None };
        }
        let all = MultiProgress::new();
        let line = |template: &str| {
            let style =
                ProgressStyle::with_template(template).expect("a template").progress_chars("█▉▊▋▌▍▎▏ ");
            all.add(ProgressBar::new(0).with_style(style))
        };
        let heading = line("{msg}");
        heading.set_message(title.to_owned());
        heading.tick();
        let bar = line("  {bar:32.cyan/black} {percent:>3} %  {msg}");
        let workers = line("  {msg}");
        let staging = line("  {msg}");
        Self { lines: Some(Lines { all, bar, workers, staging }) }
    }

    /// Follows `ledger` until the answer is dropped.
    pub fn watch(&self, ledger: Arc<Ledger>, start: Concurrency) -> Watching {
        let Some(lines) = self.lines.clone() else { return Watching { state: None } };
        let shown = Arc::new(Shown { epoch: Mutex::new((start, None, 0)), over: AtomicBool::new(false) });
        let theirs = Arc::clone(&shown);
        let draw = move || {
            let mut meter = Meter::new(ledger.totals().bytes_moved);
            while !theirs.over.load(Relaxed) {
                lines.draw(&ledger, &theirs, &mut meter);
                thread::sleep(FRAME);
            }
            lines.draw(&ledger, &theirs, &mut meter);
        };
        Watching { state: Some((shown, thread::spawn(draw))) }
    }

    /// Takes the view off the screen.
    pub fn finish(&self) {
        if let Some(lines) = &self.lines {
            let _ = lines.all.clear();
        }
    }
}

impl Watching {
    /// Shows a new epoch.
    pub fn show(&self, epoch: &Epoch) {
        if let Some((shown, _)) = &self.state {
            *shown.epoch.lock().expect("not poisoned") = (epoch.setpoint, Some(epoch.clone()), 0);
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some((shown, thread)) = self.state.take() {
            shown.over.store(true, Relaxed);
            let _ = thread.join();
        }
    }
}

/// A smoothed rate.
struct Meter {
    at: Instant,
    bytes: u64,
    rate: Option<f64>,
}

impl Meter {
    fn new(bytes: u64) -> Self {
        Self { at: Instant::now(), bytes, rate: None }
    }

    /// Bytes a second, after `bytes` in all.
    fn update(&mut self, bytes: u64) -> f64 {
        let now = Instant::now();
        let seconds = now.duration_since(self.at).as_secs_f64();
        if seconds > 0.01 {
            let fresh = bytes.saturating_sub(self.bytes) as f64 / seconds;
            // A plain mean at first, so that the first seconds are not held against the rest.
            self.rate = Some(self.rate.map_or(fresh, |old| old + WEIGHT * (fresh - old)));
            (self.at, self.bytes) = (now, bytes);
        }
        self.rate.unwrap_or(0.0)
    }
}

impl Lines {
    fn draw(&self, ledger: &Ledger, shown: &Shown, meter: &mut Meter) {
        let totals = ledger.totals();
        let rate = meter.update(totals.bytes_moved);
        let skipped = totals.bytes_skipped;
        let fresh = totals.bytes_listed.saturating_sub(skipped);
        // What is moved but not yet committed counts too, as long as it is not more than there is.
        let moved = totals.bytes_moved.saturating_sub(totals.bytes_again).max(totals.bytes_done).min(fresh);
        self.bar.set_length(totals.bytes_listed.max(1));
        self.bar.set_position(skipped + moved);
        let files = totals.files_done + totals.files_skipped + totals.files_failed;
        let more = if totals.listed { "" } else { "+" };
        let eta = if rate > 1.0 && totals.listed {
            format!("  ETA {}", clock((fresh - moved) as f64 / rate))
        } else {
            String::new()
        };
        self.bar.set_message(format!(
            "{} of {}{more}  {}/{}{more} files  {}{eta}",
            ByteCount(skipped + moved),
            ByteCount(totals.bytes_listed),
            files,
            totals.files_listed,
            BitRate::from_bps(rate * 8.0),
        ));
        let (setpoint, epoch, _) = &*shown.epoch.lock().expect("not poisoned");
        let rates = epoch.as_ref().map_or(PerStage::all(BitRate::ZERO), |epoch| epoch.throughput_bps);
        let stage = |stage: Stage| format!("{stage} {:>2} × {:<11}", setpoint[stage], rates[stage]);
        self.workers.set_message(format!(
            "{}  {}  {}",
            stage(Stage::Read),
            stage(Stage::Network),
            stage(Stage::Write)
        ));
        if let Some(epoch) = epoch {
            let free = epoch.staging_free_bytes;
            self.staging
                .set_message(format!("staging free: sender {}, receiver {}", free.sender, free.receiver));
        }
    }
}

fn clock(seconds: f64) -> String {
    let seconds = seconds.min(359_999.0).round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds / 60 % 60),
    }
}
