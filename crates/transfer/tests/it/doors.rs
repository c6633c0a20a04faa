//! What a ticket does not open: other hosts, more time, what files hold, and what the endpoint keeps for itself.

use crate::common;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::{Fixture, assert_same_tree, content, dial, drive, is_error, limit, write};
use testkit::mounted::Mounted;
use testkit::skip;
use tidegate_transfer::endpoint::{Config, Endpoint};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::selection::Deletion;
use tidegate_transfer::spec::SourceSpec;
use tidegate_transfer::terms::{Compare, Links, Purpose};
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::transfer::file_client::{FileClient, WantedRange};
use tidegate_transfer::transfer::route::{From, To, begin};
use tidegate_transfer::wire::files::{Content, FileKind, FileRequest};
use tidegate_transfer::wire::message::Message;
use tidegate_transfer::wire::request::RequestKind;
use tidegate_transfer::wire::ticket::{Address, Claims};
use tidegate_transfer::wire::tls::Trust;
use tidegate_transfer::wire::way::Carriers;

/// What `f` answers to whoever may only read and asks it to send to `destination`.
fn send_to(f: &Fixture, destination: &Address) -> Error {
    let reader = f.endpoint.address(&Claims { write: false, ..Claims::FULL }).expect("an address");
    let trust = Trust::Pinned(reader.ticket.as_ref().expect("a ticket").fingerprint);
    let (outbox, inbox) = dial(&reader, &trust.client().expect("set up")).expect("let in");
    outbox.send(
        &RequestKind::SendTo {
            source: SourceSpec::Files(vec![b"file".to_vec()]),
            destination: destination.to_bytes(),
            pace_ms: (100, 0),
        }
        .under(f.terms.clone())
        .into(),
    );
    match inbox.receive().expect("an answer") {
        Message::Refused(error) => error,
        other => panic!("{other:?}"),
    }
}

/// An endpoint's address under another name, at another port.
fn at(address: &Address, host: &str, port: u16) -> Address {
    Address { host: host.into(), port, ..address.clone() }
}

#[test]
fn an_endpoint_tells_nobody_what_it_reaches() {
    let (a, b) = (Fixture::new(), Fixture::new());
    write(&a.root.join("file"), 10, 1);
    let closed =
        std::net::TcpListener::bind("127.0.0.1:0").expect("bound").local_addr().expect("bound").port();
    // It speaks no TLS and hangs up.
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let open = other.local_addr().expect("bound").port();
    std::thread::spawn(move || other.incoming().for_each(drop));
    let unreachable: Vec<Error> = [
        at(&b.address, "127.0.0.1", closed),
        at(&b.address, "127.0.0.1", open),
        at(&b.address, "no-such-host.invalid", 7117),
        // Another endpoint than the ticket's.
        at(&b.address, "127.0.0.1", a.address.port),
    ]
    .iter()
    .map(|destination| send_to(&a, destination))
    .collect();
    assert!(unreachable[0].message.contains("cannot open a session with the destination"), "{unreachable:?}");
    assert!(unreachable.iter().all(|error| *error == unreachable[0]), "{unreachable:?}");

    let strict = Fixture::with(|config| config.allow_local_targets = false);
    write(&strict.root.join("file"), 10, 1);
    for host in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "169.254.169.254", "fe80::1", "224.0.0.1"]
    {
        let error = send_to(&strict, &at(&b.address, host, b.address.port));
        assert_eq!(error.kind, ErrorKind::Denied, "{host}: {error}");
        assert!(error.message.contains("--allow-local-targets"), "{error}");
    }
    // A name says no more than one that does not exist.
    assert_eq!(send_to(&strict, &at(&b.address, "localhost", b.address.port)), unreachable[0]);
    assert_eq!(send_to(&strict, &at(&b.address, "no-such-host.invalid", 7117)), unreachable[0]);
}

/// A ticket for so long.
fn for_seconds(f: &Fixture, seconds: u64) -> Address {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    f.endpoint.address(&Claims { expires: Some(now + seconds), ..Claims::FULL }).expect("an address")
}

fn assert_expired(error: &Error) {
    assert_eq!(error.kind, ErrorKind::Authentication, "{error}");
    let told = error.message.contains("expired") && error.message.contains("run the same command");
    assert!(told && !error.message.contains('\n'), "{error}");
}

#[test]
fn a_session_ends_with_its_ticket_and_a_new_one_continues() {
    let mut f = Fixture::new();
    let source = f.dir("source");
    for i in 0..20 {
        write(&source.join(format!("{i}")), 200_000, i);
    }
    // So slow that it would take a minute.
    f.terms.limits = limit(1);
    let brief = for_seconds(&f, 2);
    let error =
        is_error(f.run(&f.local(std::slice::from_ref(&source)), &To::Endpoint(brief.with_path("in/"))));
    assert_expired(&error);
    f.terms.limits = limit(1000);
    let totals = f.push(std::slice::from_ref(&source), "in/");
    assert_eq!(totals.files_failed, 0);
    assert_same_tree(&source, &f.root.join("in/source"));

    f.terms.limits = limit(1);
    let brief = for_seconds(&f, 2);
    let here = f.dir("here").as_os_str().as_encoded_bytes().to_vec();
    let error = is_error(f.run(&From::Endpoint(brief, vec![b"in".to_vec()]), &To::Local(here)));
    assert_expired(&error);
}

#[test]
fn a_third_party_transfer_ends_with_either_ticket() {
    let (mut a, b) = (Fixture::new(), Fixture::new());
    write(&a.root.join("file"), 5_000_000, 1);
    a.terms.limits = limit(1);
    let from = From::Endpoint(for_seconds(&a, 2), vec![b"file".to_vec()]);
    assert_expired(&is_error(a.run(&from, &b.to_endpoint(""))));
    // The first run lets go of its destination in a moment.
    let error = loop {
        let to = To::Endpoint(for_seconds(&b, 2));
        let error = is_error(a.run(&a.remote(&["file"]), &to));
        if error.kind != ErrorKind::Busy {
            break error;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_expired(&error);
}

#[test]
fn a_session_that_asks_nothing_ends_with_its_ticket() {
    let f = Fixture::new();
    let address = for_seconds(&f, 1);
    let trust = Trust::Pinned(address.ticket.as_ref().expect("a ticket").fingerprint);
    let (_outbox, inbox) = dial(&address, &trust.client().expect("set up")).expect("let in");
    match inbox.receive_within(Duration::from_secs(20)).expect("an answer") {
        Some(Message::Refused(error)) => assert_expired(&error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_ticket_to_write_learns_no_hashes() {
    let (mut f, a) = (Fixture::new(), Fixture::new());
    let source = f.source(&[("file", 10_000)]);
    write(&a.root.join("source/file"), 10_000, 1);
    // Where the content is the same, the time is taken over too.
    let time = fs::metadata(source.join("file")).and_then(|meta| meta.modified()).expect("a time");
    let copy = fs::File::options().write(true).open(a.root.join("source/file")).expect("open");
    copy.set_modified(time).expect("set");
    f.push(std::slice::from_ref(&source), "in/");
    f.terms.compare = Compare::Checksum;
    let writer = f.endpoint.address(&Claims { read: false, ..Claims::FULL }).expect("an address");
    let to = To::Endpoint(writer.with_path("in/"));
    for purpose in [Purpose::Copy, Purpose::Compare, Purpose::Plan] {
        f.terms.purpose = purpose;
        let error = is_error(f.run(&f.local(std::slice::from_ref(&source)), &to));
        assert!(error.kind == ErrorKind::Denied && error.message.contains("--checksum"), "{error}");
        assert!(!error.message.contains('\n'), "{error}");
        // Nor by way of a third one.
        let from = a.remote(&["source"]);
        let error = is_error(f.run(&from, &to));
        assert!(error.kind == ErrorKind::Denied && error.message.contains("--checksum"), "{error}");
        // With a ticket to read as well both do.
        assert_eq!(f.push(std::slice::from_ref(&source), "in/").files_skipped, 1);
        let (totals, failures) = f.run(&from, &f.to_endpoint("in/")).expect("ran");
        assert_eq!((totals.files_skipped, failures.len()), (1, 0), "{failures:?}");
    }
    // A dry run says of what is there more than that.
    (f.terms.compare, f.terms.purpose) = (Compare::Recorded, Purpose::Plan);
    let error = is_error(f.run(&f.local(std::slice::from_ref(&source)), &to));
    assert!(error.kind == ErrorKind::Denied && error.message.contains("a dry run would tell"), "{error}");
    f.terms.purpose = Purpose::Copy;
    let (totals, _) = f.run(&f.local(&[source]), &to).expect("needs no hashes");
    assert_eq!(totals.files_skipped, 1);
}

/// An endpoint of which the state, and a key outside of that, lie beneath the root.
struct Private {
    f: Fixture,
    /// Where the state is by now.
    state: PathBuf,
    secrets: Vec<Vec<u8>>,
}

/// Everything may go.
fn all_may_go() -> Option<Deletion> {
    Some(Deletion { most: Some(u64::MAX), ..Deletion::default() })
}

impl Private {
    fn new() -> Self {
        let f = Fixture::with(|config| {
            fs::create_dir(config.root.join("keys")).expect("made");
            fs::write(config.root.join("keys/https.pem"), "the key for HTTPS").expect("written");
            config.state = config.root.join("home/.state");
            config.private = vec![config.root.join("keys/https.pem")];
        });
        let state = f.root.join("home/.state");
        let private = Self { state, f, secrets: Vec::new() };
        let secrets = private.kept();
        private.data();
        Self { secrets, ..private }
    }

    /// What must not be told nor changed.
    fn kept(&self) -> Vec<Vec<u8>> {
        let state = ["endpoint.secret", "endpoint.key.pem"].map(|name| self.state.join(name));
        let files = state.into_iter().chain([self.f.root.join("keys/https.pem")]);
        files.map(|file| fs::read(file).expect("there")).collect()
    }

    /// What may.
    fn data(&self) {
        write(&self.f.root.join("home/data"), 1000, 1);
        write(&self.f.root.join("keys/public"), 1000, 2);
    }

    fn address(&self, path: &str) -> Address {
        self.f.endpoint.address(&Claims { path: path.into(), ..Claims::OWNER }).expect("an address")
    }

    fn pull(&self, address: &Address, paths: &[&str], to: &Path) -> tidegate_transfer::error::Result<()> {
        let paths = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        let to = To::Local(to.as_os_str().as_bytes().to_vec());
        self.f.run(&From::Endpoint(address.clone(), paths), &to).map(drop)
    }

    /// Whoever holds a ticket for everything finds nothing at `path`, and can put nothing there.
    fn opens_nothing(&self, path: &str) {
        let whole = self.address("");
        let client =
            FileClient::connect(&whole, &Carriers::default(), None, 1, Duration::ZERO, &Interrupt::default())
                .expect("let in");
        let none = Interrupt::default();
        let new = || Content(b"new".to_vec());
        for request in [
            FileRequest::Write { path: path.into(), content: new() },
            FileRequest::Write { path: format!("{path}/new").into(), content: new() },
            FileRequest::Remove { path: path.into() },
            FileRequest::Remove { path: format!("{path}/endpoint.secret").into() },
            FileRequest::RemoveDirectory { path: path.into() },
            FileRequest::RemoveDirectory { path: format!("{path}/catalogue").into() },
            FileRequest::Rename { from: path.into(), to: "elsewhere".into() },
            FileRequest::Rename { from: "keys/public".into(), to: path.into() },
            FileRequest::Rename { from: "keys/public".into(), to: format!("{path}/new").into() },
            FileRequest::MakeDirectory { path: path.into(), parents: false },
            FileRequest::MakeDirectory { path: format!("{path}/new").into(), parents: true },
            FileRequest::Mark { path: path.into(), mark: [7; 16] },
        ] {
            let is_link = self.f.root.join(path).is_symlink();
            // A link is what it is: whoever may write there made it, and may make it anew.
            if is_link
                && !matches!(
                    &request,
                    FileRequest::MakeDirectory { parents: true, .. } | FileRequest::Mark { .. }
                )
            {
                continue;
            }
            let changed = client.change(vec![request.clone()], &none).expect("answered").remove(0);
            assert!(changed.is_err(), "{request:?}");
        }
        for path in [path.to_owned(), format!("{path}/endpoint.secret"), format!("{path}/catalogue")] {
            let range = WantedRange { path: path.clone().into(), version: None, range: 0..10 };
            client.read(vec![range].as_slice(), &none).expect("answered").remove(0).expect_err(&path);
            client.hash(path.as_bytes(), &none).expect_err(&path);
            let listed = client.list(path.as_bytes(), true, &none);
            assert!(
                listed.is_ok_and(|listed| listed.itself.kind == FileKind::Link)
                    || client.list(path.as_bytes(), true, &none).is_err(),
                "{path}"
            );
            let narrow = self.address(&path);
            for address in [&whole, &narrow] {
                let back = self.f.dir("back");
                is_error(self.pull(address, &[&path], &back));
                is_error(self.pull(address, &[&format!("{path}/")], &back));
            }
        }
        let source = self.f.dir("planted");
        write(&source.join("endpoint.secret"), 64, 9);
        let to = To::Endpoint(whole.with_path(format!("{path}/")));
        let planted = self.f.run(&self.f.local(&[source.join("endpoint.secret")]), &to);
        assert!(planted.map_or(true, |(totals, _)| totals.files_done == 0), "{path}");
    }

    /// Nothing of it is found by who takes everything, and nothing is removed by who mirrors nothing there.
    fn stays_and_is_not_told(&self) {
        let whole = self.address("");
        let client =
            FileClient::connect(&whole, &Carriers::default(), None, 1, Duration::ZERO, &Interrupt::default())
                .expect("let in");
        let listed = client.list(b"", true, &Interrupt::default()).expect("listed");
        let listed: Vec<String> = listed.entries.iter().map(|entry| entry.path.to_string()).collect();
        assert!(!listed.iter().any(|path| path.contains("secret") || path == "keys/https.pem"), "{listed:?}");
        for links in [Links::Keep, Links::Follow] {
            let back = self.f.dir("back");
            write(&back.join("extraneous"), 10, 1);
            let mut setup = self.f.setup();
            (setup.terms.links, setup.deletion) = (links, all_may_go());
            let from = From::Endpoint(whole.clone(), vec![b"".to_vec()]);
            let to = To::Local(back.as_os_str().as_bytes().to_vec());
            let begun = begin(&from, &to, &setup).expect("begun");
            drive(begun, self.f.setpoint).expect("pulled");
            assert_eq!(fs::read(back.join("home/data")).expect("there"), content(1000, 1));
            assert!(
                !back.join("extraneous").exists() || links == Links::Follow,
                "what is hidden keeps no mirror"
            );
            self.is_not_in(&back);
        }
        for (source, into) in
            [("empty", ""), ("empty", "home/"), ("empty", "keys/"), ("planted", "home/.state/")]
        {
            let mut setup = self.f.setup();
            setup.deletion = all_may_go();
            let source = [self.f.dir(source).as_os_str().as_bytes(), b"/"].concat();
            if let Ok(begun) =
                begin(&From::Local(vec![source]), &To::Endpoint(whole.clone().with_path(into)), &setup)
            {
                let _ = drive(begun, self.f.setpoint);
            }
        }
        assert!(!self.f.root.join("home/data").exists() && !self.f.root.join("keys/public").exists());
        assert_eq!(self.kept(), self.secrets);
        self.data();
    }

    fn is_not_in(&self, tree: &Path) {
        for (path, there) in common::picture(tree) {
            let there = there.unwrap_or_default();
            let told = |secret: &Vec<u8>| there.windows(secret.len()).any(|window| window == &secret[..]);
            assert!(!self.secrets.iter().any(told), "{}", path.display());
        }
    }
}

#[test]
fn what_the_endpoint_keeps_for_itself_is_not_there_by_any_name() {
    let mut private = Private::new();
    let root = private.f.root.clone();
    symlink(".state", root.join("home/link")).expect("linked");
    symlink(root.join("home/.state/endpoint.secret"), root.join("home/one")).expect("linked");
    symlink("../keys/https.pem", root.join("home/key")).expect("linked");
    fs::hard_link(root.join("home/.state/endpoint.secret"), root.join("hard")).expect("linked");
    fs::hard_link(root.join("keys/https.pem"), root.join("keys/hard")).expect("linked");
    for path in ["home/.state", "home/link", "home/one", "home/key", "hard", "keys/https.pem", "keys/hard"] {
        private.opens_nothing(path);
    }
    // What contains it keeps its name: else nobody would find it there again.
    let client = FileClient::connect(
        &private.address(""),
        &Carriers::default(),
        None,
        1,
        Duration::ZERO,
        &Interrupt::default(),
    )
    .expect("let in");
    for name in ["home", "keys"] {
        let rename = FileRequest::Rename { from: name.into(), to: "elsewhere".into() };
        client.change(vec![rename], &Interrupt::default()).expect("answered").remove(0).expect_err(name);
    }
    for link in ["home/link", "home/one", "home/key", "hard", "keys/hard"] {
        fs::remove_file(root.join(link)).expect("removed");
    }
    private.stays_and_is_not_told();
    // Somebody on that host gives it another name, and another link.
    fs::rename(root.join("home/.state"), root.join("moved")).expect("renamed");
    private.state = root.join("moved");
    fs::hard_link(root.join("moved/endpoint.key.pem"), root.join("home/later")).expect("linked");
    private.opens_nothing("moved");
    private.opens_nothing("home/later");
    fs::remove_file(root.join("home/later")).expect("removed");
    private.stays_and_is_not_told();
    assert_eq!(private.f.endpoint.not_served(), [root.join("home/.state"), root.join("keys/https.pem")]);
}

#[test]
fn a_mount_does_not_show_what_the_endpoint_keeps_for_itself() {
    let private = Private::new();
    let root = &private.f.root;
    write(&root.join("file"), 10, 1);
    let mounts = [("home/.state", "mount"), ("home", "whole")];
    let mounts = mounts.map(|(from, to)| Mounted::bind(&root.join(from), &root.join(to)));
    let file = Mounted::bind(&root.join("home/.state/endpoint.secret"), &root.join("file"));
    if mounts.iter().any(Option::is_none) || file.is_none() {
        return skip(
            "a_mount_does_not_show_what_the_endpoint_keeps_for_itself",
            "nothing can be mounted here",
        );
    }
    for path in ["mount", "whole/.state", "file"] {
        private.opens_nothing(path);
    }
    let back = private.f.dir("back");
    private.pull(&private.address(""), &["mount", "whole", "file"], &back).expect_err("not there");
    private.pull(&private.address(""), &["whole", ""], &back).expect("the rest");
    private.is_not_in(&back);
}

#[test]
fn another_state_is_known_by_its_mark_and_by_that_of_its_copy() {
    let f = Fixture::new();
    let state = f.root.join("user/state");
    Endpoint::bind(Config::local(f.dir("elsewhere"), &state)).expect("bound");
    let copied = std::process::Command::new("cp").arg("-a").arg(&state).arg(f.root.join("copy")).status();
    assert!(copied.expect("ran").success());
    write(&f.root.join("user/data"), 10, 1);
    let back = f.dir("back");
    f.pull(&[""], &back);
    let there: Vec<_> = common::picture(&back).into_iter().map(|(path, _)| path).collect();
    assert_eq!(there, [back.join("user"), back.join("user/data")]);
    // Nobody makes a mark through an endpoint, and nobody else's hides a directory.
    let client =
        FileClient::connect(&f.address, &Carriers::default(), None, 1, Duration::ZERO, &Interrupt::default())
            .expect("let in");
    let mark = FileRequest::Write { path: "user/.tidegate/private".into(), content: Content(Vec::new()) };
    client.change(vec![mark], &Interrupt::default()).expect("answered").remove(0).expect_err("reserved");
    // A root that is a state is a mistake.
    for root in [&state, &f.root.join("copy")] {
        let error = is_error(Endpoint::bind(Config::local(root, f.dir("own-state"))));
        assert!(error.kind == ErrorKind::Usage && error.message.contains("--state"), "{error}");
    }
    // One that lies in its state is none.
    let inner = f.dir("endpoint-state/data");
    Endpoint::bind(Config::local(&inner, f.dir("endpoint-state"))).expect("bound");
}
