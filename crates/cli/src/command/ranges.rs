//! `tidegate ranges`: how much comes of URLs by so many connections, read and thrown away. The service samples servers so.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tidegate_control::units::parse_duration;
use tidegate_control::{BitRate, ByteCount};
use tidegate_fetch::list;
use tidegate_fetch::ranges::{MAX_FILES, RangeSettings, RangesEnd, Until, read};
use tidegate_fetch::record::Named;
use tidegate_fetch::remote::servers::{ServerSettings, Servers};
use tidegate_transfer::error::Result;
use tidegate_transfer::throttle::Limits;
use url::Url;

use crate::exit::usage;
use crate::terminal;

/// Most bytes of the list.
const MAX_LIST: u64 = 1 << 20;
/// How long a server may be silent.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Tell how fast what standard input lists comes by so many connections
#[derive(Debug, Args)]
pub struct RangesArgs {
    /// How many connections
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    connections: u16,
    /// End as soon as the rate has stopped rising and was seen for so long
    #[arg(long, value_name = "TIME", value_parser = parse_duration, required_unless_present = "bytes")]
    steady: Option<Duration>,
    /// End after so much instead
    #[arg(long, value_name = "SIZE", conflicts_with = "steady")]
    bytes: Option<ByteCount>,
    /// The most that this may take
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    time: Duration,
    /// How long each piece is in which the rate is seen
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    piece: Duration,
    /// Rate of each connection
    #[arg(long, value_name = "RATE")]
    limit_network: Option<BitRate>,
    /// Rate of all connections together
    #[arg(long, value_name = "RATE")]
    limit_link: Option<BitRate>,
    /// Certificates (PEM) to trust besides the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

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

/// Runs the command.
pub fn run(args: &RangesArgs) -> anyhow::Result<ExitCode> {
    let mut list = String::new();
    std::io::stdin().lock().take(MAX_LIST).read_to_string(&mut list)?;
    let settings = ServerSettings { ca: args.ca.clone(), timeout: TIMEOUT, ..ServerSettings::from_env() };
    let servers = Servers::new(&settings);
    let settings = RangeSettings {
        files: files(&list, &servers)?,
        connections: args.connections,
        until: args.bytes.map_or_else(|| Until::Steady(args.steady.unwrap_or_default()), Until::Bytes),
        longest: args.time,
        piece: args.piece,
        limits: Limits { network: args.limit_network, link: args.limit_link, ..Limits::default() },
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
fn files(list: &str, servers: &Servers) -> Result<Vec<Url>> {
    let mut files = Vec::new();
    for line in list.lines() {
        let url = list::url(line)?;
        match servers.list(&url) {
            None => files.push(url),
            Some(names) => {
                for named in names?.take(MAX_FILES) {
                    match named {
                        Named::Record(record) => files.extend(record.urls.into_iter().next()),
                        Named::Problem(_, error) => return Err(error),
                        Named::Note(_) => {}
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
