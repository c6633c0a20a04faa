//! The samplers that drive others' programs, against the real ones on the loopback.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::has;
use tidegate_control::{BitRate, ByteCount};
use tidegate_service::sampler::gridftp::{self, GridFtp};
use tidegate_service::sampler::iperf3::{Iperf3, Other, Server};
use tidegate_service::sampler::{Amount, Failure, Measured, Sampler, SamplerError};

/// Longest wait for a server to listen.
const STARTING: Duration = Duration::from_secs(20);

/// A server of somebody else's, killed when dropped.
struct Daemon {
    child: Child,
    port: u16,
}

impl Daemon {
    /// Starts what `command` makes for a free port, and waits until something listens there.
    fn start(command: impl Fn(u16) -> Command) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let mut command = command(port);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("started");
        let daemon = Self { child, port };
        let end = Instant::now() + STARTING;
        while !listens(port) {
            assert!(Instant::now() < end, "{command:?} does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        daemon
    }
}

/// Asks the kernel and not the server, which would take a connection for a client.
fn listens(port: u16) -> bool {
    let local = format!(":{port:04X}");
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        let table = std::fs::read_to_string(table).unwrap_or_default();
        table.lines().any(|line| {
            let mut columns = line.split_whitespace().skip(1);
            let here = columns.next().is_some_and(|address| address.ends_with(&local));
            // 0A: listening.
            here && columns.nth(1) == Some("0A")
        })
    })
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server of iperf3 and how it is reached, where the program is there.
fn iperf3_server(test: &str) -> Option<(Daemon, Other)> {
    has(test, &["iperf3"]).then(|| {
        let daemon = Daemon::start(|port| {
            let mut command = Command::new("iperf3");
            command.args(["-s", "-B", "127.0.0.1", "-p", &port.to_string()]);
            command
        });
        let server = server(&format!("127.0.0.1:{}", daemon.port));
        (daemon, server)
    })
}

fn server(address: &str) -> Other {
    Other::Server(Server::parse(address).expect("an address"))
}

/// Where a GridFTP server writes of each transfer.
const GRIDFTP_LOG: &str = "gridftp.log";

fn gridftp_server(directory: &Path) -> Daemon {
    let log = directory.join(GRIDFTP_LOG);
    Daemon::start(|port| {
        let mut command = Command::new("globus-gridftp-server");
        command.args(["-aa", "-disable-usage-stats", "-no-detach", "-control-interface", "127.0.0.1"]);
        command.args(["-data-interface", "127.0.0.1", "-port", &port.to_string()]);
        command.args(["-log-level", "ERROR,WARN,INFO", "-logfile"]).arg(&log);
        if is_root() {
            command.args(["-allow-root", "-anonymous-user", "root"]);
        }
        command
    })
}

/// Whether this test has every right.
fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let user = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    user.and_then(|user| user.split_whitespace().nth(1)) == Some("0")
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

fn measure(sampler: &mut dyn Sampler, streams: u16, amount: Amount) -> Result<Measured, SamplerError> {
    wait(sampler.measure(streams, amount))
}

const SHORT_TIME: Duration = Duration::from_millis(400);
const SHORT: Amount = Amount::Time(SHORT_TIME);
const SOME: Amount = Amount::Bytes(ByteCount::mib(20));

#[test]
fn iperf3_measures_both_ways_by_time_and_by_amount() {
    let test = "iperf3_measures_both_ways_by_time_and_by_amount";
    let Some((_daemon, server)) = iperf3_server(test) else { return };
    for (reverse, streams, amount) in [(false, 1, SHORT), (false, 3, SOME), (true, 2, SOME)] {
        let mut sampler = Iperf3::new(server.clone(), reverse, Some(ByteCount::kib(128)));
        let measured = measure(&mut sampler, streams, amount).expect("a sample");
        assert_eq!(measured.streams, streams);
        assert!(measured.throughput > BitRate::ZERO && measured.spent >= measured.measured, "{measured:?}");
        if amount == SOME {
            assert!(measured.bytes >= ByteCount::mib(19), "{measured:?}");
        }
    }
}

#[test]
fn a_busy_iperf3_server_is_waited_for() {
    let Some((_daemon, server)) = iperf3_server("a_busy_iperf3_server_is_waited_for") else { return };
    let mut first = Iperf3::new(server.clone(), false, None);
    let mut second = Iperf3::new(server, false, None);
    let both = wait(async { tokio::join!(first.measure(2, SHORT), second.measure(1, SHORT)) });
    assert_eq!(both.0.expect("a sample").streams, 2);
    assert_eq!(both.1.expect("a sample").streams, 1);
}

#[test]
fn an_iperf3_server_that_is_not_there_is_one_line() {
    let test = "an_iperf3_server_that_is_not_there_is_one_line";
    if !has(test, &["iperf3"]) {
        return;
    }
    let mut sampler = Iperf3::new(server("127.0.0.1:1"), false, None);
    let error = measure(&mut sampler, 1, SHORT).expect_err("nobody listens");
    assert!(error.to_string().starts_with("iperf3: unable to connect to server"), "{error}");
    assert_eq!((error.failure, error.to_string().lines().count()), (Failure::Failed, 1));
}

#[test]
fn two_gridftp_servers_are_measured_from_outside() {
    let test = "two_gridftp_servers_are_measured_from_outside";
    if !has(test, &["globus-url-copy"]) || !has(test, &["globus-gridftp-server"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let (a, b) = (gridftp_server(directory.path()), gridftp_server(directory.path()));
    let url = |daemon: &Daemon| format!("ftp://127.0.0.1:{}/some/file", daemon.port);
    let here = "/some/file".to_owned();
    for (from, to) in [(url(&a), url(&b)), (here.clone(), url(&b)), (url(&a), here)] {
        let options = gridftp::GridFtpOptions { buffer: Some(ByteCount::kib(128)), proxy: None };
        let mut sampler = GridFtp::new(&from, &to, options).expect("two ends");
        let measured = measure(&mut sampler, 2, SOME).expect("a sample");
        assert_eq!((measured.streams, measured.bytes), (2, ByteCount::mib(20)));
        assert!(measured.throughput > BitRate::ZERO && measured.measured < measured.spent, "{measured:?}");
        assert_eq!(measured.note, None);
    }
    // By time it finds an amount that takes a good part of it.
    let mut sampler = GridFtp::new(&url(&a), &url(&b), gridftp::GridFtpOptions::default()).expect("two ends");
    let measured = measure(&mut sampler, 1, SHORT).expect("a sample");
    assert!(measured.bytes > ByteCount::mib(2), "{measured:?}");
}

/// By amounts it takes several runs, each of them with slow start in it.
#[test]
fn one_run_of_gridftp_shows_how_much_moves_in_a_time_where_an_end_is_here() {
    let test = "one_run_of_gridftp_shows_how_much_moves_in_a_time_where_an_end_is_here";
    if !has(test, &["globus-url-copy"]) || !has(test, &["globus-gridftp-server"]) {
        return;
    }
    let here = "/some/file".to_owned();
    for reads in [false, true] {
        let directory = tempfile::tempdir().expect("a directory");
        let server = gridftp_server(directory.path());
        let there = format!("ftp://127.0.0.1:{}/some/file", server.port);
        let (from, to) = if reads { (&there, &here) } else { (&here, &there) };
        let mut sampler = GridFtp::new(from, to, gridftp::GridFtpOptions::default()).expect("two ends");
        let measured = measure(&mut sampler, 2, SHORT).expect("a sample");
        assert!(measured.measured >= SHORT_TIME, "{measured:?}");
        // A session is logged when it has ended.
        let end = Instant::now() + STARTING;
        let log = loop {
            let log = std::fs::read_to_string(directory.path().join(GRIDFTP_LOG)).expect("a log");
            if log.contains("Closed connection") {
                break log;
            }
            assert!(Instant::now() < end, "no session has ended: {log}");
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(log.matches("Starting to transfer").count(), 1, "{log}");
    }
}

#[test]
fn gridftp_failures_are_one_line() {
    let test = "gridftp_failures_are_one_line";
    if !has(test, &["globus-url-copy"]) {
        return;
    }
    let to = "ftp://me:secret@127.0.0.1:1/x";
    let mut sampler = GridFtp::new("/dev/zero", to, gridftp::GridFtpOptions::default()).expect("two ends");
    let error = measure(&mut sampler, 1, SOME).expect_err("nobody listens");
    assert!(error.to_string().contains("Connection refused"), "{error}");
    assert!(!error.to_string().contains("secret") && error.to_string().lines().count() == 1, "{error}");
    assert_eq!(error.failure, Failure::Failed);
}

#[test]
fn a_server_that_never_says_a_word_can_be_given_up() {
    let test = "a_server_that_never_says_a_word_can_be_given_up";
    if !has(test, &["globus-url-copy"]) {
        return;
    }
    let mute = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let to = format!("ftp://127.0.0.1:{}/x", mute.local_addr().expect("bound").port());
    let mut sampler = GridFtp::new("/dev/zero", &to, gridftp::GridFtpOptions::default()).expect("two ends");
    let sample = sampler.measure(1, SOME);
    let given_up = wait(async { tokio::time::timeout(Duration::from_millis(300), sample).await });
    assert!(given_up.is_err(), "{given_up:?}");
}
