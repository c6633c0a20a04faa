//! What a crowd of hostile sessions costs an endpoint and the honest copies beside it.
//!
//! An endpoint is started, a tree is copied to it alone, and again while `--sessions` sessions, with `--tickets`
//! tickets between them, ask for as much as they can: names without end, hashes of segments that never come, problems
//! without end, threads and streams, answers that nobody reads, the same ranges again and again, copies from there to
//! there, one directory for ever, files that are begun and left, and very many paths. The endpoint's memory, threads
//! and descriptors are sampled meanwhile. The crowd is on this machine for want of another, so it runs at the lowest
//! priority.
//!
//! `flood idle 1000 ADDRESS` opens sessions that ask for nothing more, at an endpoint that is there already, and keeps them until
//! its input ends: what that endpoint takes for each can be read then.
//!
//! `cargo build --release && cargo run --release -p tidegate-transfer --example flood`

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_control::{BitRate, ByteCount, PerStage};
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::manifest::{BLOCK, Entry, Kind, Timestamp};
use tidegate_transfer::offer::{Again, OFFER_ENTRIES, Verdict};
use tidegate_transfer::path::RelPath;
use tidegate_transfer::pipeline::proof::Proof;
use tidegate_transfer::record::Record;
use tidegate_transfer::spec::{SinkSpec, SourceSpec};
use tidegate_transfer::terms::{DataPlane, Terms, Verify};
use tidegate_transfer::throttle::Limits;
use tidegate_transfer::wire::channel::Channel;
use tidegate_transfer::wire::frame::{Frame, FrameKind};
use tidegate_transfer::wire::handshake::{self, StreamOpening};
use tidegate_transfer::wire::message::{Message, Step, encode};
use tidegate_transfer::wire::request::{Request, RequestKind};
use tidegate_transfer::wire::session::{self, Inbox, Outbox};
use tidegate_transfer::wire::ticket::Address;
use tidegate_transfer::wire::tls::Trust;

const USAGE: &str =
    "flood [--sessions N] [--tickets N] [--rounds N] [--mib SIZE] [--limit RATE] [-- ENDPOINT OPTIONS...]";

/// How long the crowd has before the copy beside it begins.
const SETTLE: Duration = Duration::from_secs(5);

struct Settings {
    sessions: usize,
    tickets: usize,
    rounds: usize,
    mib: usize,
    /// The link of the honest copy, as `tidegate copy --limit-link` takes it.
    limit: Option<String>,
    /// For `tidegate endpoint`.
    options: Vec<String>,
}

fn settings(arguments: &[String]) -> Option<Settings> {
    let mut found =
        Settings { sessions: 200, tickets: 1, rounds: 5, mib: 1024, limit: None, options: Vec::new() };
    let mut halves = arguments.splitn(2, |argument| argument == "--");
    let ours = halves.next().unwrap_or_default();
    found.options = halves.next().unwrap_or_default().to_vec();
    for pair in ours.chunks(2) {
        let [name, value] = pair else { return None };
        match name.as_str() {
            "--sessions" => found.sessions = value.parse().ok()?,
            "--tickets" => found.tickets = value.parse().ok()?,
            "--rounds" => found.rounds = value.parse().ok()?,
            "--mib" => found.mib = value.parse().ok()?,
            "--limit" => found.limit = Some(value.clone()),
            _ => return None,
        }
    }
    Some(found)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, sessions, addresses @ ..] = &arguments[..] {
        match role.as_str() {
            "crowd" => return crowd(addresses, sessions.parse().unwrap_or(1)),
            "idle" => return idle(addresses, sessions.parse().unwrap_or(1)),
            _ => {}
        }
    }
    let Some(settings) = settings(&arguments) else {
        eprintln!("usage: {USAGE}");
        return ExitCode::from(2);
    };
    match measure(&settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flood: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(settings: &Settings) -> std::io::Result<()> {
    let place = tempfile::Builder::new().prefix("flood").tempdir_in("/dev/shm")?;
    let source = place.path().join("source");
    fs::create_dir(&source)?;
    let mut content: Vec<u8> =
        (0..16_u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for i in 0..settings.mib / 16 {
        content[0] = i as u8;
        fs::write(source.join(format!("{i}")), &content)?;
    }
    println!("| round | alone | beside | lost | resident at most | threads at most | descriptors at most |");
    println!("|---|---|---|---|---|---|---|");
    let mut rounds = Vec::new();
    for round in 0..settings.rounds {
        let figures = one_round(settings, place.path(), &source)?;
        println!("| {round} {}", figures.row());
        std::io::stdout().flush()?;
        rounds.push(figures);
    }
    println!("| median of {} {}", rounds.len(), Figures::median(&rounds).row());
    Ok(())
}

/// Of one round.
struct Figures {
    alone: f64,
    beside: f64,
    lost: f64,
    resident: f64,
    threads: f64,
    descriptors: f64,
}

impl Figures {
    fn row(&self) -> String {
        let Self { alone, beside, lost, resident, threads, descriptors } = self;
        let lost = lost * 100.0;
        format!(
            "| {alone:.2} s | {beside:.2} s | {lost:.0} % | {resident:.0} MB | {threads:.0} | {descriptors:.0} |"
        )
    }

    fn median(rounds: &[Self]) -> Self {
        let of = |value: fn(&Self) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            let middle = values.len() / 2;
            if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
        };
        Self {
            alone: of(|f| f.alone),
            beside: of(|f| f.beside),
            lost: of(|f| f.lost),
            resident: of(|f| f.resident),
            threads: of(|f| f.threads),
            descriptors: of(|f| f.descriptors),
        }
    }
}

fn one_round(settings: &Settings, place: &Path, source: &Path) -> std::io::Result<Figures> {
    let bin = sibling("tidegate")?;
    let (root, state) = (place.join("root"), place.join("state"));
    for holder in 0..settings.tickets {
        let theirs = root.join(format!("theirs{holder}"));
        fs::create_dir_all(&theirs)?;
        fs::File::create(theirs.join("huge"))?.set_len(1 << 40)?;
    }
    let mut endpoint = Ended(
        Command::new(&bin)
            .args(["endpoint", "--allow-local-targets", "--listen", "127.0.0.1:0", "--root"])
            .arg(&root)
            .arg("--state")
            .arg(&state)
            .args(&settings.options)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?,
    );
    let mut honest = String::new();
    BufReader::new(endpoint.0.stdout.take().expect("piped")).read_line(&mut honest)?;
    let honest = honest.trim().trim_end_matches('/').to_owned();
    let at = honest.rsplit('@').next().expect("an address").to_owned();
    let hostile = (0..settings.tickets)
        .map(|holder| {
            let path = format!("theirs{holder}");
            let ticket =
                Command::new(&bin).args(["ticket", &at, "--path", &path, "--state"]).arg(&state).output()?;
            Ok(String::from_utf8_lossy(&ticket.stdout).trim().to_owned())
        })
        .collect::<std::io::Result<Vec<_>>>()?;
    let copy = |name: &str| -> std::io::Result<f64> {
        let start = Instant::now();
        let mut command = Command::new(&bin);
        command.args(["copy", "-q"]).args(settings.limit.iter().flat_map(|rate| ["--limit-link", rate]));
        command.arg(format!("{}/", source.display())).arg(format!("{honest}/{name}/"));
        let ended = command.stdout(Stdio::null()).status()?;
        if !ended.success() {
            return Err(std::io::Error::other(format!("the honest copy failed: {ended}")));
        }
        fs::remove_dir_all(root.join(name))?;
        Ok(start.elapsed().as_secs_f64())
    };
    copy("warm")?;
    let alone = copy("alone")?;
    let over = AtomicBool::new(false);
    let (beside, (resident, threads, descriptors)) = thread::scope(|scope| {
        let watch = scope.spawn(|| peaks(endpoint.0.id(), &over));
        let crowd = Command::new("nice")
            .args(["-n", "19"])
            .arg(std::env::current_exe()?)
            .args(["crowd", &settings.sessions.to_string()])
            .args(&hostile)
            .spawn()
            .map(Ended);
        thread::sleep(SETTLE);
        let beside = copy("beside");
        drop(crowd);
        over.store(true, Relaxed);
        let peaks = watch.join().expect("it watched");
        std::io::Result::Ok((beside?, peaks))
    })?;
    drop(endpoint);
    fs::remove_dir_all(&root)?;
    let lost = 1.0 - alone / beside;
    let (resident, threads, descriptors) = (resident as f64 / 1e6, threads as f64, descriptors as f64);
    Ok(Figures { alone, beside, lost, resident, threads, descriptors })
}

/// A process that is killed when it is not needed any more.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program beside the examples' directory.
fn sibling(name: &str) -> std::io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let path = own.parent().and_then(Path::parent).map(|built| built.join(name)).unwrap_or_default();
    if path.exists() {
        Ok(path)
    } else {
        Err(std::io::Error::other(format!("{} is not built: run cargo build --release", path.display())))
    }
}

/// The most resident bytes, threads and descriptors of a process until it is `over`.
fn peaks(process: u32, over: &AtomicBool) -> (u64, u64, u64) {
    let mut most = (0, 0, 0);
    while !over.load(Relaxed) {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let number = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0)
        };
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).map_or(0, |open| open.count() as u64);
        most = (most.0.max(number("VmRSS:") * 1024), most.1.max(number("Threads:")), most.2.max(descriptors));
        thread::sleep(Duration::from_millis(50));
    }
    most
}

/// What a hostile session does once it is let in.
type Act = fn(&Prey, u64, &Outbox, &Inbox, &[u8; 32]);

const ACTS: [(&str, Act); 11] = [
    ("names", names),
    ("hashes", hashes),
    ("elements", elements),
    ("problems", problems),
    ("threads", threads),
    ("polls", polls),
    ("again", again),
    ("relays", relays),
    ("directories", directories),
    ("parts", parts),
    ("paths", paths),
];

struct Prey {
    address: Address,
    config: Arc<rustls::ClientConfig>,
    /// What its ticket opens.
    path: String,
}

/// Opens so many sessions, which ask for nothing more, and says when all are there; they end with its input.
fn idle(addresses: &[String], sessions: usize) -> ExitCode {
    let Some(prey) = preys(addresses) else { return ExitCode::from(2) };
    let opened: Vec<_> =
        (0..sessions).map_while(|number| begin(&prey[number % prey.len()], number as u64).ok()).collect();
    println!("{} sessions", opened.len());
    let _ = std::io::stdin().read_line(&mut String::new());
    ExitCode::SUCCESS
}

fn preys(addresses: &[String]) -> Option<Vec<Arc<Prey>>> {
    let prey = addresses.iter().enumerate().map(|(holder, address)| {
        let address = Address::parse(address.as_bytes()).ok()?;
        let config = Trust::Pinned(address.ticket.as_ref()?.fingerprint).client().ok()?;
        Some(Arc::new(Prey { address, config, path: format!("theirs{holder}") }))
    });
    prey.collect::<Option<Vec<_>>>().filter(|prey| !prey.is_empty())
}

/// Keeps so many sessions busy until it is killed; says how many got in.
fn crowd(addresses: &[String], sessions: usize) -> ExitCode {
    let Some(prey) = preys(addresses) else { return ExitCode::from(2) };
    let let_in: Arc<[AtomicUsize; ACTS.len()]> = Arc::default();
    for number in 0..sessions {
        // Each ticket has sessions of every kind.
        let kind = number / prey.len() % ACTS.len();
        let (prey, let_in) = (Arc::clone(&prey[number % prey.len()]), Arc::clone(&let_in));
        thread::spawn(move || {
            for attempt in 0.. {
                let id = (attempt << 16) + number as u64;
                match begin(&prey, id) {
                    Ok((outbox, inbox, token)) => {
                        let_in[kind].fetch_add(1, Relaxed);
                        ACTS[kind].1(&prey, id, &outbox, &inbox, &token);
                    }
                    Err(_) => thread::sleep(Duration::from_millis(200)),
                }
            }
        });
    }
    loop {
        thread::sleep(SETTLE);
        let counts: BTreeMap<_, _> =
            ACTS.iter().zip(&*let_in).map(|((name, _), count)| (name, count.load(Relaxed))).collect();
        eprintln!("hostile sessions let in so far: {counts:?}");
    }
}

fn begin(prey: &Prey, id: u64) -> Result<(Outbox, Inbox, [u8; 32])> {
    let (outbox, inbox) =
        session::start(handshake::open_session(&prey.address, &prey.config)?, "the endpoint")?;
    outbox.send(&receive(prey, id).into());
    loop {
        match inbox.receive()? {
            Message::Accepted(agreement) => return Ok((outbox, inbox, agreement.read()?.token)),
            Message::Refused(error) => return Err(error),
            _ => {}
        }
    }
}

/// Receive files into a directory of the crowd's, by as many workers and with as much staging as may be asked for.
fn receive(prey: &Prey, id: u64) -> Request {
    let sink = SinkSpec::Files { path: format!("{}/{id}/", prey.path).into_bytes(), single: false };
    RequestKind::Receive { id: u128::from(id).to_le_bytes(), sink }.under(terms())
}

fn terms() -> Terms {
    Terms { chunk: None, staging: ByteCount::mib(128), max_workers: 512, ..Terms::default() }
}

fn file(path: &str, size: u64) -> Entry {
    Entry::new(
        RelPath::new(path.as_bytes()).expect("a path"),
        Kind::File { size, fingerprint: Default::default() },
        0o644,
        Timestamp { seconds: 0, nanoseconds: 0 },
    )
}

fn names(_: &Prey, _: u64, outbox: &Outbox, _inbox: &Inbox, _: &[u8; 32]) {
    for first in (0..8192).step_by(OFFER_ENTRIES) {
        let name = |i: usize| format!("{:0>200}/{first:0>200}/{i}", 0);
        let entries = (first..first + OFFER_ENTRIES).map(|i| file(&name(i), 9)).collect();
        outbox.send_patiently(&Message::Offer { first: first as u32, entries }, || false);
    }
    linger(outbox);
}

fn hashes(_: &Prey, _: u64, outbox: &Outbox, _inbox: &Inbox, _: &[u8; 32]) {
    outbox.send(&Message::Offer { first: 0, entries: vec![file("huge", 1 << 60)] });
    let mut segment = 0;
    while !outbox.is_lost() {
        let some = (segment..segment + 4096).map(|segment| (0, segment, [1; 32])).collect();
        outbox.send_patiently(&Message::Hashes(some), || false);
        segment += 4096;
    }
}

fn elements(_: &Prey, _: u64, outbox: &Outbox, _inbox: &Inbox, _: &[u8; 32]) {
    while !outbox.is_lost() {
        outbox.send_patiently(&Message::Replace(vec![0; 3 << 20]), || false);
    }
}

fn problems(_: &Prey, _: u64, outbox: &Outbox, inbox: &Inbox, _: &[u8; 32]) {
    let error = Error::new(ErrorKind::Io, "y".repeat(1000));
    while !outbox.is_lost() {
        outbox.send_patiently(&Message::Problem(vec![b'x'; 4000], error.clone()), || false);
        while matches!(inbox.receive_within(Duration::ZERO), Ok(Some(_))) {}
    }
}

fn open_stream(prey: &Prey, token: &[u8; 32], index: u32) -> Result<Channel> {
    let stream = StreamOpening { plane: DataPlane::Tls, token, index };
    handshake::open_stream(&prey.address, &prey.config, &stream)
}

fn threads(prey: &Prey, _: u64, outbox: &Outbox, _: &Inbox, token: &[u8; 32]) {
    outbox.send(&Message::Setpoint(PerStage::all(512)));
    let dial = |index| open_stream(prey, token, index);
    let streams: Vec<_> = (0..30).map_while(|index| dial(index).ok()).collect();
    linger(outbox);
    drop(streams);
}

/// Polls whose answers, ten times as long, nobody reads.
fn polls(prey: &Prey, id: u64, outbox: &Outbox, _: &Inbox, _: &[u8; 32]) {
    outbox.close();
    let Ok(mut channel) = handshake::open_session(&prey.address, &prey.config) else { return };
    let many: Vec<u8> = (0..10_000).flat_map(|number| encode(&Message::Poll(number))).collect();
    let _ = channel.write_all(&encode(&Message::from(receive(prey, id))));
    while channel.write_all(&many).is_ok() {}
}

/// A session of its own that asks for something else than to receive.
fn ask(prey: &Prey, request: Request) -> Option<(Outbox, Inbox)> {
    let channel = handshake::open_session(&prey.address, &prey.config).ok()?;
    let (outbox, inbox) = session::start(channel, "the endpoint").ok()?;
    outbox.send(&request.into());
    Some((outbox, inbox))
}

/// Wants a file twice, and then ranges of it again and again.
fn again(prey: &Prey, _: u64, outbox: &Outbox, _: &Inbox, _: &[u8; 32]) {
    outbox.close();
    let source = SourceSpec::Files(vec![format!("{}/huge", prey.path).into_bytes()]);
    let Some((outbox, inbox)) = ask(prey, RequestKind::Send { source }.under(terms())) else { return };
    while matches!(inbox.receive(), Ok(message) if !matches!(message, Message::Offer { .. })) {}
    outbox.send(&Message::Verdicts { first: 0, verdicts: vec![Verdict::Want { have: Vec::new() }] });
    let ranges =
        (0..4000).map(|block: u64| Again { file: 0, range: block << 17..(block << 17) + 1 }).collect();
    let ranges = Message::Again(ranges);
    while !outbox.is_lost() {
        outbox.send_patiently(&ranges, || false);
        while matches!(inbox.receive_within(Duration::ZERO), Ok(Some(_))) {}
    }
}

/// Has the endpoint send to itself, with as many workers as may be. Slowly: a copy that moves data has its share of
/// processors and disks by right, and is no attack.
fn relays(prey: &Prey, id: u64, outbox: &Outbox, _: &Inbox, _: &[u8; 32]) {
    outbox.close();
    let source = SourceSpec::Files(vec![format!("{}/huge", prey.path).into_bytes()]);
    let destination = prey.address.clone().with_path(format!("{}/{id}/", prey.path)).to_bytes();
    let limits = Limits { link: Some(BitRate::mbps(1)), ..Limits::default() };
    let terms = Terms { limits, ..terms() };
    let request = RequestKind::SendTo { source, destination, pace_ms: (50, 0) }.under(terms);
    let Some((outbox, inbox)) = ask(prey, request) else { return };
    while !outbox.is_lost() {
        outbox.send(&Message::Step(Record::of(&Step { setpoint: PerStage::all(512), ..Step::default() })));
        while let Ok(message) = inbox.receive()
            && !matches!(message, Message::Stepped(_))
        {}
    }
}

/// One directory, for ever.
fn directories(_: &Prey, _: u64, outbox: &Outbox, inbox: &Inbox, _: &[u8; 32]) {
    let directory = Entry { kind: Kind::Directory, ..file(&format!("{:0>200}", 0), 0) };
    let mut first = 0;
    while !outbox.is_lost() {
        let entries = vec![directory.clone(); OFFER_ENTRIES];
        outbox.send_patiently(&Message::Offer { first, entries }, || false);
        first += OFFER_ENTRIES as u32;
        while let Ok(message) = inbox.receive()
            && !matches!(message, Message::Verdicts { .. })
        {}
    }
}

/// The first block of very many files.
fn parts(prey: &Prey, _: u64, outbox: &Outbox, inbox: &Inbox, token: &[u8; 32]) {
    outbox.send(&Message::Setpoint(PerStage::all(1)));
    for first in (0..8192).step_by(OFFER_ENTRIES) {
        let entries = (first..first + OFFER_ENTRIES).map(|i| file(&format!("{i}"), 2 * BLOCK)).collect();
        outbox.send_patiently(&Message::Offer { first: first as u32, entries }, || false);
        while let Ok(message) = inbox.receive()
            && !matches!(message, Message::Verdicts { .. })
        {}
    }
    let block = vec![7; BLOCK as usize];
    let checksum = Proof::of(&block, 0, 2 * BLOCK, Verify::Blake3).checksum;
    if let Ok(mut stream) = open_stream(prey, token, 0) {
        for file in 0..8192 {
            let frame = Frame { kind: FrameKind::Data, length: BLOCK as u32, file, checksum, offset: 0 };
            if stream.write_all(&[&frame.encode()[..], &block].concat()).is_err() {
                break;
            }
        }
        linger(outbox);
    }
}

/// One file by as many paths as a message holds.
fn paths(prey: &Prey, _: u64, outbox: &Outbox, _: &Inbox, _: &[u8; 32]) {
    outbox.close();
    let source = SourceSpec::Files(vec![format!("{}/huge", prey.path).into_bytes(); 60_000]);
    let Some((outbox, inbox)) = ask(prey, RequestKind::Send { source }.under(terms())) else { return };
    while inbox.receive().is_ok() {}
    drop(outbox);
}

fn linger(outbox: &Outbox) {
    while !outbox.is_lost() {
        thread::sleep(Duration::from_millis(100));
    }
}
