//! How much comes of URLs by so many connections, read and thrown away: the service samples servers so, by `tidegate run -`.

use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use tidegate_control::ByteCount;
use tidegate_fetch::list;
use tidegate_fetch::ranges::{MAX_FILES, RangeSettings, RangesEnd, Until, read};
use tidegate_fetch::record::Named;
use tidegate_fetch::remote::servers::{ServerSettings, Servers};
use tidegate_spec::measure::{RangesRun, Until as Enough};
use tidegate_transfer::error::Result;
use tidegate_transfer::throttle::Limits;
use url::Url;

use crate::exit::usage;
use crate::terminal;

/// Most connections.
const MAX_CONNECTIONS: u16 = 512;
/// How long a server may be silent.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct Report {
    /// All that came.
    bytes: ByteCount,
    /// From the first byte to the end.
    time_us: u64,
    /// What tells the rate, and the time that it took; none of either where it ended too soon.
    counted_bytes: ByteCount,
    counted_us: u64,
    /// How it ended: `enough`, `late` (its rate still rose) or `all` (nothing was left to read).
    end: &'static str,
}

/// Runs it.
pub fn run(asked: &RangesRun) -> anyhow::Result<ExitCode> {
    if !(1..=MAX_CONNECTIONS).contains(&asked.connections) {
        return Err(usage(format!("connections must be from 1 to {MAX_CONNECTIONS}")).into());
    }
    let ca = asked.setup.ca.clone();
    let settings = ServerSettings { ca, timeout: TIMEOUT, ..ServerSettings::from_env() };
    let servers = Servers::new(&settings);
    let settings = RangeSettings {
        files: files(&asked.urls, &servers)?,
        connections: asked.connections,
        until: match asked.until {
            Enough::Steady(time) => Until::Steady(time),
            Enough::Bytes(bytes) => Until::Bytes(bytes),
        },
        longest: asked.longest,
        piece: asked.piece,
        limits: Limits { network: asked.limit_network, link: asked.limit_link, ..Limits::default() },
    };
    let seen = read(&servers, &settings)?;
    let microseconds = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    terminal::print_json(&Report {
        bytes: seen.bytes,
        time_us: microseconds(seen.time),
        counted_bytes: seen.counted.iter().map(|piece| piece.bytes).sum(),
        counted_us: microseconds(seen.counted.iter().map(|piece| piece.time).sum()),
        end: match seen.end {
            RangesEnd::Enough => "enough",
            RangesEnd::Late => "late",
            RangesEnd::All => "all",
        },
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The first files of what is listed.
fn files(urls: &[String], servers: &Servers) -> Result<Vec<Url>> {
    let mut files = Vec::new();
    for url in urls {
        let url = list::url(url)?;
        match servers.list(&url) {
            None => files.push(url),
            Some(names) => {
                for named in names?.take(MAX_FILES) {
                    match named {
                        Named::Record(record) => files.extend(record.urls.into_iter().next()),
                        Named::Problem(_, error) => return Err(error),
                        Named::LeftOut(..) | Named::Note(_) => {}
                    }
                }
            }
        }
        if files.len() >= MAX_FILES {
            break;
        }
    }
    match files.is_empty() {
        true => Err(usage("nothing is listed")),
        false => Ok(files),
    }
}
