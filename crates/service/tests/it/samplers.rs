//! The samplers that drive others' programs, against the real ones on the loopback.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::gridftp::GridFtp as GridFtpServer;
use testkit::has;
use testkit::server::Program;
use tidegate_control::{BitRate, ByteCount};
use tidegate_service::sampler::gridftp::{self, GridFtp};
use tidegate_service::sampler::iperf3::{Iperf3, Other, Server};
use tidegate_service::sampler::{Amount, Failure, Measured, Sampler, SamplerError};

/// Longest wait for a session to be logged.
const LOGGING: Duration = Duration::from_secs(20);

/// A server of iperf3 and how it is reached, where the program is there.
fn iperf3_server(test: &str) -> Option<(testkit::Server<Iperf3Server>, Other)> {
    has(test, &["iperf3"]).then(|| {
        let daemon = testkit::Server::start(Iperf3Server);
        let server = server(&format!("127.0.0.1:{}", daemon.port()));
        (daemon, server)
    })
}

struct Iperf3Server;

impl Program for Iperf3Server {
    fn command(&self, _dir: &Path, ports: &[u16]) -> Command {
        let mut command = Command::new("iperf3");
        command.args(["-s", "-B", "127.0.0.1", "-p", &ports[0].to_string()]);
        command
    }
}

fn server(address: &str) -> Other {
    Other::Server(Server::parse(address).expect("an address"))
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
    if !testkit::gridftp::is_there(test) {
        return;
    }
    let (a, b) = (GridFtpServer::anonymous(&[]), GridFtpServer::anonymous(&[]));
    let url = |server: &GridFtpServer| server.url("/some/file");
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
    if !testkit::gridftp::is_there(test) {
        return;
    }
    let here = "/some/file".to_owned();
    for reads in [false, true] {
        let server = GridFtpServer::anonymous(&[]);
        let there = server.url("/some/file");
        let (from, to) = if reads { (&there, &here) } else { (&here, &there) };
        let mut sampler = GridFtp::new(from, to, gridftp::GridFtpOptions::default()).expect("two ends");
        let measured = measure(&mut sampler, 2, SHORT).expect("a sample");
        assert!(measured.measured >= SHORT_TIME, "{measured:?}");
        // A session is logged when it has ended.
        let end = Instant::now() + LOGGING;
        let log = loop {
            let log = server.log();
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
