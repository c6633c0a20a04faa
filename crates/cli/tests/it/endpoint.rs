//! What an endpoint promises: its ticket lasts, it opens no more than it says, it ends in order, and
//! no secret is ever written where others may read it.

use crate::common;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use crate::common::{World, eventually, signal, wait};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustix::process::Signal;

#[test]
fn the_ticket_survives_a_restart_and_ends_with_the_secret() {
    let world = World::new();
    world.write("file", "file");
    let a = world.endpoint("a", &[]);
    let (ticket, place) = (a.address.clone(), a.place());
    world.ok(&["copy", "file", &a.at("one")]);
    assert_eq!(a.terminate(), 0);
    let a = world.endpoint_at("a", &place, &[]);
    assert_eq!(a.address, ticket);
    world.ok(&["copy", "file", &a.at("two")]);
    drop(a);
    for name in ["endpoint.secret", "endpoint.key.pem"] {
        let mode = fs::metadata(world.state_of("a").join(name)).expect("there").permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600, "{name}");
    }
    fs::remove_file(world.state_of("a").join("endpoint.secret")).expect("removed");
    let a = world.endpoint_at("a", &place, &[]);
    let ran = world.run(&["copy", "file", &format!("{ticket}three")]);
    assert!(ran.code == 5 && ran.err.contains("the ticket is not valid here"), "{ran:?}");
    // Another endpoint's certificate is noticed before anything is said.
    drop(a);
    fs::remove_dir_all(world.state_of("a")).expect("removed");
    let _a = world.endpoint_at("a", &place, &[]);
    let ran = world.run(&["copy", "file", &format!("{ticket}three")]);
    assert!(ran.code == 5 && ran.err.contains("certificate is not the one"), "{ran:?}");
    assert_eq!(world.tree("a"), ["one", "two"]);
}

#[test]
fn a_first_signal_lets_a_transfer_finish_and_refuses_new_ones() {
    let world = World::new();
    let mut a = world.endpoint("a", &[]);
    world.fill("file", 10 << 20, 1);
    let mut command = world.command();
    command.args(["copy", "file", &a.at("x/"), "--limit-link", "40Mbit/s", "--epochs", "epochs"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    eventually(|| fs::read_to_string(world.path("epochs")).is_ok_and(|text| !text.is_empty()));
    signal(a.id(), Signal::TERM);
    eventually(|| a.log().contains("draining"));
    assert!(!a.has_ended());
    assert_eq!(world.run(&["copy", "file", &a.at("y/"), "--retry-for", "1s"]).code, 1);
    let ran = wait(child);
    assert_eq!(ran.code, 0, "{ran:?}");
    // A second signal would end it at once.
    assert_eq!(a.end(), 0);
    assert_eq!(world.tree("a"), ["x/", "x/file"]);
}

#[test]
fn a_read_only_endpoint_gives_and_takes_nothing() {
    let world = World::new();
    let a = world.endpoint("a", &["--read-only"]);
    world.write("a/file", "file");
    world.ok(&["copy", &a.at("file"), "back"]);
    let ran = world.run(&["copy", "back", &a.at("in")]);
    assert!(ran.code == 5 && ran.err.contains("read-only"), "{ran:?}");
    let b = world.endpoint("b", &[]);
    world.ok(&["copy", &a.at("file"), &b.at("third")]);
    let ran = world.run(&["copy", &b.at("third"), &a.at("in")]);
    assert!(ran.code == 5 && ran.err.contains("read-only"), "{ran:?}");
    assert_eq!(world.tree("a"), ["file"]);
}

#[test]
fn a_narrowed_ticket_opens_no_more_than_it_says() {
    let world = World::new();
    let a = world.endpoint("a", &[]);
    world.write("a/in/file", "file");
    world.write("a/inside/file", "file");
    world.write("new", "new");
    let state = world.state_of("a");
    let narrowed = |more: &[&str]| {
        let state = state.to_str().expect("text");
        let place = a.place();
        let out = world.ok(&[&["ticket", &place, "--state", state], more].concat());
        out.trim_end().to_owned()
    };
    let allowed = |from: &str, to: &str| {
        let ran = world.run(&["copy", from, to]);
        assert!(ran.code == 0 || ran.err.lines().count() == 1, "{ran:?}");
        assert!(!ran.err.contains("tg://") || ran.err.contains('…'), "{ran:?}");
        ran.code
    };
    let beneath = narrowed(&["--path", "in"]);
    assert!(beneath.ends_with("/in"), "the path is part of it");
    let elsewhere = |path: &str| format!("{}{path}", beneath.strip_suffix("in").expect("its path"));
    assert_eq!(allowed(&format!("{beneath}/file"), "one"), 0);
    assert_eq!(allowed("new", &format!("{beneath}/new")), 0);
    // The last is no name that may be asked for.
    for path in ["inside/file", "", "in/../inside/file"] {
        assert_eq!(allowed(&elsewhere(path), "never/"), 5, "{path}");
        assert_eq!(allowed("new", &elsewhere(path)), 5, "{path}");
    }
    let reading = narrowed(&["--read-only"]);
    assert_eq!(
        (allowed(&format!("{reading}in/file"), "two"), allowed("new", &format!("{reading}two"))),
        (0, 5)
    );
    let writing = narrowed(&["--write-only"]);
    assert_eq!(
        (allowed(&format!("{writing}in/file"), "three"), allowed("new", &format!("{writing}three"))),
        (5, 0)
    );
    let short = narrowed(&["--expires", "1s"]);
    assert_eq!(allowed(&format!("{short}in/file"), "four"), 0);
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let ran = world.run(&["copy", &format!("{short}in/file"), "five"]);
    assert!(ran.code == 5 && ran.err.contains("expired"), "{ran:?}");
    assert_eq!(world.run(&["ticket", "h", "--read-only", "--write-only"]).code, 2);
    assert_eq!(world.tree("a"), ["in/", "in/file", "in/new", "inside/", "inside/file", "three"]);
    assert!(!world.path("never").exists());
}

#[test]
fn clear_data_must_be_asked_for_on_both_ends() {
    let world = World::new();
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &["--data-plane", "clear"]));
    world.fill("file", 1 << 20, 1);
    let clear = ["--data-plane", "clear"];
    let ran = world.run(&[&["copy", "file", &a.at("x")], &clear[..]].concat());
    assert!(ran.code == 5 && ran.err.contains("not allowed here"), "{ran:?}");
    world.ok(&[&["copy", "file", &b.at("x")], &clear[..]].concat());
    world.ok(&[&["copy", &b.at("x"), "back"], &clear[..]].concat());
    world.ok(&["copy", "file", &b.at("y")]);
    assert!(world.read("back") == world.read("file") && !world.path("a/x").exists());
}

/// A CA whose certificate is in the file `name`.
fn authority(world: &World, name: &str) -> Issuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    world.write(name, params.self_signed(&key).expect("signed").pem());
    Issuer::new(params, key)
}

/// Options with what `issuer` certifies of `name`.
fn certify(world: &World, name: &str, issuer: &Issuer<'_, KeyPair>) -> [&'static str; 6] {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
    world.write(format!("{name}.pem"), params.signed_by(&key, issuer).expect("signed").pem());
    world.write(format!("{name}.key"), key.serialize_pem());
    let [cert, key] = ["pem", "key"].map(|end| -> &str { format!("{name}.{end}").leak() });
    ["--tls-ca", "ca.pem", "--tls-cert", cert, "--tls-key", key]
}

#[test]
fn a_sites_certificates_are_read_again_and_nothing_ends() {
    let world = World::new();
    let before = authority(&world, "ca.pem");
    let (us, server) = (certify(&world, "us", &before), certify(&world, "server", &before));
    let a = world.endpoint("a", &[&["-v"], &server[..]].concat());
    world.write("file", "x");
    let copy = |to: &str| [&["copy", "file", &a.at(to), "--retry-for", "0s"], &us[..]].concat().join(" ");
    let runs = |to: &str| world.run(&copy(to).split(' ').collect::<Vec<_>>()).code;
    let mut command = world.command();
    world.fill("large", 3 << 20, 2);
    let slow = copy("slow").replace("copy file ", "copy large ");
    command.args(slow.split(' ')).args(["--limit-link", "10Mbit/s", "--max-workers", "1"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    eventually(|| world.path("a/.tidegate").exists());
    // Another authority, and what it certifies, in the same files.
    let kept = ["ca.pem", "us.pem", "us.key"].map(|name| (name, world.read(name)));
    let after = authority(&world, "ca.pem");
    for name in ["us", "server"] {
        certify(&world, name, &after);
    }
    assert_eq!(runs("early"), 5, "what was read at the start is shown until it is read again");
    signal(a.id(), Signal::HUP);
    eventually(|| a.log().contains("the site's certificates were read again"));
    assert_eq!(runs("x"), 0, "{}", a.log());
    let ran = wait(child);
    assert!(ran.code == 0 && ran.err.is_empty(), "{ran:?} {}", a.log());
    let renewed = ["ca.pem", "us.pem", "us.key"].map(|name| (name, world.read(name)));
    // Whom the authority of before has certified is let in no more, though he knows the new one.
    kept[1..].iter().for_each(|(name, content)| world.write(name, content));
    assert_eq!(runs("old"), 5, "{}", a.log());
    renewed.iter().for_each(|(name, content)| world.write(name, content));
    // A damaged file, and a key of another certificate.
    for (damaged, content) in [("server.pem", &b"no certificate"[..]), ("server.key", &renewed[2].1)] {
        let good = world.read(damaged);
        world.write(damaged, content);
        let told = |log: &str| log.matches("the site's certificates stay those of before").count();
        let count = told(&a.log());
        signal(a.id(), Signal::HUP);
        eventually(|| told(&a.log()) == count + 1);
        assert_eq!(runs("y"), 0, "{damaged}: {}", a.log());
        world.write(damaged, good);
    }
    assert_eq!(world.tree("a"), ["slow", "x", "y"]);
}

#[test]
fn a_site_with_its_own_pki_needs_no_tickets() {
    let world = World::new();
    let (ours, theirs) = (authority(&world, "ca.pem"), authority(&world, "other.pem"));
    let (us, server, stranger) = (
        certify(&world, "us", &ours),
        certify(&world, "server", &ours),
        certify(&world, "stranger", &theirs),
    );
    let (a, b) = (world.endpoint("a", &server), world.endpoint("b", &server));
    assert!(!a.address.contains('@'), "no ticket is printed");
    world.fill("file", 1 << 20, 1);
    world.ok(&[&["copy", "file", &a.at("x")], &us[..]].concat());
    world.ok(&[&["copy", &a.at("x"), "back"], &us[..]].concat());
    world.ok(&[&["copy", &a.at("x"), &b.at("y")], &us[..]].concat());
    assert!(world.read("back") == world.read("file") && world.read("b/y") == world.read("file"));
    for (who, code, word) in [(&stranger[..], 5, "refused"), (&[], 2, "holds no ticket")] {
        let ran = world.run(&[&["copy", "file", &a.at("never")], who].concat());
        assert!(ran.code == code && ran.err.contains(word), "{ran:?}");
    }
    assert_eq!(world.tree("a"), ["x"]);
}

#[test]
fn secrets_never_reach_a_log() {
    let world = World::new();
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &[]));
    world.fill("file", 1 << 20, 1);
    world.ok(&["remote", "add", "a", &a.address]);
    let mut text = String::new();
    for arguments in [
        vec!["-vvv", "copy", "file", &a.at("x")],
        vec!["-vvv", "copy", &a.at("x"), &b.at("y")],
        vec!["-vvv", "copy", "a:x", "back"],
        vec!["-vvv", "copy", &a.at("nowhere"), "back"],
        vec!["remote", "list", &a.address],
        vec!["copy", &format!(" {}", a.address), "x"],
        vec!["copy", &a.address.replace("@", " "), "x"],
        vec!["probe", &a.address, "--json", "--bogus"],
        vec!["-vvv", "remote", "list"],
    ] {
        let ran = world.run(&arguments);
        text.push_str(&ran.out);
        text.push_str(&ran.err);
    }
    text.push_str(&a.log());
    text.push_str(&b.log());
    for entry in fs::read_dir(world.path("state/tidegate")).expect("there").flatten() {
        text.push_str(&fs::read_to_string(entry.path()).unwrap_or_default());
    }
    for secret in [a.secret(), b.secret()] {
        // Half of it would be too much.
        assert!(!text.contains(&secret[..40]) && !text.contains(&secret[60..]), "{text}");
    }
}

#[test]
fn an_endpoint_that_cannot_serve_says_why_in_one_line() {
    let world = World::new();
    let a = world.endpoint("a", &[]);
    for (arguments, code, word) in [
        (vec!["endpoint", "--root", "nowhere"], 3, "nowhere"),
        (vec!["endpoint", "--root", "a", "--listen", &a.place()], 1, "cannot listen"),
        (vec!["endpoint", "--root", "a", "--listen", "what"], 2, "cannot listen"),
        (vec!["endpoint"], 2, "--root"),
    ] {
        let ran = world.run(&arguments);
        assert_eq!((ran.code, ran.err.lines().count(), ran.out.as_str()), (code, 1, ""), "{ran:?}");
        assert!(ran.err.contains(word), "{ran:?}");
    }
}

#[test]
fn a_ticket_says_what_is_advertised() {
    let world = World::new();
    for (advertised, place) in [
        ("dtn.example.org:443", Some("dtn.example.org:443")),
        ("dtn.example.org", None),
        ("[2001:db8::1]:443", Some("[2001:db8::1]:443")),
        ("[2001:db8::1]", None),
    ] {
        let a = world.endpoint("a", &["--advertise", advertised]);
        match place {
            Some(place) => assert_eq!(a.place(), place),
            None => {
                let port = a.place().strip_prefix(advertised).expect("the host").to_owned();
                assert!(port.trim_start_matches(':').parse::<u16>().is_ok(), "{port}");
            }
        }
    }
    for bad in ["", "foo bar", "dtn:", "dtn:0", "dtn:70000", "::1", "[::1", "dtn:1:2", "a/b"] {
        let ran = world.run(&["endpoint", "--root", "a", "--advertise", bad]);
        assert_eq!((ran.code, ran.err.lines().count(), ran.out.as_str()), (2, 1, ""), "{bad}: {ran:?}");
        assert!(ran.err.contains("HOST[:PORT]"), "{ran:?}");
    }
}

#[test]
fn a_ticket_is_made_for_an_endpoint_that_there_is() {
    let world = World::new();
    let _a = world.endpoint("a", &[]);
    let state = world.text("a.state");
    for path in ["../x", "x/../y", "/..", ".", "x//y", "x/.tidegate/y"] {
        let ran = world.run(&["ticket", "--state", &state, "--path", path, "dtn.example.org"]);
        assert_eq!((ran.code, ran.err.lines().count(), ran.out.as_str()), (2, 1, ""), "{path}: {ran:?}");
        assert!(ran.err.contains("--path is beneath the endpoint's root"), "{ran:?}");
    }
    for place in ["", "foo bar", "dtn:x"] {
        let ran = world.run(&["ticket", "--state", &state, place]);
        assert_eq!((ran.code, ran.err.lines().count(), ran.out.as_str()), (2, 1, ""), "{place}: {ran:?}");
    }
    let out = world.ok(&["ticket", "--state", &state, "--path", "/x/y/", "dtn.example.org:443"]);
    assert!(out.ends_with("@dtn.example.org:443/x/y\n"), "{out}");
    // A directory that is none of an endpoint's, or is not there: no secret is made up.
    fs::create_dir(world.path("empty")).expect("made");
    for directory in ["empty", "missing"] {
        let ran = world.run(&["ticket", "--state", directory, "dtn.example.org"]);
        assert_eq!((ran.code, ran.err.lines().count(), ran.out.as_str()), (2, 1, ""), "{ran:?}");
        assert!(ran.err.contains("no endpoint keeps its state in") && ran.err.contains(directory), "{ran:?}");
    }
    assert!(world.tree("empty").is_empty() && !world.path("missing").exists());
}

#[test]
fn an_operator_lists_where_links_may_lead() {
    let world = World::new();
    world.write("lustre/f", "file");
    world.write("data/run", "run");
    fs::create_dir(world.path("a")).expect("made");
    std::os::unix::fs::symlink(world.path("lustre"), world.path("a/data")).expect("linked");
    let a = world.endpoint("a", &[]);
    for arguments in [["copy", &a.at("data/"), "back/"], ["copy", "data", &a.at("data/")]] {
        let ran = world.run(&arguments);
        assert_eq!((ran.code, ran.err.lines().count(), ran.out.as_str()), (5, 1, ""), "{ran:?}");
        assert!(ran.err.contains("the link data is not followed"), "{ran:?}");
    }
    drop(a);
    let a = world.endpoint("a", &["--follow", "data", "--follow", &world.text("lustre")]);
    world.ok(&["copy", &a.at("data/"), "back/"]);
    world.ok(&["copy", "data", &a.at("data/")]);
    assert_eq!(world.tree("back"), ["f"]);
    assert_eq!(world.tree("lustre"), ["data/", "data/run", "f"]);
}

/// What comes back for a GET at `place`.
fn get(place: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(place).expect("connected");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: there\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read");
    answer
}

/// What follows `said` in the log of an endpoint.
fn told(server: &common::Server, said: &str) -> String {
    eventually(|| server.log().contains(said));
    let log = server.log();
    let rest = log.split_once(said).map(|(_, rest)| rest.lines().next().unwrap_or_default());
    rest.unwrap_or_default().trim_end_matches("/metrics").to_owned()
}

#[test]
fn how_an_endpoint_stands_is_counted_and_a_hangup_ends_nothing() {
    let world = World::new();
    let a = world.endpoint("a", &["--status", "0"]);
    let status = told(&a, "telling how it stands at http://");
    assert!(status.starts_with("127.0.0.1:"), "the loopback alone: {status}");
    assert!(get(&status, "/healthz").starts_with("HTTP/1.1 200"));
    let metrics = get(&status, "/metrics");
    for line in
        ["tidegate_endpoint_root_available 1\n", "tidegate_endpoint_bytes_total{direction=\"sent\"} 0\n"]
    {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    world.fill("file", 2 << 20, 1);
    let mut command = world.command();
    command.args(["copy", "file", &a.at("there"), "--limit-link", "40Mbit/s", "--epoch", "200ms"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    eventually(|| get(&status, "/metrics").contains("tidegate_endpoint_transfers 1\n"));
    signal(a.id(), Signal::HUP);
    let ran = wait(child);
    assert_eq!(ran.code, 0, "{ran:?} {}", a.log());
    assert!(!ran.err.contains("trying again"), "{ran:?}");
    eventually(|| a.log().contains("there is no certificate of a server to be read again"));
    let wrong = a.at("x").replace(a.secret(), &a.secret()[..a.secret().len() - 2]);
    assert_ne!(world.run(&["copy", "file", &wrong, "--retry-for", "0s"]).code, 0);
    assert_eq!(world.run(&["ls", &a.at("nothing")]).code, 3);
    let metrics = get(&status, "/metrics");
    for line in [
        "tidegate_endpoint_transfers 0\n",
        "tidegate_endpoint_bytes_total{direction=\"received\"} 2097152\n",
        "tidegate_endpoint_files_total{direction=\"received\"} 1\n",
        "tidegate_endpoint_transfers_total{direction=\"received\",outcome=\"complete\"} 1\n",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    assert!(!metrics.contains(a.secret()));
}

#[test]
fn who_is_refused_is_in_the_log_by_address() {
    let world = World::new();
    world.fill("file", 1000, 1);
    let place = {
        let old = world.endpoint("a", &[]);
        let address = old.at("x");
        let place = old.place();
        drop(old);
        fs::remove_file(world.state_of("a").join("endpoint.secret")).expect("removed");
        (address, place)
    };
    let a = world.endpoint_at("a", &place.1, &["--status", "127.0.0.1:0"]);
    let status = told(&a, "telling how it stands at http://");
    assert_eq!(world.run(&["copy", "file", &place.0]).code, 5);
    eventually(|| a.log().contains("the ticket is not valid here"));
    let log = a.log();
    let line = log.lines().find(|line| line.contains("the ticket is not valid here")).unwrap_or_default();
    assert!(line.contains(" 127.0.0.1:") && line.contains(" was refused: "), "{line}");
    assert!(
        get(&status, "/metrics").contains("tidegate_endpoint_refused_total{cause=\"authentication\"} 1\n")
    );
    // Who speaks no TLS at all.
    let mut stranger = TcpStream::connect(&place.1).expect("connected");
    let _ = stranger.write_all(b"GET / HTTP/1.1\r\n\r\n");
    let from = stranger.local_addr().expect("an address").to_string();
    eventually(|| a.log().contains(&format!("{from} was refused: ")));
}

#[test]
fn a_root_that_is_removed_and_made_again_is_served_by_every_route() {
    let world = World::new();
    world.fill("file", 1000, 1);
    let a = world.endpoint("a", &["--http", "0"]);
    let http = told(&a, "advertised as http://");
    let state = world.state_of("a");
    let token = world.ok(&["ticket", "--http", "--state", state.to_str().expect("text")]);
    let by_http = || {
        let mut stream = TcpStream::connect(&http).expect("connected");
        let token = token.trim_end();
        write!(
            stream,
            "GET /file HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        )
        .expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("read");
        String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
    };
    let push = || world.run(&["copy", "file", &a.at("file"), "--retry-for", "0s"]);
    let pull = || world.run(&["copy", &a.at("file"), "back", "--retry-for", "0s"]);
    let list = || world.run(&["ls", &a.at("")]);
    assert_eq!((push().code, pull().code, list().code), (0, 0, 0));
    let root = world.path("a");
    fs::remove_dir_all(&root).expect("removed");
    // While it is gone that is what is said.
    for ran in [push(), pull(), list()] {
        assert!(ran.code != 0 && ran.err.contains("cannot serve "), "{ran:?}");
    }
    assert!(by_http().starts_with("HTTP/1.1 50"), "{}", by_http());
    // The first that comes to the new one is each of them.
    let again = || {
        let _ = fs::remove_dir_all(&root);
        fs::create_dir(&root).expect("made");
        fs::copy(world.path("file"), root.join("file")).expect("copied");
    };
    again();
    assert!(list().out.contains("file"), "{:?}", list());
    again();
    assert_eq!(by_http(), "HTTP/1.1 200 OK");
    again();
    assert_eq!(pull().code, 0);
    again();
    let ran = push();
    assert!(ran.code == 0 && world.read("a/file") == world.read("file"), "{ran:?}");
    // Never what an endpoint would not begin to serve, nor another place.
    fs::remove_dir_all(&root).expect("removed");
    std::os::unix::fs::symlink(&state, &root).expect("linked");
    for ran in [list(), pull(), world.run(&["copy", &a.at("endpoint.secret"), "stolen", "--retry-for", "0s"])]
    {
        assert!(ran.code != 0 && ran.err.contains("leads to"), "{ran:?}");
    }
    assert!(!by_http().starts_with("HTTP/1.1 2") && !world.path("stolen").exists());
    fs::remove_file(&root).expect("removed");
    fs::rename(&state, &root).expect("moved");
    let ran = world.run(&["copy", &a.at("endpoint.secret"), "stolen", "--retry-for", "0s"]);
    assert!(ran.code != 0 && !world.path("stolen").exists(), "{ran:?}");
}
