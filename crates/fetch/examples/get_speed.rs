//! How fast the pipeline of `tidegate get` is when servers and network cost nothing: files made of memory,
//! through connections, staging, writers and checksums, into a directory.
//!
//! ```text
//! cargo run --release -p tidegate-fetch --example get_speed -- DIRECTORY FILES BYTES CONNECTIONS [md5]
//! ```

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_control::{Concurrency, Environment};
use tidegate_fetch::checksum::Algorithm;
use tidegate_fetch::get::{Download, DownloadEvent, DownloadSettings};
use tidegate_fetch::host::ceilings::Ceilings;
use tidegate_fetch::record::{Named, Record};
use tidegate_fetch::remote::{Ask, Opened, Refusal, Remote, Remotes, Version};
use tidegate_transfer::path::RelPath;
use tidegate_transfer::transfer::Pace;
use url::Url;

/// Files of one size.
#[derive(Clone, Copy)]
struct Same(u64);

struct Body(u64);

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.0.min(buffer.len() as u64) as usize;
        buffer[..length].fill(7);
        self.0 -= length as u64;
        Ok(length)
    }
}

impl Same {
    fn version(self) -> Version {
        Version { bytes: Some(self.0), tag: Some("one".to_owned()), ranges: true, ..Version::default() }
    }
}

impl Remote for Same {
    fn open(&mut self, ask: &Ask<'_>) -> Result<Opened, Refusal> {
        let range = ask.range.start..ask.range.end.min(self.0);
        let body = Box::new(Body(range.end - range.start));
        Ok(Opened { version: self.version(), range, body })
    }

    fn look(&mut self, _: &Ask<'_>) -> Result<Version, Refusal> {
        Ok(self.version())
    }
}

impl Remotes for Same {
    fn remote(&self) -> Box<dyn Remote> {
        Box::new(*self)
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse::<u64>().ok());
    let (Some(directory), Some(files), Some(bytes), Some(connections)) =
        (arguments.first(), number(1), number(2), number(3))
    else {
        eprintln!("DIRECTORY FILES BYTES CONNECTIONS [md5]");
        std::process::exit(2);
    };
    let extra: Vec<Algorithm> = arguments.get(4).and_then(|name| name.parse().ok()).into_iter().collect();
    let settings = DownloadSettings {
        ceilings: Ceilings::all(64),
        retries: 0,
        retry_for: Duration::ZERO,
        extra,
        pace: Pace::new(Duration::from_millis(200)),
        ..DownloadSettings::new(directory.as_bytes()).expect("the directory can be opened")
    };
    let names = (0..files).map(|i| {
        let url = Url::parse(&format!("http://h/{i}")).expect("a URL");
        let path = RelPath::new(format!("{i}")).expect("a name");
        Named::Record(Box::new(Record::new(url, path)))
    });
    let tell = |event: DownloadEvent<'_>| {
        if let DownloadEvent::Failed { error, .. } = event {
            eprintln!("{error}");
        }
    };
    let begun = Instant::now();
    let mut download = Download::start(Box::new(names), Arc::new(Same(bytes)), settings, Box::new(tell))
        .expect("the download begins");
    let setpoint = Concurrency { read: 1, network: connections as u16, write: connections as u16 };
    while let Some(seen) = download.step(setpoint).expect("no error") {
        eprintln!("{:?} network {} write {}", seen.at, seen.throughput.network, seen.throughput.write);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let total = (files * bytes) as f64 * 8.0 / 1e9;
    let peak = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = peak.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default().trim();
    println!(
        "{:.2} Gbit/s, {seconds:.2} s, {:.0} files/s, {peak} at most",
        total / seconds,
        files as f64 / seconds
    );
}
