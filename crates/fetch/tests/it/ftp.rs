//! FTP beyond the suite of every store: servers that lack things, refuse, lie, or fall silent.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::conformance::{ask, get};
use testkit::scripted::{Scripted, Then};
use testkit::vsftpd::{Security, Vsftpd};
use testkit::{congestion_at, congestion_controls, noise, skip};
use tidegate_fetch::remote::servers::{ServerSettings, Servers};
use tidegate_fetch::remote::{Ask, Remote, Remotes as _, Why};
use tidegate_transfer::error;
use url::Url;

fn settings() -> ServerSettings {
    ServerSettings { timeout: Duration::from_secs(10), ..ServerSettings::default() }
}

fn remote() -> Box<dyn Remote> {
    Servers::new(&settings()).remote()
}

/// What an FTP server of ours does; a reply to a command takes the place of the usual one.
#[derive(Clone)]
struct Script {
    greeting: &'static str,
    replies: Vec<(&'static str, &'static str)>,
    file: Vec<u8>,
    /// How many bytes come on a data connection, and what then becomes of it.
    sends: usize,
    then: Then,
    /// What is said at the end of a transfer.
    end: &'static str,
}

impl Script {
    fn new(replies: &[(&'static str, &'static str)]) -> Self {
        Self {
            greeting: "220 ready",
            replies: replies.to_vec(),
            file: noise(21, 300_000),
            sends: usize::MAX,
            then: Then::Close,
            end: "226 done",
        }
    }

    fn serve(self) -> (Scripted, Arc<AtomicUsize>) {
        let logins = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&logins);
        let server = Scripted::raw(move |_, stream| {
            let _ = self.session(&stream, &counted);
        });
        (server, logins)
    }

    fn session(&self, stream: &TcpStream, logins: &AtomicUsize) -> std::io::Result<()> {
        let mut control = stream;
        let mut reader = BufReader::new(stream.try_clone()?);
        control.write_all(format!("{}\r\n", self.greeting).as_bytes())?;
        let (mut listener, mut start) = (None, 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim_end();
            let command = line.split(' ').next().unwrap_or_default();
            if command == "PASS" {
                logins.fetch_add(1, Ordering::Relaxed);
            }
            let told = self.replies.iter().find(|(of, _)| *of == command);
            if let Some((_, reply)) = told.filter(|(_, reply)| !reply.contains("PORT")) {
                control.write_all(format!("{reply}\r\n").as_bytes())?;
                continue;
            }
            let reply = match command {
                "USER" => "331 password".to_owned(),
                "PASS" => "230 in".to_owned(),
                "TYPE" => "200 binary".to_owned(),
                "SIZE" => format!("213 {}", self.file.len()),
                "MDTM" => "213 20200102030405".to_owned(),
                "REST" => {
                    start = line.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
                    "350 go on".to_owned()
                }
                "EPSV" | "PASV" => {
                    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
                    let port = bound.local_addr()?.port();
                    listener = Some(bound);
                    match told {
                        Some((_, reply)) => reply.replace("PORT", &format!("{},{}", port >> 8, port & 255)),
                        None => format!("229 extended (|||{port}|)"),
                    }
                }
                "RETR" => {
                    let Some(bound) = listener.take() else { return Ok(()) };
                    control.write_all(b"150 here it comes\r\n")?;
                    let (mut data, _) = bound.accept()?;
                    let rest = &self.file[std::mem::take(&mut start)..];
                    let sent = data.write_all(&rest[..rest.len().min(self.sends)]);
                    if self.then == Then::Hang {
                        std::thread::sleep(Duration::from_secs(60));
                    }
                    drop(data);
                    if sent.is_err() { "426 cut".to_owned() } else { self.end.to_owned() }
                }
                _ => "500 what?".to_owned(),
            };
            control.write_all(format!("{reply}\r\n").as_bytes())?;
        }
    }
}

fn url(server: &Scripted) -> Url {
    server.url_as("ftp", "file")
}

#[test]
fn a_reply_says_what_to_try_next() {
    let greeting = |greeting| Script { greeting, ..Script::new(&[]) };
    let reply = |command, reply| Script::new(&[(command, reply)]);
    for (script, why) in [
        (greeting("421 too many connections from your address"), Why::Busy),
        (greeting("500 go away"), Why::Senseless),
        (greeting("hello there"), Why::Senseless),
        (reply("PASS", "530 Login incorrect."), Why::Denied),
        (reply("PASS", "530 Sorry, the maximum number of clients (9) is reached"), Why::Busy),
        (reply("RETR", "550 No such file"), Why::Missing),
        (reply("RETR", "550 Permission denied."), Why::Denied),
        (reply("RETR", "425 Can't open data connection"), Why::Broken),
        (reply("RETR", "450 try again"), Why::Broken),
        (reply("RETR", "421 shutting down"), Why::Busy),
        // As if it answered another command: a new connection may be in step.
        (reply("EPSV", "229 nonsense"), Why::Broken),
    ] {
        let (server, _) = script.clone().serve();
        let refusal = remote().open(&ask(&url(&server), 0..10)).expect_err("a refusal");
        assert_eq!(refusal.why, why, "{:?} {:?}: {refusal:?}", script.greeting, script.replies);
        assert!(refusal.error.message.contains("/file"), "{refusal:?}");
        if why == Why::Denied && script.replies[0].0 == "PASS" {
            assert_eq!(refusal.error.kind, error::ErrorKind::Authentication);
        }
    }
}

#[test]
fn a_data_connection_goes_to_the_control_connections_host_only() {
    // A host that no test may reach, and the port of ours.
    let script = Script::new(&[("EPSV", "502 no"), ("PASV", "227 passive (192,0,2,1,PORT)")]);
    let file = script.file.clone();
    let (server, _) = script.serve();
    let mut remote = remote();
    for range in [0..u64::MAX, 5..100] {
        let (_, _, data) = get(&mut *remote, &ask(&url(&server), range.clone())).expect("it");
        assert!(data == file[range.start as usize..(range.end as usize).min(file.len())]);
    }
}

#[test]
fn connections_have_the_congestion_control_that_was_asked_for() {
    for name in congestion_controls() {
        let script = Script::new(&[]);
        let file = script.file.clone();
        let (server, _) = script.serve();
        let congestion = Some(name.parse().expect("a name"));
        let mut remote = Servers::new(&ServerSettings { congestion, ..settings() }).remote();
        let (_, _, data) = get(&mut *remote, &ask(&url(&server), 0..u64::MAX)).expect("it");
        assert!(data == file);
        let Some(given) = congestion_at(url(&server).port().expect("a port")) else {
            return skip("congestion", "ss is not installed");
        };
        assert!(given.contains(&name), "{name}: {given:?}");
    }
}

#[test]
fn without_rest_the_whole_file_comes() {
    let script = Script::new(&[("REST", "502 no")]);
    let file = script.file.clone();
    let (server, _) = script.serve();
    let (version, range, data) = get(&mut *remote(), &ask(&url(&server), 10..20)).expect("it");
    assert_eq!((range, version.ranges), (0..300_000, false));
    assert!(data == file);
}

#[test]
fn without_size_and_time_the_end_is_where_the_server_says() {
    let unknown = [("SIZE", "500 what?"), ("MDTM", "500 what?")];
    let script = Script::new(&unknown);
    let file = script.file.clone();
    let (server, _) = script.serve();
    let (version, range, data) = get(&mut *remote(), &ask(&url(&server), 0..u64::MAX)).expect("it");
    assert_eq!((version.bytes, version.modified, range), (None, None, 0..u64::MAX));
    assert!(data == file);
    assert!(remote().look(&ask(&url(&server), 0..u64::MAX)).is_ok());
    let (server, _) = Script { end: "451 disk error", ..Script::new(&unknown) }.serve();
    let mut opened = remote().open(&ask(&url(&server), 0..u64::MAX)).expect("it begins");
    let error = opened.body.read_to_end(&mut Vec::new()).expect_err("it did not end well");
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn what_epsv_does_not_bring_pasv_does() {
    // A port where nobody listens any more.
    let dead =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port").local_addr().expect("its address");
    let dead: &'static str = format!("229 extended (|||{}|)", dead.port()).leak();
    for epsv in ["500 what?", "550 Permission denied", "425 Can't open", "229 extended (||1|)", dead] {
        let script = Script::new(&[("EPSV", epsv), ("PASV", "227 passive (10,99,99,99,PORT)")]);
        let file = script.file.clone();
        let (server, logins) = script.serve();
        let mut remote = remote();
        for start in [0, 1_000] {
            let (_, _, data) = get(&mut *remote, &ask(&url(&server), start..start + 10)).expect(epsv);
            assert!(data == file[start as usize..][..10], "{epsv}");
        }
        assert_eq!(logins.load(Ordering::Relaxed), 1, "{epsv}: on one control connection");
    }
    // A file that is not there says nothing of EPSV.
    let (server, _) = Script::new(&[("RETR", "550 no such file"), ("PASV", "502 no")]).serve();
    let mut remote = remote();
    for _ in 0..2 {
        let refusal = remote.open(&ask(&url(&server), 0..10)).expect_err("it is not there");
        assert_eq!(refusal.why, Why::Missing, "{refusal:?}");
    }
}

#[test]
fn what_has_no_answer_with_an_end_is_asked_once_for_all_workers() {
    const BARE: [(&str, &str); 4] =
        [("SIZE", "502"), ("MDTM", "502"), ("EPSV", "500"), ("PASV", "227 passive (10,99,99,99,PORT)")];
    let settings = ServerSettings { timeout: Duration::from_millis(300), ..ServerSettings::default() };
    for (replies, expected) in [(&BARE[1..2], 2), (&BARE[2..], 2), (&BARE[..], 4)] {
        let script = Script::new(replies);
        let file = script.file.clone();
        let (server, logins) = script.serve();
        let servers = Servers::new(&settings);
        for worker in 0..2 {
            let (_, _, data) = get(&mut *servers.remote(), &ask(&url(&server), 0..u64::MAX)).expect("it");
            assert!(data == file, "{replies:?}");
            assert_eq!(logins.load(Ordering::Relaxed), expected + worker, "{replies:?}");
        }
    }
    // What cannot be done without is given up, and said.
    let (server, _) = Script::new(&[("PASS", "230")]).serve();
    let refusal = Servers::new(&settings).remote().open(&ask(&url(&server), 0..10)).expect_err("no end");
    assert_eq!(refusal.why, Why::Unreachable, "{refusal:?}");
    assert!(refusal.error.message.contains("or does not end its answer"), "{refusal:?}");
}

#[test]
fn without_size_all_of_it_comes_whatever_part_is_asked_for() {
    let script = Script::new(&[("SIZE", "502 no")]);
    let file = script.file.clone();
    let (server, _) = script.serve();
    let (version, range, data) = get(&mut *remote(), &ask(&url(&server), 0..1_000)).expect("it");
    assert_eq!((version.bytes, version.ranges, range), (None, false, 0..u64::MAX));
    assert!(data == file);
}

#[test]
fn a_transfer_that_is_cut_is_never_taken_for_whole() {
    for (then, kind) in [(Then::Close, ErrorKind::UnexpectedEof), (Then::Hang, ErrorKind::TimedOut)] {
        let (server, _) = Script { sends: 1_000, then, ..Script::new(&[]) }.serve();
        let settings = ServerSettings { timeout: Duration::from_millis(300), ..settings() };
        let mut opened =
            Servers::new(&settings).remote().open(&ask(&url(&server), 0..u64::MAX)).expect("it begins");
        let mut data = Vec::new();
        let error = opened.body.read_to_end(&mut data).expect_err("it ends early");
        assert_eq!((error.kind(), data.len()), (kind, 1_000), "{error}");
    }
}

#[test]
fn more_than_its_size_is_an_error() {
    let (server, _) = Script::new(&[("SIZE", "213 1000")]).serve();
    let mut opened = remote().open(&ask(&url(&server), 0..u64::MAX)).expect("it begins");
    let error = opened.body.read_to_end(&mut Vec::new()).expect_err("it goes on");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    // A part of it has an end of its own.
    assert_eq!(get(&mut *remote(), &ask(&url(&server), 0..10)).expect("it").2.len(), 10);
}

#[test]
fn a_part_cut_short_leaves_the_control_connection_in_step() {
    // Some servers answer a data connection that was closed with two replies.
    for (end, logins_expected) in [("226 done", 1), ("426 cut\r\n226 closed", 3)] {
        let script = Script { end, ..Script::new(&[]) };
        let file = script.file.clone();
        let (server, logins) = script.serve();
        let mut remote = remote();
        for start in [0, 1_000, 2_000] {
            let (_, _, data) = get(&mut *remote, &ask(&url(&server), start..start + 10)).expect("it");
            assert!(data == file[start as usize..][..10]);
        }
        assert_eq!(logins.load(Ordering::Relaxed), logins_expected, "{end}");
    }
}

#[test]
fn a_changed_time_is_another_version() {
    let (server, _) = Script::new(&[]).serve();
    let url = url(&server);
    let mut version = remote().look(&ask(&url, 0..u64::MAX)).expect("it");
    let time = version.modified.as_mut().expect("a time");
    assert_eq!(time.seconds, 1_577_934_245, "2020-01-02 03:04:05 in UTC");
    time.seconds += 1;
    let refusal = remote().open(&Ask { version: Some(&version), ..ask(&url, 0..10) }).expect_err("changed");
    assert_eq!(refusal.why, Why::Changed);
}

#[test]
fn an_untrusted_certificate_and_a_server_without_tls_are_refused() {
    let root = tempfile::tempdir().expect("a directory");
    let Some(vsftpd) = Vsftpd::start(root.path(), Security::Explicit) else {
        return skip(
            "an_untrusted_certificate_and_a_server_without_tls_are_refused",
            "vsftpd is not installed",
        );
    };
    let refusal = remote().open(&ask(&vsftpd.url("x"), 0..1)).expect_err("not trusted");
    assert_eq!(refusal.why, Why::Denied, "{refusal:?}");
    assert!(refusal.error.message.contains("not trusted"), "{refusal:?}");
    let (server, logins) = Script::new(&[]).serve();
    let refusal = remote().open(&ask(&server.url_as("ftps", "file"), 0..1)).expect_err("no TLS there");
    assert_eq!(refusal.why, Why::Senseless, "{refusal:?}");
    assert_eq!(logins.load(Ordering::Relaxed), 0, "no password goes out in clear");
}

#[test]
fn a_wrong_password_is_denied_and_stays_secret() {
    let root = tempfile::tempdir().expect("a directory");
    let Some(vsftpd) = Vsftpd::start(root.path(), Security::Clear) else {
        return skip("a_wrong_password_is_denied_and_stays_secret", "vsftpd is not installed");
    };
    let mut url = vsftpd.url("x");
    url.set_username("somebody").expect("set");
    url.set_password(Some("open barley")).expect("set");
    let refusal = remote().open(&ask(&url, 0..1)).expect_err("not let in");
    assert_eq!(
        (refusal.why, refusal.error.kind),
        (Why::Denied, error::ErrorKind::Authentication),
        "{refusal:?}"
    );
    assert!(!refusal.error.message.contains("barley"), "{refusal:?}");
}

#[test]
fn it_works_over_ipv6_and_in_active_mode() {
    let root = tempfile::tempdir().expect("a directory");
    let file = noise(22, 100_000);
    std::fs::write(root.path().join("x"), &file).expect("written");
    let test = "it_works_over_ipv6_and_in_active_mode";
    let Some(vsftpd) = Vsftpd::start(root.path(), Security::Clear) else {
        return skip(test, "vsftpd is not installed");
    };
    let active = ServerSettings { ftp_active: true, ..settings() };
    let (_, _, data) =
        get(&mut *Servers::new(&active).remote(), &ask(&vsftpd.url("x"), 9..90_000)).expect("it");
    assert!(data == file[9..90_000]);
    drop(vsftpd);
    if TcpListener::bind(SocketAddr::from((Ipv6Addr::LOCALHOST, 0))).is_err() {
        return skip(test, "this machine has no IPv6 on loopback");
    }
    let six = "listen=NO\nlisten_ipv6=YES\nlisten_address6=::\n";
    let vsftpd = Vsftpd::with(root.path(), Security::Clear, six).expect("it was there a moment ago");
    let url = Url::parse(&format!("ftp://[::1]:{}/x", vsftpd.port())).expect("a URL");
    for range in [0..u64::MAX, 9..90_000] {
        let (_, _, data) = get(&mut *remote(), &ask(&url, range.clone())).expect("it");
        assert!(data == file[range.start as usize..(range.end as usize).min(file.len())]);
    }
}
