//! The run `ranges`: what others' servers give by so many connections, of the very files that are to be got. A few ranges
//! of them are read and thrown away.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use tidegate_control::{BitRate, ByteCount};
use tidegate_fetch::host::ceilings::Ceilings;
use tidegate_spec::address;
use tidegate_spec::measure::{RangesRun, Until};
use tidegate_spec::pair::Site;
use tidegate_spec::run::Run;
use tidegate_spec::setup::Setup;
use tidegate_transfer::throttle::Limits;

use crate::sampler::ours::Program;
use crate::sampler::program::{Invocation, ProgramOutput};
use crate::sampler::{
    Amount, Failure, Measured, Measuring, RISING, SHORTEST_PIECE, STILL_ROSE, Sampler, SamplerError,
    SamplerKind,
};

/// Most connections to a server of which nothing is known; to public ones no more than they bear.
pub(super) const MAX_STREAMS: u16 = 64;

/// A sample by bytes ends after so long, however much is left.
const LONGEST: Duration = Duration::from_secs(60);

/// What is said of a sample that had no more to read.
const ALL_READ: &str = "all there is was read before its rate was steady";

/// Measures with the run `ranges`.
pub(crate) struct Ranges {
    program: PathBuf,
    urls: Vec<String>,
    limits: Limits,
    setup: Setup,
    most: u16,
}

impl Ranges {
    /// What comes here of files at `urls`, by our own `program` within the rates of `limits`.
    pub fn new(
        program: Program,
        urls: Vec<String>,
        destination: &str,
        limits: Limits,
    ) -> Result<Self, SamplerError> {
        let usage = |why: &str| Err(SamplerError::new(Failure::Usage, why));
        let known = |url: &String| address::End::is_of_server(url) && !url.contains(['\n', '\r']);
        if urls.is_empty() || !urls.iter().all(known) {
            return usage("the ranges sampler reads files of http(s)://, s3://, gs:// and ftp(s):// servers");
        }
        if !matches!(address::End::of(destination), Ok(address::End::Local | address::End::Archive)) {
            return usage("the ranges sampler measures to this host: the destination is to be a path");
        }
        let ceilings = Ceilings::default();
        let bears = |url: &String| {
            let site = Site::of(url).ok()?;
            Some(ceilings.of(site.public_server()?))
        };
        let most = urls.iter().filter_map(bears).min().map_or(MAX_STREAMS, |most| most.min(MAX_STREAMS));
        let Program { path: program, setup } = program;
        Ok(Self { program, urls, limits, setup, most })
    }

    fn command(&self, streams: u16, amount: Amount) -> Invocation {
        let (until, piece, longest) = match amount {
            Amount::Time(time) => (Until::Steady(time), Amount::piece(time), RISING + time),
            Amount::Bytes(bytes) => (Until::Bytes(bytes), SHORTEST_PIECE, LONGEST),
        };
        let run = RangesRun {
            urls: self.urls.clone(),
            connections: streams,
            until,
            longest,
            piece,
            limit_network: self.limits.network,
            limit_link: self.limits.link,
            setup: self.setup.clone(),
        };
        Invocation::ours(&self.program, &Run::Ranges(Box::new(run)))
    }
}

impl Sampler for Ranges {
    fn kind(&self) -> SamplerKind {
        SamplerKind::Ranges
    }

    fn max_streams(&self) -> u16 {
        self.most
    }

    fn measure(&mut self, streams: u16, amount: Amount) -> Measuring<'_> {
        Box::pin(async move {
            let amount = amount.checked()?;
            let mut said = String::new();
            let heard = |line: &str, _| {
                if !line.is_empty() {
                    line.clone_into(&mut said);
                }
            };
            let ended = self.command(streams, amount).run(amount.limit(), heard).await?;
            read(&ended, &said, streams)
        })
    }
}

/// What that prints.
#[derive(Deserialize)]
struct Report {
    bytes: ByteCount,
    time_us: u64,
    counted_bytes: ByteCount,
    counted_us: u64,
    end: End,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    Enough,
    Late,
    All,
}

/// Reads what it printed; `said` is the last line of its messages.
fn read(ended: &ProgramOutput, said: &str, streams: u16) -> Result<Measured, SamplerError> {
    if !ended.status.success() {
        let said = said.trim_start_matches("tidegate: ");
        let why = if said.is_empty() { format!("tidegate ranges: {}", ended.how()) } else { said.to_owned() };
        return Err(SamplerError::new(Failure::Failed, why));
    }
    let report: Report = serde_json::from_slice(&ended.output).map_err(|error| {
        SamplerError::new(Failure::Garbage, format!("tidegate ranges printed what cannot be read: {error}"))
    })?;
    let (bytes, time) = match report.counted_us {
        0 => (report.bytes, report.time_us.max(1)),
        time => (report.counted_bytes, time),
    };
    let measured = Duration::from_micros(time);
    let note = match report.end {
        End::Enough => None,
        End::Late => Some(STILL_ROSE),
        End::All => Some(ALL_READ),
    };
    Ok(Measured {
        streams,
        throughput: BitRate::over(bytes, measured),
        bytes: report.bytes,
        measured,
        spent: ended.spent,
        note: note.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;

    fn ended(code: i32, output: &str) -> ProgramOutput {
        let status = ExitStatus::from_raw(code << 8);
        ProgramOutput { status, output: output.as_bytes().to_vec(), spent: Duration::from_secs(2) }
    }

    fn of(urls: &[&str], destination: &str) -> Result<Ranges, SamplerError> {
        let urls = urls.iter().map(|url| (*url).to_owned()).collect();
        let setup = Setup { ca: Some("/ca.pem".into()), ..Setup::default() };
        let limits = Limits { link: Some(BitRate::mbps(80)), ..Limits::default() };
        Ranges::new(Program { path: "tidegate".into(), setup }, urls, destination, limits)
    }

    #[test]
    fn servers_are_asked_for_no_more_connections_than_they_bear() {
        let most = |urls: &[&str]| of(urls, "/data").map(|ranges| ranges.max_streams()).ok();
        assert_eq!(most(&["https://ftp.sra.ebi.ac.uk/vol1/x"]), Some(8));
        assert_eq!(most(&["http://h/x", "ftp://ftp.sra.ebi.ac.uk/x"]), Some(8));
        assert_eq!(most(&["http://h:8080/x"]), Some(32));
        assert_eq!(most(&["S3://bucket/key"]), Some(MAX_STREAMS));
        for (urls, destination) in [
            (&["tg://T@h/x"][..], "/data"),
            (&["/a"], "/data"),
            (&[], "/data"),
            (&["http://h/x", "/a"], "/data"),
            (&["http://h/x\nftp://other/"], "/data"),
            (&["http://h/x"], "tg://T@h/"),
        ] {
            assert_eq!(
                of(urls, destination).err().map(|error| error.failure),
                Some(Failure::Usage),
                "{urls:?}"
            );
        }
    }

    #[test]
    fn no_address_stands_on_a_command_line() {
        let ranges = of(&["https://u:SECRET@h/x", "s3://b/k"], "file:///data").expect("servers");
        let command = ranges.command(4, Amount::Time(Duration::from_secs(1)));
        let text = format!("{command:?}");
        assert!(text.contains("\"run\", \"-\"") && !text.contains("SECRET"), "{text}");
        let Ok(Run::Ranges(run)) = serde_json::from_str(&command.told()) else { panic!("no ranges") };
        assert_eq!(run.urls, ["https://u:SECRET@h/x", "s3://b/k"]);
        assert_eq!((run.connections, run.until), (4, Until::Steady(Duration::from_secs(1))));
        assert_eq!((run.limit_link, run.setup.ca), (Some(BitRate::mbps(80)), Some("/ca.pem".into())));
    }

    #[test]
    fn what_it_printed_is_a_sample_or_a_line() {
        let report = |counted: u64, end: &str| {
            let json = serde_json::json!({
                "bytes": 9_000_000, "time_us": 2_000_000, "counted_bytes": counted * 5, "counted_us": counted, "end": end,
            });
            read(&ended(0, &json.to_string()), "", 4)
        };
        let measured = report(500_000, "enough").expect("a sample");
        assert_eq!((measured.throughput, measured.bytes), (BitRate::mbps(40), ByteCount(9_000_000)));
        assert_eq!((measured.streams, measured.note), (4, None));
        assert!(report(500_000, "late").expect("a sample").note.is_some_and(|note| note.contains("rose")));
        let all = report(0, "all").expect("a sample");
        assert_eq!((all.throughput, all.note.is_some()), (BitRate::mbps(36), true));
        let garbage = report(1, "else").expect_err("no such end");
        assert_eq!(garbage.failure, Failure::Garbage);
        let failed =
            read(&ended(3, ""), "tidegate: http://u:p@h/x: 404 Not Found", 4).expect_err("it failed");
        assert_eq!(
            (failed.failure, failed.to_string().as_str()),
            (Failure::Failed, "http://h/x: 404 Not Found")
        );
    }
}
