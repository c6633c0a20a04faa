//! `tidegate probe`: from memory to memory between two endpoints, or an endpoint and this host.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use tidegate_control::throughput_model::settled::{Piece, latest, rate};
use tidegate_control::{BitRate, ByteCount, Epoch};
use tidegate_spec::control::{ControlLocal, ControlSpec};
use tidegate_spec::measure::{ProbeRun, Until};
use tidegate_spec::plane::PlaneSpec;
use tidegate_spec::run::Run;
use tidegate_spec::setup::Setup;

use crate::sampler::ours::Program;
use crate::sampler::program::{Invocation, ProgramOutput};
use crate::sampler::{
    Amount, Failure, Measured, Measuring, RISING, SHORTEST_PIECE, STILL_ROSE, Sampler, SamplerError,
    SamplerKind,
};

/// Most workers of a stage anywhere in Tidegate.
pub(super) const MAX_STREAMS: u16 = 512;

/// A sample by bytes ends after so long, however much is left.
const LONGEST: Duration = Duration::from_secs(60);

/// One end of what is measured.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// This host.
    Here,
    /// An endpoint's address, ticket included.
    Endpoint(String),
}

impl End {
    /// The end that `address` stands for.
    pub fn of(address: &str) -> Self {
        match address.get(..5) {
            Some(scheme) if scheme.eq_ignore_ascii_case("tg://") => Self::Endpoint(address.to_owned()),
            _ => Self::Here,
        }
    }
}

/// Measures with `tidegate probe`.
pub(crate) struct Native {
    program: PathBuf,
    source: End,
    destination: End,
    plane: PlaneSpec,
    setup: Setup,
}

impl Native {
    /// Between two ends, by our own `program`, as the transfer to come is done.
    pub fn new(
        program: Program,
        source: End,
        destination: End,
        plane: PlaneSpec,
    ) -> Result<Self, SamplerError> {
        if source == End::Here && destination == End::Here {
            let why = "both ends are on this host: the native sampler measures against an endpoint, tg://…";
            return Err(SamplerError::new(Failure::Usage, why));
        }
        let Program { path: program, setup } = program;
        Ok(Self { program, source, destination, plane, setup })
    }

    fn command(&self, streams: u16, amount: Amount) -> Invocation {
        let (until, epoch, longest) = match amount {
            Amount::Time(time) => (Until::Steady(time), Amount::piece(time), RISING + time),
            // Nobody knows beforehand how long it takes.
            Amount::Bytes(bytes) => (Until::Bytes(bytes), SHORTEST_PIECE, LONGEST),
        };
        let address = |end: &End| match end {
            End::Here => None,
            End::Endpoint(address) => Some(address.clone()),
        };
        let control = ControlSpec {
            optimizer: format!("fixed:{streams}"),
            epoch: Some(epoch),
            ..ControlSpec::default()
        };
        let setup = Setup {
            json: true,
            control: ControlLocal { max_workers: streams, ..ControlLocal::default() },
            retry_for: Some(Duration::ZERO),
            ..self.setup.clone()
        };
        let run = ProbeRun {
            source: address(&self.source),
            destination: address(&self.destination),
            until,
            longest,
            control,
            plane: self.plane.clone(),
            setup,
        };
        Invocation::ours(&self.program, &Run::Probe(Box::new(run)))
    }
}

impl Sampler for Native {
    fn kind(&self) -> SamplerKind {
        SamplerKind::Native
    }

    fn measure(&mut self, streams: u16, amount: Amount) -> Measuring<'_> {
        Box::pin(async move {
            let amount = amount.checked()?;
            let mut said = String::new();
            let program = self.command(streams, amount);
            let ended = program
                .run(amount.limit(), |line, _| {
                    if !line.is_empty() {
                        line.clone_into(&mut said);
                    }
                })
                .await?;
            read(&ended, &said, streams, amount)
        })
    }
}

/// What `tidegate probe --json` prints; more may stand there.
#[derive(Deserialize)]
struct Report {
    duration_ms: u64,
    bytes: u64,
    steady: Option<SteadyRate>,
    epochs: Vec<Epoch>,
}

/// What was seen since the rate stopped rising.
#[derive(Deserialize)]
struct SteadyRate {
    throughput_bps: BitRate,
    duration_ms: u64,
}

/// Reads what a probe printed; `said` is the last line of its messages.
fn read(ended: &ProgramOutput, said: &str, streams: u16, amount: Amount) -> Result<Measured, SamplerError> {
    if !ended.status.success() {
        let said = said.trim_start_matches("tidegate: ");
        let why = if said.is_empty() { ended.how() } else { said.to_owned() };
        return Err(SamplerError::new(Failure::Failed, format!("tidegate probe: {why}")));
    }
    let garbage = |why: &str| SamplerError::new(Failure::Garbage, format!("tidegate probe printed {why}"));
    let report: Report = serde_json::from_slice(&ended.output)
        .map_err(|error| garbage(&format!("what cannot be read: {error}")))?;
    // With a ceiling of the endpoint's own fewer streams may run than were asked for.
    if let Some(other) = report.epochs.iter().find(|epoch| epoch.concurrency.network != streams) {
        let why = format!("epochs of {} streams, not {streams}", other.concurrency.network);
        return Err(garbage(&why));
    }
    let bytes = ByteCount(report.bytes);
    let told = |throughput, measured, note: Option<&str>| {
        Ok(Measured {
            streams,
            throughput,
            bytes,
            measured,
            spent: ended.spent,
            note: note.map(str::to_owned),
        })
    };
    if let Some(SteadyRate { throughput_bps, duration_ms }) = report.steady {
        return told(throughput_bps, Duration::from_millis(duration_ms), None);
    }
    let pieces: Vec<Piece> = report.epochs.iter().map(piece).collect();
    let (counted, note) = match amount {
        Amount::Time(time) => (latest(&pieces, time), Some(STILL_ROSE)),
        Amount::Bytes(_) => (pieces.get(1..).unwrap_or_default(), None),
    };
    let measured: Duration = counted.iter().map(|piece| piece.time).sum();
    if !measured.is_zero() {
        return told(rate(counted), measured, note);
    }
    let Amount::Bytes(_) = amount else {
        return Err(garbage("no epoch: nothing moved in time"));
    };
    let measured = Duration::from_millis(report.duration_ms.max(1));
    let note = "too short to tell connecting from moving: both are in the figure";
    told(BitRate::over(bytes, measured), measured, Some(note))
}

/// What moved in an epoch.
fn piece(epoch: &Epoch) -> Piece {
    let time = Duration::from_millis(epoch.interval_ms);
    let bytes = epoch.throughput_bps.network.bytes_per_second() * time.as_secs_f64();
    Piece { time, bytes: ByteCount(bytes.round() as u64) }
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

    /// A report as the program prints it, with epochs of these rates in Mbit/s.
    fn report(rates: &[u64], streams: u16) -> String {
        told(rates, streams, "")
    }

    fn told(rates: &[u64], streams: u16, steady: &str) -> String {
        let epochs: Vec<String> = rates
            .iter()
            .enumerate()
            .map(|(i, rate)| {
                let stages = format!(r#"{{"read":1,"network":{streams},"write":1}}"#);
                let bps = rate * 1_000_000;
                let ends = r#"{"sender":1,"receiver":1}"#;
                format!(
                    r#"{{"t_ms":{},"interval_ms":250,"concurrency":{stages},"setpoint":{stages},
                    "throughput_bps":{{"read":{bps},"network":{bps},"write":{bps}}},
                    "staging_free_bytes":{ends},"staging_capacity_bytes":{ends},
                    "loss":null,"rtt_us":40,"utility":null,"notice":null}}"#,
                    (i + 1) * 250
                )
            })
            .collect();
        format!(
            r#"{{"status":"complete","optimizer":"fixed:{streams}","duration_ms":1640,"bytes":12500000,
            "throughput_bps":1,{steady}"epochs":[{}]}}"#,
            epochs.join(",")
        )
    }

    const SECOND: Amount = Amount::Time(Duration::from_secs(1));

    #[test]
    fn what_it_calls_steady_is_what_counts() {
        let steady = r#""steady":{"throughput_bps":101000000,"duration_ms":1250},"#;
        let ended = ended(0, &told(&[5, 40, 90, 100, 110, 100, 101], 3, steady));
        let measured = read(&ended, "", 3, SECOND).expect("a sample");
        assert_eq!((measured.throughput, measured.streams), (BitRate::mbps(101), 3));
        assert_eq!((measured.measured, measured.bytes), (Duration::from_millis(1250), ByteCount(12_500_000)));
        assert_eq!(measured.note, None);
    }

    #[test]
    fn of_a_rate_that_still_rises_the_end_counts_and_it_is_said() {
        let measured =
            read(&ended(0, &report(&[5, 10, 20, 40, 80, 160], 3)), "", 3, SECOND).expect("a sample");
        assert_eq!((measured.throughput, measured.measured), (BitRate::mbps(75), Duration::from_secs(1)));
        assert!(measured.note.expect("a note").contains("still rose"));
        // All of it, where there is less than was asked for.
        let measured = read(&ended(0, &report(&[10, 30], 3)), "", 3, SECOND).expect("a sample");
        assert_eq!((measured.throughput, measured.measured), (BitRate::mbps(20), Duration::from_millis(500)));
    }

    #[test]
    fn an_amount_that_was_too_short_says_so() {
        let amount = Amount::Bytes(ByteCount(12_500_000));
        let measured = read(&ended(0, &report(&[50], 1)), "", 1, amount).expect("a sample");
        assert!(measured.note.is_some() && measured.throughput < BitRate::mbps(62), "{measured:?}");
        assert!(read(&ended(0, &report(&[], 1)), "", 1, SECOND).is_err());
    }

    #[test]
    fn failures_and_garbage_are_one_line() {
        let said = "tidegate: cannot reach tg://…@dtn:7117/: Connection refused";
        let error = read(&ended(1, r#"{"status":"failed"}"#), said, 1, SECOND).expect_err("it failed");
        assert_eq!(error.to_string(), "tidegate probe: cannot reach tg://dtn:7117/: Connection refused");
        let whole = report(&[1, 2, 3, 4, 5, 6], 4);
        for output in
            ["", "{", "[]", "null", "{\"epochs\":[]}", &whole[..whole.len() / 2], &format!("{whole}x")]
        {
            let error = read(&ended(0, output), "", 4, SECOND).expect_err(output);
            assert_eq!(error.failure, Failure::Garbage);
            assert_eq!(error.to_string().lines().count(), 1);
        }
        let error = read(&ended(0, &whole), "", 8, SECOND).expect_err("other streams");
        assert!(error.to_string().contains("4 streams, not 8"), "{error}");
    }

    #[test]
    fn no_ticket_stands_on_a_command_line() {
        let at = |secret: &str| End::of(&format!("tg://{secret}@host:1/x"));
        let ours = || Program { path: "tidegate".into(), setup: Setup::default() };
        let plane = PlaneSpec { limit_link: Some(BitRate::mbps(80)), ..PlaneSpec::default() };
        let native = Native::new(ours(), at("AAAA"), at("BBBB"), plane).expect("two ends").command(2, SECOND);
        let text = format!("{native:?}");
        assert!(
            text.contains("\"run\", \"-\"") && !text.contains("AAAA") && !text.contains("BBBB"),
            "{text}"
        );
        let Ok(Run::Probe(run)) = serde_json::from_str(&native.told()) else { panic!("no probe") };
        assert_eq!(run.source.as_deref(), Some("tg://AAAA@host:1/x"));
        assert_eq!((run.plane.limit_link, run.setup.control.max_workers), (Some(BitRate::mbps(80)), 2));
        assert_eq!((&*run.control.optimizer, run.until), ("fixed:2", Until::Steady(Duration::from_secs(1))));
        assert!(Native::new(ours(), End::of("/a"), End::of("b"), PlaneSpec::default()).is_err());
    }
}
