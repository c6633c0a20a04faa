//! What an endpoint serves over HTTPS, to the clients that people have.

use crate::common;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Server, World, eventually, finish};
use rcgen::{CertificateParams, KeyPair};
use rustix::process::Signal;
use serde_json::Value;

/// An endpoint that HTTP reaches, too.
struct Site {
    world: World,
    server: Server,
    /// Where, without a slash at its end.
    url: String,
}

impl Site {
    /// Serves what `fill` puts into the directory `root`.
    fn new(more: &[&str], fill: impl FnOnce(&World)) -> Self {
        let world = World::new();
        let key = KeyPair::generate().expect("a key");
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let certificate = CertificateParams::new(names).expect("names").self_signed(&key).expect("signed");
        world.write("cert.pem", certificate.pem());
        world.write("key.pem", key.serialize_pem());
        fill(&world);
        let (cert, key) = (world.text("cert.pem"), world.text("key.pem"));
        let mut options = vec!["--https", "127.0.0.1:0", "--https-cert", &cert, "--https-key", &key];
        options.extend(more);
        let server = world.endpoint("root", &options);
        let said = "advertised as https://";
        eventually(|| server.log().contains(said));
        let url =
            server.log().split_once(said).map(|(_, rest)| rest.lines().next().unwrap_or_default().to_owned());
        Self { url: format!("https://{}", url.expect("said")), server, world }
    }

    /// A token with the options of `tidegate ticket`.
    fn token(&self, options: &[&str]) -> String {
        let state = self.world.state_of("root");
        let state = state.to_str().expect("text");
        let words = [&["ticket", "--http", "--state", state], options].concat();
        self.world.ok(&words).trim_end().to_owned()
    }

    /// A client of this host, which trusts the certificate.
    fn client(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.world.path("home")).current_dir(self.world.path("")).stdin(Stdio::null());
        command
    }

    /// The status and the body that curl gets for `path`, with `token` if it is not empty.
    fn curl(&self, token: &str, path: &str, options: &[&str]) -> (u16, String) {
        let mut command = self.client("curl");
        command.args(["-sS", "--path-as-is", "--cacert", "cert.pem", "-w", "\n%{http_code}"]);
        if !token.is_empty() {
            command.arg("-H").arg(format!("Authorization: Bearer {token}"));
        }
        let url = if path.starts_with("https:") { path.to_owned() } else { format!("{}{path}", self.url) };
        let ran = finish(command.args(options).arg(url));
        let (body, status) = ran.out.rsplit_once('\n').unwrap_or_else(|| panic!("{ran:?}"));
        (status.parse().expect("a status"), body.to_owned())
    }
}

fn tree(world: &World) {
    world.write("root/runs/a b.txt", "0123456789");
    world.write("root/runs/sub/deep/x", "x");
    world.write("root/runs/sub-x", "sub");
    world.write("root/other/secret", "secret");
    world.write("root/.tidegate/id/part", "unfinished");
    for (target, link) in
        [("/etc", "out"), ("../other", "beside"), (".", "loop"), ("sub", "dir"), ("sub-x", "file")]
    {
        std::os::unix::fs::symlink(target, world.path(format!("root/runs/{link}"))).expect("linked");
    }
}

#[test]
fn a_token_opens_its_path_and_nothing_else() {
    let test = "a_token_opens_its_path_and_nothing_else";
    if !testkit::has(test, &["curl"]) {
        return;
    }
    let site = Site::new(&[], tree);
    let token = site.token(&["--path", "runs", "--read-only"]);
    let get = |path: &str| site.curl(&token, path, &[]);
    assert_eq!(get("/runs/a%20b.txt"), (200, "0123456789".to_owned()));
    assert_eq!(get("/runs/file"), (200, "sub".to_owned()));
    let (status, listing) = get("/runs/");
    let listing: Value =
        serde_json::from_str(&listing).unwrap_or_else(|error| panic!("{status} {listing}: {error}"));
    let names: Vec<&str> = listing["entries"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|entry| entry["name"].as_str())
        .collect();
    // Links that lead out, beside what the token opens, or in a circle are not told of.
    assert_eq!(names, ["a b.txt", "dir", "file", "sub-x", "sub"]);
    for (path, expected) in [
        ("/", 403),
        ("/other/secret", 403),
        ("/runs/out/passwd", 403),
        ("/runs/beside/secret", 403),
        ("/runs/nothing", 404),
        ("/runs/sub-x/", 404),
        ("/runs/../other/secret", 400),
        ("/runs/%2e%2e/other/secret", 400),
        ("/runs/%00", 400),
        ("/.tidegate/id/part", 400),
        ("/runs/sub", 301),
        ("/runs/?archive=rar", 400),
    ] {
        let (status, body) = get(path);
        assert_eq!(status, expected, "{path}: {body}");
        assert!(body.trim_end().lines().count() <= 1, "{path}: {body}");
    }
    for (token, expected) in [("", 401), ("x.y", 401), (&*format!("{token}x"), 401)] {
        assert_eq!(site.curl(token, "/runs/sub-x", &[]).0, expected);
    }
    let status = |options: &[&str]| site.curl(&token, "/runs/a%20b.txt", options);
    assert_eq!(status(&["-r", "2-4"]), (206, "234".to_owned()));
    assert_eq!(status(&["-r", "-3"]), (206, "789".to_owned()));
    assert_eq!(status(&["-r", "10-"]).0, 416);
    let (several, body) = status(&["-r", "0-1,8-"]);
    assert!(several == 206 && body.contains("bytes 8-9/10\r\n\r\n89\r\n--"), "{body}");
    let (_, head) = status(&["-I"]);
    let header = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("no {name}: {head}")).trim().to_owned()
    };
    let tag = header("etag");
    assert_eq!(status(&["-H", &format!("If-None-Match: {tag}")]), (304, String::new()));
    assert_eq!(status(&["-H", "If-Match: \"other\""]).0, 412);
    assert_eq!(status(&["-H", &format!("If-Range: {tag}"), "-r", "0-0"]).1, "0");
    assert_eq!(status(&["-H", "If-Range: \"other\"", "-r", "0-0"]).1, "0123456789");
    assert!(header("content-disposition").starts_with("attachment"));
    assert_eq!((&*header("x-content-type-options"), &*header("referrer-policy")), ("nosniff", "no-referrer"));
    assert!(header("content-security-policy").starts_with("sandbox"));
    // The digest that is liked best, with a part of the file, too.
    for (wanted, digest) in [
        ("Want-Digest: adler32", "digest: adler32=0aff020e"),
        ("Want-Digest: md5, unixsum;q=0.2", "digest: md5=eB5eJF1ptWaXm4bijSPyxw=="),
        (
            "Want-Repr-Digest: sha-256=10, md5=1",
            "repr-digest: sha-256=:hNiYd/DUBB77a/kaFvAkjy/Vc+avBcGflr7bn4gveII=:",
        ),
    ] {
        for options in [&["-I"][..], &["-i", "-r", "2-4"]] {
            let (_, head) = status(&[options, &["-H", wanted]].concat());
            assert!(head.contains(&format!("\n{digest}\r\n")), "{wanted}: {head}");
        }
    }
    assert!(!status(&["-I", "-H", "Want-Digest: unixsum"]).1.contains("digest:"));
    // Too much of a header, and what is no HTTP at all, cost an answer and no more.
    // Who still speaks when the connection is closed may not hear why.
    assert!(matches!(status(&["-H", &format!("X: {}", "x".repeat(60_000))]).0, 431 | 0));
    assert_eq!(status(&["-X", "PATCH"]).0, 405);
    for wrong in [&["-T", "cert.pem"][..], &["-X", "DELETE"], &["-X", "MKCOL"]] {
        assert_eq!(
            site.curl(
                &token,
                "/runs/new",
                &[wrong, &["-H", "Content-MD5: JfnnlDI7RTiF9RgfG2JNCw=="]].concat()
            )
            .0,
            403
        );
    }
}

#[test]
fn a_shared_link_reads_until_it_is_revoked_and_is_in_no_log() {
    let test = "a_shared_link_reads_until_it_is_revoked_and_is_in_no_log";
    if !testkit::has(test, &["curl"]) || !testkit::has(test, &["tar"]) {
        return;
    }
    let site = Site::new(&[], tree);
    let world = &site.world;
    let link = world.ok(&["share", &site.server.at("runs/"), "--for", "1h"]).trim_end().to_owned();
    let (status, page) = site.curl("", &link, &["-H", "Accept: text/html"]);
    assert!(status == 200 && page.contains(">a b.txt</a>"), "{page}");
    let href = page
        .split("href=\"")
        .find(|rest| rest.starts_with("./a%20b"))
        .and_then(|rest| rest.split('"').next());
    let place = link.split('?').next().expect("a place");
    let file = format!("{place}{}", href.expect("a link").trim_start_matches("./"));
    assert_eq!(site.curl("", &file, &[]), (200, "0123456789".to_owned()));
    assert_eq!(site.curl("", &file, &["-X", "DELETE"]).0, 403);
    assert_eq!(site.curl("", &link.replace("/runs/", "/other/"), &[]).0, 403);
    // All of it in one file, without what directories that links lead to have.
    for (format, list) in [("tar", &["tar", "-tf"][..]), ("zip", &["python3", "-m", "zipfile", "-l"])] {
        let archive = format!("all.{format}");
        assert_eq!(site.curl("", &format!("{link}&archive={format}"), &["-o", &archive]).0, 200);
        let ran = finish(site.client(list[0]).args(&list[1..]).arg(&archive));
        let names: Vec<&str> =
            ran.out.lines().map(|line| line.split("   ").next().unwrap_or_default().trim()).collect();
        for name in ["a b.txt", "file", "sub-x", "sub/", "sub/deep/x"] {
            assert!(ran.code == 0 && names.contains(&name), "{format}: {ran:?}");
        }
        assert!(!ran.out.contains("dir") && !ran.out.contains("secret"), "{format}: {ran:?}");
    }
    // What a file hashes to is made once somebody asks for it, and then shown.
    let hash = world.ok(&["hash", "root/runs/a b.txt"]);
    let hash = hash.split_whitespace().next().expect("a hash");
    assert!(page.contains("&amp;hash=blake3") && !page.contains(hash), "{page}");
    assert_eq!(site.curl("", &format!("{file}&hash=blake3"), &[]), (200, format!("{hash}\n")));
    assert!(site.curl("", &link, &["-H", "Accept: text/html"]).1.contains(hash));
    assert!(site.curl("", &link, &[]).1.contains(&format!("\"blake3\":\"{hash}\"")));
    for (wrong, says) in
        [(format!("{file}&hash=md5"), "blake3"), (format!("{link}&hash=blake3"), "directory")]
    {
        let (status, why) = site.curl("", &wrong, &[]);
        assert!(status == 400 && why.contains(says) && why.lines().count() == 1, "{status} {why}");
    }
    let (_, token) = link.split_once("token=").expect("a token");
    let log = site.server.log();
    assert!(
        log.contains("GET /runs/")
            && !log.contains(token)
            && !log.contains(token.split_once('.').expect("two").1),
        "{log}"
    );
    let state = world.state_of("root");
    let state = state.to_str().expect("text");
    assert!(world.ok(&["ticket", "--state", state, "--revoke", &link]).starts_with("revoked "));
    let (status, why) = site.curl("", &link, &[]);
    assert!(status == 401 && why.contains("revoked"), "{status} {why}");
    let bad = |words: &[&str], says: &str| {
        let ran = world.run(words);
        assert!(
            ran.code != 0 && ran.err.contains(says) && ran.err.lines().count() == 1,
            "{words:?}: {ran:?}"
        );
    };
    bad(&["share", "here"], "needs an endpoint");
    bad(&["share", &site.server.at("a/../b")], "refused the name");
    bad(&["ticket", "--state", state, "--revoke", "x"], "no token");
    bad(&["ticket", "--state", state, "--revoke", "-x.y"], "the token is not valid here");
    let plain = world.endpoint("plain", &[]);
    bad(&["share", &plain.at("x")], "--https");
    bad(&["endpoint", "--root", ".", "--http", "0.0.0.0:0", "--listen", "127.0.0.1:0"], "loopback");
    bad(&["endpoint", "--root", ".", "--https", "7119"], "--https-cert");
}

#[test]
fn what_is_put_is_whole_and_vouched_for_or_not_there() {
    let test = "what_is_put_is_whole_and_vouched_for_or_not_there";
    if !testkit::has(test, &["curl"]) {
        return;
    }
    let mut site = Site::new(&[], |world| {
        tree(world);
        world.fill("big", 8 << 20, 3);
        world.write("nine", "123456789");
    });
    let token = site.token(&["--delete"]);
    let md5 = "Content-MD5: JfnnlDI7RTiF9RgfG2JNCw==";
    let digest = "Repr-Digest: sha-256=:FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=:";
    let put = |path: &str, file: &str, options: &[&str]| {
        site.curl(&token, path, &[&["-T", file], options].concat())
    };
    assert_eq!(put("/runs/new", "nine", &["-H", md5]).0, 201);
    assert_eq!(put("/runs/new", "nine", &["-H", digest]).0, 204);
    assert_eq!(site.world.read("root/runs/new"), b"123456789");
    for (path, file, header, expected) in [
        ("/runs/bad", "big", md5, 400),
        ("/runs/bad", "nine", "X: y", 400),
        ("/runs/bad", "nine", "Content-MD5: AAAA", 400),
        ("/nowhere/bad", "nine", md5, 409),
        ("/runs/sub", "nine", md5, 409),
        ("/runs/out/bad", "nine", md5, 403),
        ("/.tidegate/bad", "nine", md5, 400),
    ] {
        let (status, why) = put(path, file, &["-H", header]);
        assert!(status == expected && why.trim_end().lines().count() == 1, "{path} {header}: {status} {why}");
    }
    assert_eq!(put("/runs/new", "nine", &["-H", md5, "-H", "If-None-Match: *"]).0, 412);
    assert_eq!(put("/runs/new", "nine", &["-H", md5, "-H", "Sec-Fetch-Site: cross-site"]).0, 403);
    // A link is removed itself, and what it leads to stays.
    assert_eq!(site.curl(&token, "/runs/file", &["-X", "DELETE"]).0, 204);
    assert_eq!(site.world.read("root/runs/sub-x"), b"sub");
    for (method, path, expected) in [
        ("DELETE", "/runs/sub/", 409),
        ("DELETE", "/runs/none/x", 404),
        ("MKCOL", "/none/x", 409),
        ("MKCOL", "/runs/made/", 201),
    ] {
        assert_eq!(site.curl(&token, path, &["-X", method]).0, expected, "{method} {path}");
    }
    let moved = |to: &str, more: &[&str]| {
        let to = format!("Destination: {}{to}", site.url);
        site.curl(&token, "/runs/new", &[&["-X", "MOVE", "-H", &to], more].concat()).0
    };
    assert_eq!(moved("/runs/sub-x", &["-H", "Overwrite: F"]), 412);
    assert_eq!(moved("/runs/out/new", &[]), 403);
    assert_eq!(moved("/runs/made/%6eew", &[]), 201);
    assert_eq!(site.world.read("root/runs/made/new"), b"123456789");
    // A client that leaves, and an endpoint that is killed, leave nothing under the name.
    let slowly = |site: &Site| {
        let mut command = site.client("curl");
        command.args(["-sS", "--cacert", "cert.pem", "--limit-rate", "1M", "-T", "big", "-H", md5, "-H"]);
        command.arg(format!("Authorization: Bearer {token}")).arg(format!("{}/runs/half", site.url));
        command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().expect("started")
    };
    let parts = |site: &Site| site.world.path("root/runs/.tidegate").exists();
    let mut leaving = slowly(&site);
    eventually(|| parts(&site));
    leaving.kill().expect("killed");
    let _ = leaving.wait();
    eventually(|| !parts(&site));
    let mut cut_off = slowly(&site);
    eventually(|| parts(&site));
    common::signal(site.server.id(), Signal::KILL);
    eventually(|| site.server.has_ended());
    let _ = cut_off.wait();
    assert!(!site.world.path("root/runs/half").exists() && !site.world.path("root/runs/bad").exists());
}

#[test]
fn the_endpoints_own_state_and_keys_are_not_there_by_any_request() {
    let test = "the_endpoints_own_state_and_keys_are_not_there_by_any_request";
    if !testkit::has(test, &["curl"]) {
        return;
    }
    let site = Site::new(&[], |world| {
        world.write("root/home/data", "data");
        world.write("nine", "123456789");
        fs::create_dir(world.path("root/home/state")).expect("made");
        for (target, link) in [("root/home/state", "root.state"), ("state", "root/home/link")] {
            std::os::unix::fs::symlink(target, world.path(link)).expect("linked");
        }
        fs::hard_link(world.path("key.pem"), world.path("root/home/key.pem")).expect("linked");
    });
    let state = site.world.path("root/home/state");
    let secret = fs::read_to_string(state.join("endpoint.secret")).expect("there");
    eventually(|| site.server.log().contains("not served"));
    let said = site.server.log();
    let said: Vec<&str> = said.lines().filter(|line| line.contains("not served")).collect();
    assert!(said.len() == 1 && said[0].contains(state.to_str().expect("text")), "{said:?}");
    fs::hard_link(state.join("endpoint.secret"), site.world.path("root/home/hard")).expect("linked");
    let token = site.token(&["--delete"]);
    let (id, key) = token.split_once('.').expect("a pair");
    let pair = format!("{id}:{key}");
    let unsigned = "x-amz-content-sha256: UNSIGNED-PAYLOAD";
    let signed = ["--aws-sigv4", "aws:amz:anywhere:s3", "--user", &pair, "-H", unsigned];
    let put = ["-T", "nine", "-H", "Content-MD5: JfnnlDI7RTiF9RgfG2JNCw=="];
    let refused = |token: &str, path: &str, options: &[&str]| {
        let (status, body) = site.curl(token, path, options);
        assert!((400..500).contains(&status), "{path} {options:?}: {status} {body}");
    };
    for path in ["/home/key.pem", "/home/hard", "/home/link/endpoint.secret"] {
        refused(&token, path, &[]);
    }
    for path in ["/home/key.pem", "/home/hard", "/home/state"] {
        refused(&token, path, &put);
    }
    let (at, to) = ("/home/state/endpoint.secret", |to: &str| format!("Destination: {}{to}", site.url));
    let (away, onto) = (to("/home/elsewhere"), to("/home/hard"));
    for (path, options) in [
        (at, &["--head"][..]),
        ("/home/state/", &["-X", "PROPFIND"]),
        ("/home/hard?hash=blake3", &[]),
        ("/home/state/?archive=tar", &[]),
        ("/home/state/new", &put),
        (at, &["-X", "DELETE"]),
        ("/home/hard", &["-X", "DELETE"]),
        ("/home/state/new/", &["-X", "MKCOL"]),
        ("/home/state/", &["-X", "MOVE", "-H", &away]),
        ("/home/", &["-X", "MOVE", "-H", &away]),
        ("/home/data", &["-X", "MOVE", "-H", &onto]),
    ] {
        refused(&token, path, options);
    }
    let copied = ["-X", "PUT", "-H", "x-amz-copy-source: /home/hard"];
    refused("", "/home/copy", &[&copied[..], &signed].concat());
    refused("", at, &signed);
    for (path, token) in [("/home?list-type=2", ""), ("/home/", &token), ("/home/?archive=tar", &token)] {
        let (status, listed) = site.curl(token, path, if token.is_empty() { &signed } else { &[] });
        assert!(status == 200 && listed.contains("data"), "{path}: {status} {listed}");
        let told = ["key.pem", "hard", "state", &secret].into_iter().find(|told| listed.contains(told));
        assert_eq!(told, None, "{path}: {listed}");
    }
    assert_eq!(fs::read_to_string(state.join("endpoint.secret")).expect("there"), secret);
    assert_eq!(site.world.read("root/home/hard"), secret.as_bytes());
    assert_eq!(site.world.read("root/home/key.pem"), site.world.read("key.pem"));
    assert_eq!(site.world.read("root/home/data"), b"data");
}

/// An endpoint that HTTP reaches without TLS, in a process that may have so many files open; and where.
fn plain(world: &World, files: u32) -> (Server, String) {
    let own = world.command();
    let mut command = Command::new("prlimit");
    command.env_clear().arg(format!("--nofile={files}")).arg(own.get_program());
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
    command.current_dir(world.path(""));
    let server = world.endpoint_by(command, "root", "127.0.0.1:0", &["--http", "127.0.0.1:0"]);
    let said = "advertised as http://";
    eventually(|| server.log().contains(said));
    let place = server.log().split_once(said).and_then(|(_, rest)| Some(rest.lines().next()?.to_owned()));
    (server, place.expect("said"))
}

/// What comes back for a request, until the connection ends.
fn answer(place: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(place).expect("connected");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    // It may be reset where something of the request was not read.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn idle_connections_keep_nobody_out_and_cost_no_push_a_file() {
    let test = "idle_connections_keep_nobody_out_and_cost_no_push_a_file";
    if !testkit::has(test, &["prlimit"]) {
        return;
    }
    let world = World::new();
    world.write("root/file", "content");
    for number in 0..600 {
        world.write(format!("many/{number}"), number.to_string());
    }
    let (server, place) = plain(&world, 128);
    let state = world.text("root.state");
    let token = world.ok(&["ticket", "--http", "--state", &state]).trim_end().to_owned();
    let get = format!("GET /file HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {token}\r\n");
    // One that has shown a token and waits for its next request stays, too.
    let mut known = TcpStream::connect(&place).expect("connected");
    let ask_again = |known: &mut TcpStream| {
        known.write_all(format!("{get}\r\n").as_bytes()).expect("sent");
        let mut answer = [0; 2000];
        let mut length = 0;
        while !String::from_utf8_lossy(&answer[..length]).ends_with("content") {
            length += known.read(&mut answer[length..]).ok().filter(|read| *read > 0).expect("an answer");
        }
    };
    ask_again(&mut known);
    let idle: Vec<TcpStream> = (0..150).map(|_| TcpStream::connect(&place).expect("connected")).collect();
    assert!(answer(&place, &format!("{get}connection: close\r\n\r\n")).ends_with("content"));
    world.ok(&["copy", "many/", &server.at("in/")]);
    assert_eq!(world.tree("root/in").len(), 600);
    ask_again(&mut known);
    drop(idle);
}

#[test]
fn an_upload_that_stalls_ends_with_its_token() {
    let test = "an_upload_that_stalls_ends_with_its_token";
    if !testkit::has(test, &["prlimit"]) {
        return;
    }
    let world = World::new();
    world.write("root/file", "old");
    let (_server, place) = plain(&world, 1024);
    let state = world.text("root.state");
    let token = world.ok(&["ticket", "--http", "--state", &state]).trim_end().to_owned();
    let head = format!(
        "PUT /file HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {token}\r\ncontent-length: 99\r\ncontent-md5: JfnnlDI7RTiF9RgfG2JNCw==\r\n\r\n"
    );
    let waiting = std::thread::spawn(move || answer(&place, &(head + "123")));
    let work = world.path("root/.tidegate");
    eventually(|| work.exists());
    world.ok(&["ticket", "--state", &state, "--revoke", &token]);
    // It sends nothing more, and the connection ends all the same.
    assert_eq!(waiting.join().expect("no panic"), "");
    eventually(|| !work.exists());
    assert_eq!(world.read("root/file"), b"old");
}

#[test]
fn a_certificate_is_read_again_without_a_restart() {
    if !testkit::has("a_certificate_is_read_again_without_a_restart", &["curl"]) {
        return;
    }
    let site = Site::new(&[], tree);
    let token = site.token(&[]);
    let reads = || {
        let mut curl = site.client("curl");
        curl.args([
            "-sS",
            "--cacert",
            "cert.pem",
            "-o",
            "/dev/null",
            "-H",
            &format!("Authorization: Bearer {token}"),
        ]);
        finish(curl.arg(&site.url)).code
    };
    assert_eq!(reads(), 0);
    let key = KeyPair::generate().expect("a key");
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let certificate = CertificateParams::new(names).expect("names").self_signed(&key).expect("signed");
    site.world.write("cert.pem", certificate.pem());
    site.world.write("key.pem", key.serialize_pem());
    assert_ne!(reads(), 0, "the old one is shown until it is read again");
    common::signal(site.server.id(), Signal::HUP);
    eventually(|| reads() == 0);
}
