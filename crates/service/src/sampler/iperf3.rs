//! `iperf3` against a server that runs at the other site, or that an endpoint there starts for each sample; or run by one
//! endpoint against another.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use tidegate_control::{BitRate, ByteCount};
use tidegate_spec::measure::{Iperf3Between, Iperf3By, Iperf3For, Iperf3Run};
use tidegate_spec::run::Run;

use crate::sampler::omitted::Start;
use crate::sampler::ours::Program;
use crate::sampler::program::{Invocation, ProgramOutput};
use crate::sampler::{Amount, Failure, Measured, Measuring, STILL_ROSE, Sampler, SamplerError, SamplerKind};

/// Most streams that iperf3 opens.
pub(super) const MAX_STREAMS: u16 = 128;

/// How long connecting may take.
const CONNECTING: Duration = Duration::from_secs(10);

/// A server serves one at a time and needs a moment after each: so often and so long it is waited for.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(500);

/// What it says while it serves another, and an endpoint that runs as many as it may.
const BUSY: [&str; 3] = ["the server is busy", "iperf3 servers run already", "iperf3 tests run already"];

/// What it says between two clients of a server that is started anew for each; of a server that is not there it
/// says the same, and so it is believed sooner.
const REFUSED: &str = "Connection refused";
const REFUSALS: u32 = 3;

/// A server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    host: String,
    port: u16,
}

/// An endpoint that starts a server for each sample: the EOS paper's TranServer.
#[derive(Clone)]
pub struct Helper {
    /// Our own program, which asks it.
    pub program: Program,
    /// Its address, ticket included.
    pub endpoint: String,
}

/// Without the ticket.
impl fmt::Debug for Helper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Helper").field("program", &self.program.path).finish_non_exhaustive()
    }
}

/// The other side.
#[derive(Clone, Debug)]
pub enum Other {
    /// A server that runs.
    Server(Server),
    /// An endpoint that starts one.
    Helper(Helper),
    /// An endpoint that measures to another one, whose address this is, ticket included.
    Between(Helper, Endpoint),
}

/// An endpoint's address, ticket included.
#[derive(Clone)]
pub struct Endpoint(pub String);

/// Without the ticket.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Endpoint(…)")
    }
}

impl Server {
    /// Reads `host`, `host:port` or `[address]:port`; the port is 5201 if none is given.
    pub fn parse(text: &str) -> Result<Self, SamplerError> {
        let wrong = || {
            let why = format!("'{}' is no iperf3 server: write HOST or HOST:PORT", text.escape_debug());
            SamplerError::new(Failure::Usage, why)
        };
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
                (host, if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or_else(wrong)?) })
            }
            // A bare IPv6 address has several colons.
            None if text.matches(':').count() > 1 => (text, None),
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
        if host.is_empty() || host.len() > 255 || host.starts_with('-') || !host.chars().all(legal) {
            return Err(wrong());
        }
        let port = port.map_or(Ok(5201), |port| port.parse().map_err(|_| wrong()))?;
        Ok(Self { host: host.to_owned(), port })
    }
}

/// Measures with `iperf3`.
#[derive(Clone, Debug)]
pub struct Iperf3 {
    other: Other,
    reverse: bool,
    buffer: Option<ByteCount>,
    start: Start,
}

impl Iperf3 {
    /// From here to the `other` side, or with `reverse` the other way; `buffer` is that of each socket.
    pub const fn new(other: Other, reverse: bool, buffer: Option<ByteCount>) -> Self {
        Self { other, reverse, buffer, start: Start::NOTHING }
    }

    /// A sample whose `start` does not count.
    fn command(&self, streams: u16, amount: Amount, start: Duration) -> Invocation {
        let asks = |Helper { program, endpoint }: &Helper, by| {
            let limit = Duration::from_secs((start + amount.limit()).as_secs());
            let (endpoint, setup) = (endpoint.clone(), program.setup.clone());
            let run = Iperf3Run { endpoint, limit, by, setup };
            Invocation::ours(&program.path, &Run::Iperf3(Box::new(run)))
        };
        match &self.other {
            Other::Server(Server { host, port }) => {
                let mut program = Invocation::new("iperf3", "iperf3");
                program.args(["-c", host, "-p", &port.to_string()]);
                program.args(self.arguments(streams, amount, start));
                program
            }
            Other::Helper(helper) => asks(helper, Iperf3By::Us(self.arguments(streams, amount, start))),
            Other::Between(helper, Endpoint(to)) => {
                let test = Iperf3Between {
                    to: to.clone(),
                    reverse: self.reverse,
                    streams,
                    amount: match amount {
                        Amount::Time(time) => Iperf3For::Time(time),
                        Amount::Bytes(bytes) => Iperf3For::Bytes(bytes),
                    },
                    omit: Some(start).filter(|start| !start.is_zero()),
                    buffer: self.buffer,
                };
                asks(helper, Iperf3By::Endpoint(test))
            }
        }
    }

    /// What iperf3 itself is told beside the server.
    fn arguments(&self, streams: u16, amount: Amount, start: Duration) -> Vec<String> {
        let mut arguments = vec!["-J".to_owned()];
        let mut say = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
        say("-i", "0".to_owned());
        say("-P", streams.to_string());
        say("--connect-timeout", CONNECTING.as_millis().to_string());
        match amount {
            // It knows whole seconds only.
            Amount::Time(time) => say("-t", time.as_secs_f64().ceil().to_string()),
            Amount::Bytes(bytes) => say("-n", bytes.0.to_string()),
        }
        if !start.is_zero() {
            say("-O", start.as_secs().to_string());
        }
        if let Some(buffer) = self.buffer {
            say("-w", buffer.0.to_string());
        }
        arguments.extend(self.reverse.then(|| "-R".to_owned()));
        arguments
    }
}

impl Iperf3 {
    async fn once(&self, streams: u16, amount: Amount, start: Duration) -> Result<Sampled, SamplerError> {
        let mut tries = 0;
        loop {
            let mut said = String::new();
            let program = self.command(streams, amount, start);
            let ended = program
                .run(start + amount.limit(), |line, _| {
                    if said.is_empty() {
                        line.clone_into(&mut said);
                    }
                })
                .await?;
            tries += 1;
            let result = read(&ended, &said, streams).map(|sampled| sampled.with(start));
            let says = |words: &str| matches!(&result, Err(error) if error.to_string().contains(words));
            if !(BUSY.into_iter().any(says) && tries < TRIES || says(REFUSED) && tries < REFUSALS) {
                return result;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn sample(&mut self, streams: u16, amount: Amount) -> Result<Measured, SamplerError> {
        let amount = amount.checked()?;
        let Amount::Time(time) = amount else {
            return self.once(streams, amount, Duration::ZERO).await.map(|sampled| sampled.measured);
        };
        let (mut bytes, mut spent) = (ByteCount(0), Duration::ZERO);
        loop {
            let Sampled { measured, round_trip } = self.once(streams, amount, self.start.omitted).await?;
            bytes += measured.bytes;
            spent += measured.spent;
            if !self.start.again(measured.throughput, round_trip, time) {
                let note = self.start.rose.then(|| STILL_ROSE.to_owned());
                return Ok(Measured { bytes, spent, note, ..measured });
            }
        }
    }
}

impl Sampler for Iperf3 {
    fn kind(&self) -> SamplerKind {
        SamplerKind::Iperf3
    }

    fn measure(&mut self, streams: u16, amount: Amount) -> Measuring<'_> {
        Box::pin(self.sample(streams, amount))
    }
}

/// What one test showed.
#[derive(Debug)]
struct Sampled {
    measured: Measured,
    /// The shortest round trip, if this host's kernel sent.
    round_trip: Option<Duration>,
}

impl Sampled {
    /// Its report does not count what was moved in the `start`.
    fn with(self, start: Duration) -> Self {
        let more = start.as_secs_f64() / self.measured.measured.as_secs_f64().max(1e-3);
        let bytes = ByteCount((self.measured.bytes.0 as f64 * (1.0 + more)) as u64);
        Self { measured: Measured { bytes, ..self.measured }, ..self }
    }
}

/// What `iperf3 -J` prints; more stands there.
#[derive(Deserialize)]
struct Report {
    end: End,
    error: Option<String>,
}

#[derive(Deserialize)]
struct End {
    #[serde(default)]
    streams: Vec<Stream>,
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
}

#[derive(Default, Deserialize)]
struct Stream {
    #[serde(default)]
    sender: Sender,
}

#[derive(Default, Deserialize)]
struct Sender {
    /// In µs; 0 where it does not know.
    #[serde(default)]
    min_rtt: u64,
}

#[derive(Deserialize)]
struct Sum {
    seconds: f64,
    bytes: u64,
}

/// Reads what iperf3 printed; `said` is the first line of its messages.
fn read(ended: &ProgramOutput, said: &str, streams: u16) -> Result<Sampled, SamplerError> {
    let failed = |why: &str| {
        let why = why
            .trim_start_matches("tidegate: ")
            .trim_start_matches("iperf3: ")
            .trim_start_matches("error - ");
        SamplerError::new(Failure::Failed, format!("iperf3: {why}"))
    };
    let report: Report = match serde_json::from_slice(&ended.output) {
        Ok(report) => report,
        // Wrong arguments are told in words, whatever was asked for.
        Err(_) if !ended.status.success() && !said.is_empty() => return Err(failed(said)),
        Err(error) => {
            let why = format!("iperf3 printed what cannot be read ({}): {error}", ended.how());
            return Err(SamplerError::new(Failure::Garbage, why));
        }
    };
    // It ends with status 0 all the same.
    if let Some(error) = &report.error {
        return Err(failed(error));
    }
    let garbage = |why: &str| SamplerError::new(Failure::Garbage, format!("iperf3 printed {why}"));
    let (Some(sent), Some(received)) = (&report.end.sum_sent, &report.end.sum_received) else {
        return Err(garbage("no sums of what was sent and received"));
    };
    if report.end.streams.len() != usize::from(streams) {
        return Err(garbage(&format!("{} streams, not {streams}", report.end.streams.len())));
    }
    let measured = Duration::try_from_secs_f64(received.seconds).unwrap_or_default();
    if measured.is_zero() {
        return Err(garbage("a test that took no time"));
    }
    let round_trip =
        report.end.streams.iter().map(|stream| stream.sender.min_rtt).filter(|rtt| *rtt > 0).min();
    let measured = Measured {
        streams,
        // What has arrived: what was sent may still be in buffers.
        throughput: BitRate::over(ByteCount(received.bytes), measured),
        bytes: ByteCount(sent.bytes.max(received.bytes)),
        measured,
        spent: ended.spent,
        note: None,
    };
    Ok(Sampled { measured, round_trip: round_trip.map(Duration::from_micros) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;
    use tidegate_spec::setup::Setup;

    use super::*;

    /// As iperf3 3.12 printed them.
    const TWO_STREAMS: &str = include_str!("samples/iperf3-two-streams.json");
    const REVERSE: &str = include_str!("samples/iperf3-reverse.json");
    const BUSY_SERVER: &str = include_str!("samples/iperf3-busy.json");
    const REFUSED: &str = include_str!("samples/iperf3-refused.json");

    fn ended(code: i32, output: &str) -> ProgramOutput {
        let status = ExitStatus::from_raw(code << 8);
        ProgramOutput { status, output: output.as_bytes().to_vec(), spent: Duration::from_secs(2) }
    }

    #[test]
    fn what_has_arrived_counts() {
        let measured = read(&ended(0, TWO_STREAMS), "", 2).expect("a sample").measured;
        assert_eq!(measured.bytes, ByteCount(6_511_656_960));
        assert_eq!(measured.measured, Duration::from_secs_f64(1.000_599));
        assert!((measured.throughput.as_mbps() - 51_988.714).abs() < 0.01, "{measured:?}");
        let measured = read(&ended(0, REVERSE), "", 2).expect("a sample").measured;
        assert!(measured.bytes >= ByteCount::mib(10) && measured.throughput > BitRate::ZERO, "{measured:?}");
    }

    #[test]
    fn an_error_with_status_zero_is_an_error() {
        let error = read(&ended(0, REFUSED), "", 2).expect_err("refused");
        assert_eq!(error.to_string(), "iperf3: unable to connect to server: Connection refused");
        let error = read(&ended(0, BUSY_SERVER), "", 2).expect_err("busy");
        assert!(error.to_string().contains(BUSY[0]) && error.failure == Failure::Failed, "{error}");
        let said = "iperf3: parameter error - number of parallel streams too large (maximum = 128)";
        let error = read(&ended(1, "Usage: iperf3 [-s|-c host] [options]"), said, 200).expect_err("usage");
        assert_eq!(
            error.to_string(),
            "iperf3: parameter error - number of parallel streams too large (maximum = 128)"
        );
    }

    #[test]
    fn garbage_is_refused() {
        let no_time = TWO_STREAMS.replace("\"seconds\":\t1.000599", "\"seconds\":\t0");
        let negative = TWO_STREAMS.replace("\"seconds\":\t1.000599", "\"seconds\":\t-1");
        let half = &TWO_STREAMS[..TWO_STREAMS.len() / 2];
        for output in ["", "{}", "null", "{\"end\":{}}", half, &no_time, &negative] {
            let error = read(&ended(0, output), "", 2).expect_err("garbage");
            assert_eq!(error.failure, Failure::Garbage, "{error}");
        }
        assert!(read(&ended(0, TWO_STREAMS), "", 3).is_err());
    }

    #[test]
    fn an_endpoint_is_asked_without_its_ticket_on_a_command_line() {
        let setup = Setup { state: Some("/s".into()), ..Setup::default() };
        let program = Program { path: "tidegate".into(), setup };
        let helper = Helper { program, endpoint: "tg://TICKET@h:1/".to_owned() };
        let told = |sampler: &Iperf3, amount, start| {
            let program = sampler.command(4, amount, start);
            let shown = format!("{program:?} {sampler:?}");
            assert!(shown.contains("\"run\", \"-\"") && !shown.contains("TICKET"), "{shown}");
            assert!(!shown.contains("SECRET"), "{shown}");
            let Ok(Run::Iperf3(run)) = serde_json::from_str(&program.told()) else { panic!("no test") };
            *run
        };
        let sampler = Iperf3::new(Other::Helper(helper.clone()), true, None);
        let run = told(&sampler, Amount::Time(Duration::from_secs(1)), Duration::ZERO);
        assert_eq!(
            (&*run.endpoint, run.limit.as_secs(), run.setup.state),
            ("tg://TICKET@h:1/", 24, Some("/s".into()))
        );
        let Iperf3By::Us(arguments) = run.by else { panic!("it is asked") };
        assert!(
            arguments.contains(&"-J".to_owned()) && arguments.contains(&"-R".to_owned()),
            "{arguments:?}"
        );
        let other = Endpoint("tg://SECRET@i:1/".to_owned());
        let sampler = Iperf3::new(Other::Between(helper, other), false, Some(ByteCount::kib(128)));
        let run = told(&sampler, Amount::Time(Duration::from_millis(1500)), Duration::from_secs(2));
        let Iperf3By::Endpoint(test) = run.by else { panic!("it runs here") };
        assert_eq!((&*test.to, test.streams, test.reverse), ("tg://SECRET@i:1/", 4, false));
        assert_eq!(test.amount, Iperf3For::Time(Duration::from_millis(1500)));
        assert_eq!((test.omit, test.buffer), (Some(Duration::from_secs(2)), Some(ByteCount::kib(128))));
    }

    #[test]
    fn what_is_left_out_is_paid_for() {
        let sampled = read(&ended(0, TWO_STREAMS), "", 2).expect("a sample").with(Duration::from_secs(2));
        assert!((sampled.measured.bytes.0 as f64 / 6_511_656_960.0 - 3.0).abs() < 0.01, "{sampled:?}");
        let sampler = Iperf3::new(Other::Server(Server::parse("h").expect("a server")), false, None);
        let program = sampler.command(1, Amount::Time(Duration::from_secs(1)), Duration::from_secs(2));
        let asked = format!("{program:?}");
        assert!(asked.contains("\"-t\", \"1\"") && asked.contains("\"-O\", \"2\""), "{asked}");
    }

    #[test]
    fn a_server_is_a_host_and_a_port() {
        for (text, host, port) in [
            ("dtn.example.org", "dtn.example.org", 5201),
            ("192.0.2.1:5202", "192.0.2.1", 5202),
            ("[2001:db8::1]:7", "2001:db8::1", 7),
            ("[2001:db8::1]", "2001:db8::1", 5201),
            ("2001:db8::1", "2001:db8::1", 5201),
        ] {
            let server = Server { host: host.to_owned(), port };
            assert_eq!(Server::parse(text), Ok(server), "{text}");
        }
        for text in ["", ":1", "-c", "--help", "a b", "h:", "h:x", "h:99999", "[::1", "[::1]x", "u@h:1"] {
            assert!(Server::parse(text).is_err(), "{text}");
        }
    }
}
