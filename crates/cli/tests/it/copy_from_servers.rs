//! Copies of what servers have, to an endpoint and to here: trees, filters, mirrors, faults, kills, odd keys.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::Value;
use testkit::moto::{Moto, NO_MOTO};
use testkit::nginx::Nginx;
use testkit::scripted::{Request, Scripted, Then, http};
use testkit::vsftpd::{Security, Vsftpd};
use testkit::{noise, skip};

use crate::common::service::Service;
use crate::common::{Ran, World, finish, signal, wait};

const MIB: usize = 1 << 20;
const LISTS: &str = "autoindex on;";

/// Every file beneath a directory.
pub(crate) fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(at: &Path, name: &str, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(at).expect("listed").flatten() {
            let name = format!("{name}{}", entry.file_name().to_string_lossy());
            match entry.file_type().expect("known").is_dir() {
                true => walk(&entry.path(), &format!("{name}/"), found),
                false => drop(found.insert(name, fs::read(entry.path()).expect("read"))),
            }
        }
    }
    let mut found = BTreeMap::new();
    if root.exists() {
        walk(root, "", &mut found);
    }
    found
}

/// A world whose directory `www` an nginx serves.
fn web(test: &str, fill: impl FnOnce(&World)) -> Option<(World, Nginx)> {
    let world = World::new();
    fs::create_dir(world.path("www")).expect("made");
    fill(&world);
    let nginx = Nginx::with(&world.path("www"), "", LISTS);
    if nginx.is_none() {
        skip(test, "nginx is not installed");
    }
    nginx.map(|nginx| (world, nginx))
}

pub(crate) fn failed(ran: &Ran, code: i32, wanted: &str) {
    assert!(
        ran.code == code && ran.err.lines().count() == 1 && ran.err.contains(wanted),
        "{wanted}: {ran:?}"
    );
}

/// A request to a store of S3 without anything of the tester's own.
fn of_store(world: &World, endpoint: &str) -> Command {
    let mut command = world.command();
    command
        .env("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
        .env("AWS_ENDPOINT_URL_S3", endpoint);
    command
}

pub(crate) fn small_tree(world: &World) {
    world.fill("www/tree/large", 9 * MIB + 7, 1);
    world.write("www/tree/empty", "");
    for n in 0..300 {
        world.fill(format!("www/tree/sub{}/file {n}+%.dat", n % 7), 1 + 37 * n, n as u64 + 2);
    }
    world.write("www/tree/deep/er/x#y?z", "odd");
}

#[test]
fn a_tree_of_a_web_server_arrives_at_an_endpoint_and_is_there_the_second_time() {
    let test = "a_tree_of_a_web_server_arrives_at_an_endpoint_and_is_there_the_second_time";
    let Some((world, nginx)) = web(test, small_tree) else { return };
    let endpoint = world.endpoint("there", &[]);
    let (from, to) = (nginx.url("tree/").to_string(), endpoint.at("in/"));
    let (code, summary) = world.json(&["copy", &from, &to]);
    assert_eq!((code, &summary["files"]["ok"]), (0, &Value::from(303)), "{summary}");
    assert_eq!(files(&world.path("there/in")), files(&world.path("www/tree")));
    let time = |path| fs::metadata(world.path(path)).expect("there").modified().expect("known");
    let seconds = |path| time(path).duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    assert_eq!(seconds("there/in/large"), seconds("www/tree/large"));
    let before = nginx.requests().len();
    let (code, summary) = world.json(&["copy", &from, &to]);
    assert_eq!((code, &summary["files"]["skipped"]), (0, &Value::from(303)), "{summary}");
    let again = nginx.requests();
    assert!(again[before..].iter().all(|line| !line.contains("GET /tree/large")), "nothing is read again");
    // Without a slash the directory itself.
    let from = nginx.url("tree/deep").to_string();
    world.ok(&["copy", "-q", &from, &endpoint.at("whole/")]);
    assert_eq!(world.tree("there/whole"), ["deep/", "deep/er/", "deep/er/x#y?z"]);
}

#[test]
fn one_file_gets_its_name_or_another_and_sources_are_put_together() {
    let test = "one_file_gets_its_name_or_another_and_sources_are_put_together";
    let Some((world, nginx)) = web(test, small_tree) else { return };
    let endpoint = world.endpoint("there", &[]);
    let (large, empty) = (nginx.url("tree/large").to_string(), nginx.url("tree/empty").to_string());
    world.ok(&["copy", "-q", &large, &endpoint.at("")]);
    world.ok(&["copy", "-q", &large, &endpoint.at("renamed")]);
    world.ok(&["copy", "-q", &large, &empty, &endpoint.at("both/")]);
    world.ok(&["copy", "-q", &empty, &endpoint.at("nothing")]);
    assert_eq!(world.tree("there"), ["both/", "both/empty", "both/large", "large", "nothing", "renamed"]);
    assert_eq!(world.read("there/renamed"), world.read("www/tree/large"));
    assert!(world.read("there/nothing").is_empty());
    // To here, too, where `get` has no option for it.
    world.ok(&["copy", "-q", &large, &world.text("here")]);
    world.ok(&["copy", "-q", "--exclude", "sub*", nginx.url("tree/").as_ref(), &world.text("tree/")]);
    assert_eq!(world.read("here"), world.read("www/tree/large"));
    assert_eq!(world.tree("tree"), ["deep/", "deep/er/", "deep/er/x#y?z", "empty", "large"]);
    let ran = world.run(&["copy", &large, &world.text("www"), &endpoint.at("")]);
    failed(&ran, 2, "is at no server");
}

#[test]
fn filters_choose_what_is_copied_and_what_no_listing_answers_is_refused() {
    let test = "filters_choose_what_is_copied_and_what_no_listing_answers_is_refused";
    let fill = |world: &World| {
        for name in ["a.txt", "b.tmp", "keep/c.txt", "keep/d.tmp", "drop/e.txt", "large"] {
            world.fill(format!("www/d/{name}"), if name == "large" { 5000 } else { 50 }, name.len() as u64);
        }
    };
    let Some((world, nginx)) = web(test, fill) else { return };
    let endpoint = world.endpoint("there", &["--allow-delete"]);
    let from = nginx.url("d/").to_string();
    let copy = |options: &[&str], to: &str| {
        let to = endpoint.at(to);
        let words = [&["copy", "-q"], options, &[&from, &to]].concat();
        world.ok(&words);
    };
    copy(&["--exclude", "*.tmp", "--exclude", "drop/", "--max-size", "1K"], "rules/");
    assert_eq!(world.tree("there/rules"), ["a.txt", "keep/", "keep/c.txt"]);
    assert!(nginx.requests().iter().all(|line| !line.contains("/d/drop/")), "it is not even listed");
    world.write("names", "keep\nlarge\nno\n");
    let ran = world.run(&["copy", "--files-from", &world.text("names"), &from, &endpoint.at("names/")]);
    assert!(ran.code == 1 && ran.err.contains("no: there is no such file at the source"), "{ran:?}");
    assert_eq!(world.tree("there/names"), ["keep/", "keep/c.txt", "keep/d.tmp", "large"]);
    copy(&["--newer-than", "2100-01-01"], "none/");
    assert!(files(&world.path("there/none")).is_empty());
    for (option, wanted) in [
        ("--delete", "--delete needs a listing that leaves nothing out, as s3://, gs:// and sftp:// give"),
        ("--move", "--move removes files at the source, and a server's files stay there"),
        ("--filter=:e .rules", "a server's listing has none to read them from"),
        ("--one-file-system", "a server tells of no file systems"),
        ("--links=follow", "a server tells of no links"),
    ] {
        failed(&world.run(&["copy", option, &from, &endpoint.at("no/")]), 2, wanted);
    }
    assert!(!world.path("there/no").exists() && files(&world.path("www/d")).len() == 6);
}

#[test]
fn a_job_copies_from_a_server_to_an_endpoint_by_its_address_or_its_name() {
    let test = "a_job_copies_from_a_server_to_an_endpoint_by_its_address_or_its_name";
    let Some((world, nginx)) = web(test, small_tree) else { return };
    let endpoint = world.endpoint("there", &[]);
    world.ok(&["remote", "add", "dtn", &endpoint.at("")]);
    let service = Service::start(&world, "service", &[]);
    let from = nginx.url("tree/").to_string();
    for (to, at) in [(endpoint.at("one/"), "one"), ("dtn:two/".to_owned(), "two")] {
        let ran = service.run(&world, &["submit", &from, &to, "--option=--exclude=sub*", "--wait"]);
        assert_eq!(ran.code, 0, "{ran:?} {}", service.log());
        assert_eq!(
            world.tree(format!("there/{at}")),
            ["deep/", "deep/er/", "deep/er/x#y?z", "empty", "large"]
        );
    }
    let ran = service.run(&world, &["submit", &from, &endpoint.at("x/"), "--option=--max-connections=3"]);
    failed(&ran, 2, "in a job by `tidegate copy`");
    let ran = service.run(&world, &["submit", nginx.url("absent/").as_ref(), &endpoint.at("x/"), "--wait"]);
    failed(&ran, 1, "404");
    assert_eq!(service.terminate(), 0);
}

#[test]
fn what_is_not_there_or_not_ours_is_said_in_one_line() {
    let test = "what_is_not_there_or_not_ours_is_said_in_one_line";
    let Some((world, nginx)) = web(test, small_tree) else { return };
    let endpoint = world.endpoint("there", &[]);
    let to = endpoint.at("in/");
    for (from, code, wanted) in [
        ("absent", 3, "404"),
        ("absent/", 3, "404"),
        ("forbidden/x", 5, "403"),
        ("private/tree/large", 5, "401"),
    ] {
        failed(&world.run(&["copy", nginx.url(from).as_ref(), &to]), code, wanted);
    }
    failed(&world.run(&["copy", "http://127.0.0.1:1/x", "--retry-for", "0s", &to]), 1, "127.0.0.1");
    failed(&world.run(&["copy", "gopher://h/x", &to]), 2, "gopher");
    failed(
        &world.run(&["copy", nginx.url("tree/large").as_ref(), "gs://bucket/x"]),
        2,
        "nothing is put to gs://bucket/x",
    );
    failed(&world.run(&["verify", nginx.url("tree/large").as_ref(), &to]), 2, "no host that runs Tidegate");
    assert!(!world.path("there/in").exists());
}

#[test]
fn an_ftp_server_is_listed_and_read() {
    let world = World::new();
    fs::create_dir(world.path("www")).expect("made");
    small_tree(&world);
    world.write("www/tree/[odd] *name", "odd");
    world.write("www/tree/-dash/ blank", "blank");
    let Some(ftp) = Vsftpd::start(&world.path("www"), Security::Clear) else {
        return skip("an_ftp_server_is_listed_and_read", "vsftpd is not installed");
    };
    let endpoint = world.endpoint("there", &[]);
    world.ok(&["copy", "-q", ftp.url("tree/").as_ref(), &endpoint.at("in/")]);
    assert_eq!(files(&world.path("there/in")), files(&world.path("www/tree")));
    world.ok(&["copy", "-q", ftp.url("tree/deep").as_ref(), &endpoint.at("whole/")]);
    assert_eq!(world.tree("there/whole"), ["deep/", "deep/er/", "deep/er/x#y?z"]);
    failed(&world.run(&["copy", ftp.url("no/").as_ref(), &endpoint.at("x/")]), 3, "550");
}

#[test]
fn a_bucket_is_copied_by_its_keys_and_keys_that_are_no_names_are_told() {
    let Some(moto) = Moto::start() else {
        return skip("a_bucket_is_copied_by_its_keys_and_keys_that_are_no_names_are_told", NO_MOTO);
    };
    let world = World::new();
    let endpoint = world.endpoint("there", &["--allow-delete"]);
    let large = noise(5, 6 * MIB + 1);
    moto.put("p/large", &large);
    moto.put("p/empty", b"");
    moto.put("p/a b/c+d%", b"odd");
    moto.put("p/back\\slash", b"slash");
    let copy = |more: &[&str], from: &str, to: &str| {
        let mut command = of_store(&world, &moto.endpoint());
        finish(command.arg("copy").args(more).args([from, &endpoint.at(to)]))
    };
    let ran = copy(&["-q"], "s3://bucket/p/", "in/");
    assert!(ran.code == 0 && ran.err.is_empty(), "{ran:?}");
    assert_eq!(world.tree("there/in"), ["a b/", "a b/c+d%", "back\\slash", "empty", "large"]);
    assert_eq!(world.read("there/in/large"), large);
    assert_eq!(copy(&["-q"], "s3://bucket/p/large", "one").code, 0);
    assert_eq!(world.read("there/one"), large);
    assert_eq!(copy(&["-q"], "s3://bucket/p", "whole/").code, 0);
    assert_eq!(world.read("there/whole/p/a b/c+d%"), b"odd");
    // A mirror: what is not at the source goes, what rules exclude stays.
    for name in ["extra/x", "z.bak", "large.old"] {
        world.write(format!("there/in/{name}"), "of before");
    }
    let ran = copy(&["-n", "--delete", "--exclude", "*.bak"], "s3://bucket/p/", "in/");
    assert!(
        ran.code == 0 && ran.out.contains("extra/x") && world.path("there/in/extra/x").exists(),
        "{ran:?}"
    );
    let ran = copy(&["-q", "--delete", "--exclude", "*.bak"], "s3://bucket/p/", "in/");
    assert!(ran.code == 0 && ran.err.is_empty(), "{ran:?}");
    assert_eq!(world.tree("there/in"), ["a b/", "a b/c+d%", "back\\slash", "empty", "large", "z.bak"]);
    // Keys that are no file names: each is told, and the rest goes on.
    let long = format!("p/{}", "n".repeat(900));
    for key in ["p/a b", "p/x//y", "p/../up", long.as_str()] {
        moto.put(key, b"no");
    }
    world.write("there/in/old", "stays");
    let ran = copy(&["--delete"], "s3://bucket/p/", "in/");
    assert_eq!(ran.code, 1, "{ran:?}");
    for wanted in ["the source has a file called a b", "x//y", "longer than 255 bytes"] {
        assert!(ran.err.contains(wanted), "{wanted}: {ran:?}");
    }
    assert_eq!(world.read("there/in/old"), b"stays", "nothing is deleted where not all is known");
    for (from, code, wanted) in [
        ("s3://nobucket/p/", 3, "NoSuchBucket"),
        ("s3://bucket/none", 3, "s3://bucket/none"),
        ("s3://bucket/none/", 3, "nothing lies beneath"),
    ] {
        failed(&copy(&[], from, "no/"), code, wanted);
    }
}

#[test]
fn a_webdav_server_that_shows_no_pages_is_listed() {
    let server = Scripted::http(|request| {
        let method = request.lines[0].split(' ').next().expect("a method");
        let member = |href: &str, kind: &str| {
            format!(
                "<d:response><d:href>{href}</d:href><d:propstat><d:prop><d:resourcetype>{kind}</d:resourcetype></d:prop></d:propstat></d:response>"
            )
        };
        let members = match request.path() {
            "/d/" => {
                [member("/d/", "<d:collection/>"), member("/d/a", ""), member("/d/sub/", "<d:collection/>")]
                    .concat()
            }
            "/d/sub/" => [member("/d/sub/", "<d:collection/>"), member("/d/sub/b%20c", "")].concat(),
            _ => String::new(),
        };
        let xml = format!("<d:multistatus xmlns:d=\"DAV:\">{members}</d:multistatus>");
        let length = xml.len().to_string();
        let is_file = members.is_empty();
        let answer = match method {
            "PROPFIND" if request.header("depth") == Some("1") => http(
                "207 Multi-Status",
                &[("Content-Length", &length), ("Content-Type", "text/xml")],
                xml.as_bytes(),
            ),
            "HEAD" if is_file => http("200 OK", &[("Content-Length", "4"), ("ETag", "\"e\"")], b""),
            "GET" if is_file => http("200 OK", &[("Content-Length", "4"), ("ETag", "\"e\"")], b"file"),
            _ => http("405 Method Not Allowed", &[("Content-Length", "0")], b""),
        };
        (answer, Then::Keep)
    });
    let world = World::new();
    let endpoint = world.endpoint("there", &[]);
    world.ok(&["copy", "-q", server.url("d/").as_ref(), &endpoint.at("in/")]);
    assert_eq!(world.tree("there/in"), ["a", "sub/", "sub/b c"]);
    assert_eq!(world.read("there/in/sub/b c"), b"file");
}

#[test]
fn a_bucket_that_is_not_for_everybody_is_told_in_one_line() {
    const DENIED: &[u8] = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>";
    let length = DENIED.len().to_string();
    let store = Scripted::http(move |request| {
        let body = if request.lines[0].starts_with("HEAD") { b"" } else { DENIED };
        (http("403 Forbidden", &[("Content-Length", &length)], body), Then::Keep)
    });
    let world = World::new();
    let endpoint = world.endpoint("there", &[]);
    for from in ["s3://bucket/key", "s3://bucket/prefix/"] {
        let mut command = world.command();
        command.env("AWS_ENDPOINT_URL_S3", store.url("").as_str().trim_end_matches('/'));
        let ran = finish(command.args(["copy", from, &endpoint.at("in/")]));
        failed(&ran, 5, "no credentials were found");
    }
}

/// A server in this process, with ranges and tags, whose answers are cut or changed as a test says.
pub(crate) struct Faulty {
    pub content: Mutex<(Vec<u8>, String)>,
    /// Bytes of a body after which it resets the connection, and how often.
    pub cuts: AtomicUsize,
    pub at: usize,
    pub ranges: AtomicBool,
    pub sized: bool,
    /// After so many requests it is another one, which comes whole.
    pub changes: Mutex<Option<(usize, Vec<u8>)>>,
}

impl Faulty {
    pub fn new(content: Vec<u8>) -> Self {
        let content = Mutex::new((content, "\"one\"".to_owned()));
        let (cuts, ranges) = (AtomicUsize::new(0), AtomicBool::new(true));
        Self { content, cuts, at: 300_000, ranges, sized: true, changes: Mutex::default() }
    }

    fn answer(&self, request: &Request) -> (Vec<u8>, Then) {
        let changed = self.changes.lock().expect("whole").take_if(|(after, _)| *after < request.number);
        if let Some((_, content)) = changed {
            *self.content.lock().expect("whole") = (content, "\"two\"".to_owned());
            self.cuts.store(0, SeqCst);
        }
        let (content, tag) = self.content.lock().expect("whole").clone();
        let is_head = request.lines[0].starts_with("HEAD");
        if request.header("if-match").is_some_and(|wanted| wanted != tag) {
            return (http("412 Precondition Failed", &[("Content-Length", "0")], b""), Then::Keep);
        }
        let asked = request.header("range").filter(|_| self.ranges.load(SeqCst)).map(|range| {
            let (start, end) = range.trim_start_matches("bytes=").split_once('-').expect("a range");
            let end = end.parse::<usize>().map_or(content.len(), |end| (end + 1).min(content.len()));
            (start.parse::<usize>().expect("a start"), end)
        });
        let (start, end) = asked.unwrap_or((0, content.len()));
        let (length, total) = ((end - start).to_string(), content.len());
        let range = format!("bytes {start}-{}/{total}", end.saturating_sub(1));
        let mut headers = vec![("ETag", &tag[..])];
        if self.ranges.load(SeqCst) {
            headers.push(("Accept-Ranges", "bytes"));
        }
        if asked.is_some() {
            headers.push(("Content-Range", &range));
        }
        match self.sized {
            true => headers.push(("Content-Length", &length)),
            false => headers.push(("Transfer-Encoding", "chunked")),
        }
        let status = if asked.is_some() { "206 Partial Content" } else { "200 OK" };
        let body = &content[start..end];
        if is_head {
            return (http(status, &headers, b""), Then::Keep);
        }
        if !self.sized {
            let body = [format!("{:x}\r\n", body.len()).as_bytes(), body, b"\r\n0\r\n\r\n"].concat();
            return (http(status, &headers, &body), Then::Keep);
        }
        let is_cut = body.len() > self.at
            && self.cuts.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
        match is_cut {
            true => (http(status, &headers, &body[..self.at]), Then::Reset),
            false => (http(status, &headers, body), Then::Keep),
        }
    }

    pub fn serve(self) -> (Arc<Self>, Scripted) {
        let faulty = Arc::new(self);
        let answering = Arc::clone(&faulty);
        (faulty, Scripted::http(move |request| answering.answer(request)))
    }
}

#[test]
fn a_copy_goes_on_where_connections_are_cut() {
    let world = World::new();
    let content = noise(3, 9 * MIB + 11);
    let (faulty, server) = Faulty::new(content.clone()).serve();
    faulty.cuts.store(12, SeqCst);
    let endpoint = world.endpoint("there", &[]);
    let (code, summary) = world.json(&["copy", "--start", "2", server.url("x").as_ref(), &endpoint.at("y")]);
    assert_eq!((code, &summary["bytes"]), (0, &Value::from(content.len())), "{summary}");
    assert_eq!((faulty.cuts.load(SeqCst), world.read("there/y") == content), (0, true));
}

#[test]
fn a_server_that_goes_away_and_one_that_is_busy_are_waited_for() {
    let test = "a_server_that_goes_away_and_one_that_is_busy_are_waited_for";
    let world = World::new();
    world.fill("www/x", 3 * MIB, 1);
    let limit = "location /limited/ { alias WWW/; limit_rate 1m; }";
    let limit = limit.replace("WWW", &world.text("www"));
    let Some(mut nginx) = Nginx::with(&world.path("www"), "", &limit) else {
        return skip(test, "nginx is not installed");
    };
    let endpoint = world.endpoint("there", &[]);
    let mut command = world.command();
    command.args(["copy", "-q", "--optimizer=fixed:1", nginx.url("limited/x").as_ref(), &endpoint.at("x")]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    std::thread::sleep(Duration::from_millis(800));
    nginx.restart();
    let ran = wait(child);
    assert!(ran.code == 0, "{ran:?}");
    assert!(world.read("there/x") == world.read("www/x"));
    let asked = AtomicUsize::new(0);
    let server = Scripted::http(move |request| {
        let is_head = request.lines[0].starts_with("HEAD");
        if !is_head && asked.fetch_add(1, SeqCst) < 2 {
            let headers = [("Retry-After", "0"), ("Content-Length", "0")];
            return (http("503 Service Unavailable", &headers, b""), Then::Keep);
        }
        let headers = [("ETag", "\"e\""), ("Content-Length", "4")];
        (http("200 OK", &headers, if is_head { b"" } else { b"busy" }), Then::Keep)
    });
    world.run(&["copy", "-q", server.url("busy").as_ref(), &endpoint.at("")]);
    assert_eq!(world.read("there/busy"), b"busy");
}

#[test]
fn content_that_is_not_what_its_server_vouches_for_gets_no_name() {
    let world = World::new();
    let endpoint = world.endpoint("there", &[]);
    let server = Scripted::http(|request| {
        let sum = match request.path() {
            "/good" => "sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:",
            _ => "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:",
        };
        let headers = [("ETag", "\"e\""), ("Content-Length", "5"), ("Repr-Digest", sum)];
        let body: &[u8] = if request.lines[0].starts_with("HEAD") { b"" } else { b"hello" };
        (http("200 OK", &headers, body), Then::Keep)
    });
    world.ok(&["copy", "-q", server.url("good").as_ref(), &endpoint.at("")]);
    let ran = world.run(&["copy", "-q", server.url("bad").as_ref(), &endpoint.at("")]);
    failed(&ran, 1, "its server says that its sha256 is 0000");
    assert_eq!(world.tree("there"), ["good"]);
}

#[test]
fn a_file_that_changes_while_it_is_copied_is_not_mixed() {
    let world = World::new();
    let changes = Mutex::new(Some((5, noise(4, 9 * MIB))));
    let (faulty, server) = Faulty { changes, ..Faulty::new(noise(3, 9 * MIB)) }.serve();
    faulty.cuts.store(usize::MAX, SeqCst);
    let endpoint = world.endpoint("there", &[]);
    world.write("there/x", "of before");
    let to = endpoint.at("");
    let ran = world.run(&["copy", server.url("x").as_ref(), &to]);
    assert!(ran.code == 1 && ran.err.contains("changed"), "{ran:?}");
    assert_eq!(world.read("there/x"), b"of before");
    world.ok(&["copy", "-q", server.url("x").as_ref(), &to]);
    assert!(world.read("there/x") == noise(4, 9 * MIB));
}

#[test]
fn a_file_of_an_untold_version_comes_in_one_answer() {
    let world = World::new();
    let endpoint = world.endpoint("there", &[]);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    // Each answer has other bytes, and neither a tag nor a time.
    let server = Scripted::http(move |request| {
        let size = 13 * MIB;
        let range = request.header("range").map(|range| {
            let (start, end) = range.trim_start_matches("bytes=").split_once('-').expect("a range");
            let end = end.parse::<usize>().map_or(size, |end| (end + 1).min(size));
            (start.parse::<usize>().expect("a start"), end)
        });
        let (start, end) = range.unwrap_or((0, size));
        let (length, told) = ((end - start).to_string(), format!("bytes {start}-{}/{size}", end - 1));
        let headers = [("Content-Length", &length[..]), ("Accept-Ranges", "bytes"), ("Content-Range", &told)];
        let (status, headers) = match range {
            Some(_) => ("206 Partial Content", &headers[..]),
            None => ("200 OK", &headers[..2]),
        };
        if request.lines[0].starts_with("HEAD") {
            return (http(status, headers, b""), Then::Keep);
        }
        let content = vec![count.fetch_add(1, SeqCst) as u8; end - start];
        (http(status, headers, &content), Then::Keep)
    });
    let (from, to) = (server.url("x").to_string(), endpoint.at("z"));
    let words = ["copy", "-q", "--chunk-size=4MiB", "--start=4", "--optimizer=fixed:4", &from, &to];
    world.ok(&words);
    let got = world.read("there/z");
    assert!(got.len() == 13 * MIB && got.iter().all(|&byte| byte == got[0]), "one version: {asked:?}");
}

#[test]
fn an_interrupt_ends_a_copy_whose_server_says_nothing() {
    let world = World::new();
    let endpoint = world.endpoint("there", &[]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://{}/x/", listener.local_addr().expect("an address"));
    let mut command = world.command();
    command.args(["copy", &url, &endpoint.at("x/")]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("started");
    let (_silent, _) = listener.accept().expect("asked");
    signal(child.id(), Signal::INT);
    let ran = wait(child);
    assert!(ran.code == 130 && ran.err.contains("run the same command again"), "{ran:?}");
}

#[test]
fn a_listing_goes_on_once_its_server_is_back() {
    let world = World::new();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let server = Scripted::http(move |request| {
        let page = |body: &str| http("200 OK", &[("Content-Type", "text/html")], body.as_bytes());
        let answer = match request.lines[0].split(' ').nth(1).unwrap_or_default() {
            "/x/" => page("<a href=\"d/\">d/</a>"),
            // Away for longer than a few tries take.
            "/x/d/" if count.fetch_add(1, SeqCst) < 6 => {
                http("503 Service Unavailable", &[("Retry-After", "1")], b"")
            }
            "/x/d/" => page("<a href=\"f\">f</a>"),
            _ => http("200 OK", &[("Content-Length", "1"), ("ETag", "\"a\"")], b"f"),
        };
        (answer, Then::Close)
    });
    let ran = world.run(&[
        "copy",
        "-q",
        "--retry-for",
        "1s",
        server.url("x/").as_ref(),
        &world.path("short").to_string_lossy(),
    ]);
    failed(&ran, 1, "given up after");
    asked.store(0, SeqCst);
    world.ok(&["copy", "-q", server.url("x/").as_ref(), &world.path("there").to_string_lossy()]);
    assert_eq!(world.read("there/d/f"), b"f");
    assert_eq!(asked.load(SeqCst), 7);
}

#[test]
fn servers_without_ranges_are_read_and_those_without_sizes_are_told() {
    let world = World::new();
    let endpoint = world.endpoint("there", &[]);
    let content = noise(3, 3 * MIB + 5);
    let (faulty, server) = Faulty::new(content.clone()).serve();
    faulty.ranges.store(false, SeqCst);
    world.ok(&["copy", "-q", server.url("x").as_ref(), &endpoint.at("")]);
    assert!(world.read("there/x") == content);
    // Large ones in one answer, which readers hand on.
    world.fill("www/x", 13 * MIB + 5, 4);
    let Some(nginx) = Nginx::start(&world.path("www")) else {
        return skip(
            "servers_without_ranges_are_read_and_those_without_sizes_are_told",
            "nginx is not installed",
        );
    };
    let from = nginx.url("noranges/x").to_string();
    world.ok(&[
        "copy",
        "-q",
        "--chunk-size=4MiB",
        "--start=4",
        "--optimizer=fixed:4",
        &from,
        &endpoint.at("z"),
    ]);
    assert!(world.read("there/z") == world.read("www/x"));
    let asked = nginx.requests().into_iter().filter(|line| line.contains("GET")).collect::<Vec<_>>();
    let whole = asked.iter().filter(|line| line.ends_with(" -")).count();
    assert!(
        whole <= 4 && asked.len() <= whole + 4,
        "each of four readers asks once for a part, and once for all at most: {asked:?}"
    );
    let (_faulty, server) = Faulty { sized: false, ..Faulty::new(content) }.serve();
    let ran = world.run(&["copy", server.url("y").as_ref(), &endpoint.at("")]);
    failed(&ran, 1, "its server does not tell how long it is");
}

#[test]
fn a_copy_that_was_killed_goes_on_and_nothing_partial_has_a_name() {
    let test = "a_copy_that_was_killed_goes_on_and_nothing_partial_has_a_name";
    let fill = |world: &World| {
        world.fill("www/d/large", 42 * MIB, 1);
        world.fill("www/d/small", 1000, 2);
    };
    let Some((world, nginx)) = web(test, fill) else { return };
    let endpoint = world.endpoint("there", &[]);
    let (from, to) = (nginx.url("d/").to_string(), endpoint.at("in/"));
    for _ in 0..2 {
        let mut command = world.command();
        command.args(["copy", "-q", "--limit-link", "40Mbit/s", "--start", "2", &from, &to]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started");
        std::thread::sleep(Duration::from_millis(3000));
        signal(child.id(), Signal::KILL);
        assert_eq!(wait(child).code, -1);
        assert!(!world.path("there/in/large").exists(), "it has a name before it is whole");
    }
    let (code, summary) = world.json(&["copy", &from, &to]);
    assert_eq!(code, 0, "{summary}");
    assert!(
        summary["bytes"].as_u64().is_some_and(|bytes| bytes < 40 * MIB as u64),
        "what was there is kept: {summary}"
    );
    assert_eq!(files(&world.path("there/in")), files(&world.path("www/d")));
}

/// A store with so many objects of one byte beneath `many/`, in this process.
fn many(objects: usize) -> Scripted {
    const PAGE: usize = 1000;
    Scripted::http(move |request| {
        let path = request.path();
        let (place, query) = path.split_once('?').unwrap_or((path, ""));
        if place.trim_end_matches('/') != "/bucket" {
            let headers = [("ETag", "\"e\""), ("Content-Length", "1"), ("Accept-Ranges", "bytes")];
            let modified = ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT");
            let headers = [&headers[..], &[modified]].concat();
            let body: &[u8] = if request.lines[0].starts_with("HEAD") { b"" } else { b"x" };
            return (http("200 OK", &headers, body), Then::Keep);
        }
        let token = query.split('&').find_map(|pair| pair.strip_prefix("continuation-token="));
        let from: usize = token.and_then(|token| token.parse().ok()).unwrap_or(0);
        let to = (from + PAGE).min(objects);
        let mut xml = String::from("<ListBucketResult>");
        for n in from..to {
            let key = format!("many/{:03}/{n:06}", n / 500);
            xml.push_str(&format!("<Contents><Key>{key}</Key><Size>1</Size><ETag>\"e\"</ETag></Contents>"));
        }
        xml.push_str(&format!("<IsTruncated>{}</IsTruncated>", to < objects));
        if to < objects {
            xml.push_str(&format!("<NextContinuationToken>{to}</NextContinuationToken>"));
        }
        xml.push_str("</ListBucketResult>");
        let length = xml.len().to_string();
        (http("200 OK", &[("Content-Length", &length)], xml.as_bytes()), Then::Keep)
    })
}

#[test]
fn a_listing_of_twenty_thousand_objects_flows() {
    const OBJECTS: usize = 20_000;
    let (world, store) = (World::new(), many(OBJECTS));
    let endpoint = world.endpoint("there", &[]);
    let place = store.url("").to_string();
    let mut command = of_store(&world, place.trim_end_matches('/'));
    command.args(["copy", "-n", "--json", "s3://bucket/many/", &endpoint.at("in/")]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let mut out = child.stdout.take().expect("piped");
    // The first are told before the last page was asked for.
    out.read_exact(&mut [0; 100]).expect("an entry");
    let pages = || store.requests().iter().filter(|request| request.path().contains("list-type")).count();
    assert!(pages() < OBJECTS / 1000, "{} pages were asked for", pages());
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    let ran = wait(child);
    assert!(ran.code == 0 && ran.err.is_empty(), "{ran:?}");
    let summary: Value = rest.lines().last().and_then(|line| serde_json::from_str(line).ok()).expect("JSON");
    assert_eq!(summary["new"]["files"].as_u64(), Some(OBJECTS as u64), "{summary}");
}
