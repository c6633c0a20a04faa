//! Files to WebDAV servers: a whole one (wsgidav), nginx with and without its dav module, and one that
//! lies.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use testkit::nginx::Nginx;
use testkit::scripted::{Answer, Request, Scripted, Then, http};
use testkit::server::Program;
use testkit::{Server, noise, program, skip};
use tidegate_control::{ByteCount, Environment, PerStage};
use tidegate_fetch::put::dav::DavTarget;
use tidegate_fetch::put::target::Target;
use tidegate_fetch::put::{Upload, UploadSettings};
use tidegate_fetch::remote::servers::ServerSettings;
use tidegate_transfer::catalogue::Catalogues;
use tidegate_transfer::counters::Totals;
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::store::file_source::FileSource;
use tidegate_transfer::sys::confined::Root;
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::terms::Links;
use tidegate_transfer::transfer::Pace;
use url::Url;

const MIB: usize = 1 << 20;

struct Ran {
    result: Result<(), Error>,
    totals: Totals,
    failures: Vec<Error>,
    verified: bool,
}

fn put(source: &Path, target: DavTarget, state: Option<&Path>) -> Ran {
    let source =
        FileSource::local(&[source.as_os_str().as_bytes().to_vec()], Links::Follow).expect("a source");
    let catalogues = state.map(|state| {
        Catalogues::new(&Root::open(state.as_os_str().as_bytes()).expect("opened")).expect("catalogues")
    });
    let unverified = Arc::new(AtomicBool::new(false));
    let settings = UploadSettings {
        staging: ByteCount::mib(32),
        max_workers: 4,
        retries: 4,
        pace: Pace::new(Duration::from_millis(100)),
        catalogue: catalogues.as_ref().and_then(|all| all.of(&target.identity())),
        unverified: Arc::clone(&unverified),
        ..UploadSettings::default()
    };
    let mut upload =
        Upload::start(Box::new(source), Arc::new(target), settings, Box::new(|_| {})).expect("started");
    let end = Instant::now() + Duration::from_secs(60);
    let result = loop {
        assert!(Instant::now() < end, "it never ends: {:?}", upload.ledger().totals());
        match upload.step(PerStage { read: 2, network: 3, write: 1 }) {
            Ok(Some(_)) => {}
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let failures = upload.ledger().failures().into_iter().map(|failure| failure.error).collect();
    Ran { result, totals: upload.ledger().totals(), failures, verified: !unverified.load(Relaxed) }
}

fn target(url: &Url, single: bool) -> DavTarget {
    let settings = ServerSettings { timeout: Duration::from_secs(20), ..ServerSettings::default() };
    DavTarget::new(&settings, url.clone(), single, Vec::new(), true).expect("a target")
}

/// Files that are odd in their own ways, and what they hold.
fn tree() -> (tempfile::TempDir, Vec<(&'static str, Vec<u8>)>) {
    let tree = tempfile::tempdir().expect("a directory");
    let files = vec![
        ("empty", noise(1, 0)),
        ("one", noise(2, 1)),
        ("a b/100%+ü?#&='\".txt", noise(3, 5000)),
        ("日本/語/deep", noise(4, 300_000)),
        // Larger than what is read before it is sent.
        ("large", noise(5, 19 * MIB + 7)),
    ];
    for (name, data) in &files {
        let path = tree.path().join(name);
        std::fs::create_dir_all(path.parent().expect("above")).expect("made");
        std::fs::write(path, data).expect("written");
    }
    (tree, files)
}

/// Whether just these files are there, and nothing unfinished.
fn holds(root: &Path, files: &[(&str, Vec<u8>)]) {
    let mut names = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).expect("listed") {
            let path = entry.expect("listed").path();
            match path.is_dir() {
                true => left.push(path),
                false => {
                    names.push(path.strip_prefix(root).expect("beneath").to_str().expect("text").to_owned());
                }
            }
        }
    }
    names.sort();
    let mut wanted: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    wanted.sort_unstable();
    assert_eq!(names, wanted);
    for (name, data) in files {
        assert!(&std::fs::read(root.join(name)).expect("read") == data, "{name}");
    }
}

/// wsgidav, which serves a directory.
struct WsgiDav {
    root: PathBuf,
    users: &'static str,
}

impl Program for WsgiDav {
    fn command(&self, dir: &Path, ports: &[u16]) -> Command {
        let config = format!(
            "host: 127.0.0.1\nport: {}\nserver: cheroot\nprovider_mapping:\n  '/': '{}'\n\
             http_authenticator:\n  domain_controller: null\n  accept_basic: true\n  accept_digest: false\n  \
             default_to_digest: false\nsimple_dc:\n  user_mapping:\n    '*': {}\n",
            ports[0],
            self.root.display(),
            self.users
        );
        std::fs::write(dir.join("dav.yaml"), config).expect("written");
        let mut command = Command::new(program("wsgidav").expect("it was there a moment ago"));
        command.arg("-c").arg(dir.join("dav.yaml"));
        command
    }
}

#[test]
fn a_tree_goes_to_a_webdav_server_and_is_read_back() {
    let (root, dir) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let users = "\n      me:\n        password: 'open sesame'";
    if program("wsgidav").is_none() {
        let why = "wsgidav is not installed (PyPI: wsgidav, cheroot)";
        return skip("a_tree_goes_to_a_webdav_server_and_is_read_back", why);
    }
    let server = Server::start(WsgiDav { root: root.path().to_owned(), users });
    let url = Url::parse(&format!("http://127.0.0.1:{}/", server.port())).expect("a URL");
    let (tree, files) = tree();
    let contents = tree.path().join("");
    let inner = url.join("made/here/").expect("a URL");
    let denied = put(&contents, target(&inner, false), None);
    let error = denied.result.expect_err("no password");
    assert_eq!(error.kind, ErrorKind::Authentication, "{error}");
    let mut known = url;
    known.set_username("me").expect("a host");
    known.set_password(Some("open sesame")).expect("a host");
    std::fs::create_dir(root.path().join("made")).expect("made");
    let place = known.join("made/here/").expect("a URL");
    let ran = put(&contents, target(&place, false), Some(dir.path()));
    assert_eq!(ran.result, Ok(()));
    assert!(ran.failures.is_empty(), "{:?}", ran.failures);
    assert!(ran.verified);
    holds(&root.path().join("made/here"), &files);
    // What is remembered is not sent again, and what has changed is.
    std::fs::write(tree.path().join("one"), "2").expect("written");
    let again = put(&contents, target(&place, false), Some(dir.path()));
    assert_eq!((again.totals.files_skipped, again.totals.files_done), (4, 1), "{:?}", again.failures);
    let named = known.join("made/other%20name").expect("a URL");
    assert!(put(&tree.path().join("one"), target(&named, true), None).failures.is_empty());
    assert_eq!(std::fs::read(root.path().join("made/other name")).expect("read"), b"2");
}

#[test]
fn nginx_takes_files_with_and_without_moving_them() {
    let root = tempfile::tempdir().expect("a directory");
    let more = format!(
        "        location /dav/ {{ alias {0}/dav/; dav_methods PUT DELETE MKCOL MOVE; create_full_put_path on; \
         client_max_body_size 100m; }}\n        \
         location /plain/ {{ alias {0}/plain/; dav_methods PUT DELETE; create_full_put_path on; \
         client_max_body_size 100m; }}\n        \
         location /small/ {{ alias {0}/small/; dav_methods PUT; client_max_body_size 1k; }}\n",
        root.path().display()
    );
    for name in ["dav", "plain", "small"] {
        std::fs::create_dir(root.path().join(name)).expect("made");
    }
    let Some(nginx) = Nginx::with(root.path(), "", &more) else {
        return skip("nginx_takes_files_with_and_without_moving_them", "nginx is not installed");
    };
    let (tree, files) = tree();
    let contents = tree.path().join("");
    for place in ["dav", "plain"] {
        let ran = put(&contents, target(&nginx.url(&format!("{place}/")), false), None);
        assert_eq!(ran.result, Ok(()));
        assert!(ran.failures.is_empty(), "{place}: {:?}", ran.failures);
        holds(&root.path().join(place), &files);
    }
    // The same with TLS, as one file with a name of its own.
    let url = nginx.secure_url("dav/by%20TLS");
    let settings = ServerSettings { ca: Some(nginx.certificates().ca.clone()), ..ServerSettings::default() };
    let secure = DavTarget::new(&settings, url.clone(), true, Vec::new(), true).expect("a target");
    assert!(put(&tree.path().join("large"), secure, None).failures.is_empty());
    assert_eq!(std::fs::read(root.path().join("dav/by TLS")).expect("read"), files[4].1);
    let ran = put(&tree.path().join("one"), target(&url, true), None);
    let error = ran.result.expect_err("an unknown authority");
    assert_eq!(error.kind, ErrorKind::Authentication, "{error}");
    let ran = put(&tree.path().join("one"), target(&nginx.url("redirect/dav/"), false), None);
    assert!(ran.failures[0].message.contains("it redirects to http"), "{:?}", ran.failures);
    let ran = put(&tree.path().join("large"), target(&nginx.url("small/"), false), None);
    assert_eq!(ran.failures.len(), 1);
    // Either the server's word came through, or it closed the connection before we had sent all.
    let kind = ran.failures[0].kind;
    assert!(matches!(kind, ErrorKind::NoSpace | ErrorKind::Connection), "{:?}", ran.failures);
    let ran = put(&tree.path().join("one"), target(&nginx.url("forbidden/"), false), None);
    assert_eq!(ran.failures[0].kind, ErrorKind::Denied, "{:?}", ran.failures);
}

#[test]
fn what_comes_back_otherwise_never_gets_its_name() {
    let server = Scripted::with_bodies(|request, _| {
        let answer = match request.lines[0].split(' ').next() {
            Some("PUT" | "MKCOL" | "MOVE") => http("201 Created", &[("content-length", "0")], b""),
            Some("DELETE") => http("204 No Content", &[], b""),
            Some("GET") => http("200 OK", &[("content-length", "5")], b"wrong"),
            _ => http("404 Not Found", &[("content-length", "0")], b""),
        };
        (answer, Then::Keep)
    });
    let tree = tempfile::tempdir().expect("a directory");
    std::fs::write(tree.path().join("x"), "right").expect("written");
    let ran = put(&tree.path().join("x"), target(&server.url("in/"), false), None);
    assert_eq!(ran.failures[0].kind, ErrorKind::Corrupt, "{:?}", ran.failures);
    let of = |method: &str| server.requests().iter().filter(|r| r.lines[0].starts_with(method)).count();
    // One more asks whether another server takes files, and is taken back.
    assert_eq!((of("MOVE"), of("PUT"), of("DELETE")), (0, 6, 6));
}

/// Files by their paths.
#[derive(Default)]
struct Stored(Mutex<HashMap<String, Vec<u8>>>);

impl Stored {
    fn answer(&self, request: &Request, body: &[u8]) -> Answer {
        let mut words = request.lines[0].split(' ');
        let (method, target) = (words.next().expect("a method"), words.next().expect("a target"));
        let path = target.split('?').next().expect("a path").to_owned();
        let mut files = self.0.lock();
        let empty = [("content-length", "0")];
        let answer = match method {
            "PUT" => {
                files.insert(path, body.to_vec());
                http("201 Created", &empty, b"")
            }
            "DELETE" => {
                files.remove(&path);
                http("204 No Content", &[], b"")
            }
            "MOVE" => {
                let to = Url::parse(request.header("destination").expect("told")).expect("a URL");
                let moved = files.remove(&path).expect("there");
                files.insert(to.path().to_owned(), moved);
                http("201 Created", &empty, b"")
            }
            "GET" | "HEAD" => match files.get(&path) {
                Some(file) => {
                    let length = file.len().to_string();
                    let body = if method == "GET" { &file[..] } else { b"" };
                    http("200 OK", &[("content-length", &length)], body)
                }
                None => http("404 Not Found", &empty, b""),
            },
            _ => http("201 Created", &empty, b""),
        };
        (answer, Then::Keep)
    }
}

#[test]
fn content_goes_where_the_server_sends_it_and_the_login_does_not() {
    for status in ["307 Temporary Redirect", "308 Permanent Redirect"] {
        let stored = Arc::new(Stored::default());
        let logins: [Arc<AtomicUsize>; 2] = Default::default();
        let count = |logins: &AtomicUsize, request: &Request| {
            logins.fetch_add(usize::from(request.header("authorization").is_some()), Relaxed)
        };
        let (of_pool, of_door) = (Arc::clone(&stored), Arc::clone(&stored));
        let [at_pool, at_door] = logins.clone();
        let pool = Scripted::with_bodies(move |request, body| {
            count(&at_pool, request);
            assert_eq!(request.header("cookie"), Some("session=of-the-door"), "{request:?}");
            of_pool.answer(request, body)
        });
        let place = pool.url("");
        let door = Scripted::with_bodies(move |request, body| {
            count(&at_door, request);
            if !request.lines[0].starts_with("PUT ") && !request.lines[0].starts_with("GET ") {
                return of_door.answer(request, body);
            }
            assert!(body.is_empty(), "content is sent to the door");
            let to = format!("{}?token=abc", place.join(request.path()).expect("a URL"));
            let cookie = ("set-cookie", "session=of-the-door; Path=/");
            (http(status, &[("content-length", "0"), ("location", &to), cookie], b""), Then::Keep)
        });
        let (tree, files) = tree();
        let login = vec![("authorization".to_owned(), "Bearer secret".to_owned())];
        let settings = ServerSettings { timeout: Duration::from_secs(20), ..ServerSettings::default() };
        let to = DavTarget::new(&settings, door.url("in/"), false, login, true).expect("a target");
        // One name is fragile, and goes to its own at once.
        std::fs::remove_dir_all(tree.path().join("a b")).expect("removed");
        let ran = put(&tree.path().join(""), to, None);
        assert_eq!((ran.result, &ran.failures[..], ran.verified), (Ok(()), &[][..], true));
        let there = stored.0.lock();
        for (name, data) in files.iter().filter(|(name, _)| !name.starts_with("a b")) {
            let url = door.url("in/").join(name).expect("a URL");
            assert_eq!(there.get(url.path()), Some(data), "{name}");
        }
        assert_eq!(there.len(), files.len() - 1);
        let [at_pool, at_door] = logins.map(|logins| logins.load(Relaxed));
        assert!(at_door > 0 && at_pool == 0, "the login is the door's");
    }
}

/// A server's directories, which it makes in those that are there alone, and none while it makes another.
#[derive(Default)]
struct Directories {
    there: Mutex<Vec<String>>,
    makes: AtomicBool,
}

impl Directories {
    fn make(&self, path: &str) -> &'static str {
        if self.makes.swap(true, Relaxed) {
            return "423 Locked";
        }
        std::thread::sleep(Duration::from_millis(20));
        let above = path.trim_end_matches('/').rsplit_once('/').map_or("", |(above, _)| above);
        let mut there = self.there.lock();
        let status = match (there.iter().any(|one| one == path), above) {
            (true, _) => "405 Method Not Allowed",
            (false, above) if above.is_empty() || there.contains(&format!("{above}/")) => {
                there.push(path.to_owned());
                "201 Created"
            }
            _ => "409 Conflict",
        };
        self.makes.store(false, Relaxed);
        status
    }
}

#[test]
fn directories_are_made_with_those_above_and_one_at_a_time() {
    let (stored, directories) = (Stored::default(), Arc::new(Directories::default()));
    let made = Arc::clone(&directories);
    let server = Scripted::with_bodies(move |request, body| match request.lines[0].split(' ').next() {
        Some("MKCOL") => (http(made.make(request.path()), &[("content-length", "0")], b""), Then::Keep),
        _ => stored.answer(request, body),
    });
    let tree = tempfile::tempdir().expect("a directory");
    for name in 0..12 {
        let directory = tree.path().join(format!("d{}", name % 4));
        std::fs::create_dir_all(&directory).expect("made");
        std::fs::write(directory.join(name.to_string()), "x").expect("written");
    }
    let ran = put(&tree.path().join(""), target(&server.url("new/deeper/"), false), None);
    assert_eq!((ran.result, &ran.failures[..]), (Ok(()), &[][..]));
    let mut there = directories.there.lock().clone();
    there.sort();
    let wanted =
        ["/new/", "/new/deeper/", "/new/deeper/d0/", "/new/deeper/d1/", "/new/deeper/d2/", "/new/deeper/d3/"];
    assert_eq!(there, wanted);
}

#[test]
fn a_file_does_not_take_the_place_of_a_directory() {
    const COLLECTION: &str = "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/in/d/</D:href><D:propstat><D:prop>\
                              <D:resourcetype><D:collection/></D:resourcetype></D:prop></D:propstat></D:response>\
                              </D:multistatus>";
    let stored = Arc::new(Stored::default());
    stored.0.lock().insert("/in/f".to_owned(), b"old".to_vec());
    let files = Arc::clone(&stored);
    let server = Scripted::with_bodies(move |request, body| {
        let empty = [("content-length", "0")];
        let answer = match request.lines[0].split(' ').next() {
            Some("MOVE") => {
                let to = Url::parse(request.header("destination").expect("told")).expect("a URL");
                let is_there =
                    matches!(to.path(), "/in/d" | "/in/other") || files.0.lock().contains_key(to.path());
                match request.header("overwrite") {
                    Some("F") if is_there => http("412 Precondition Failed", &empty, b""),
                    _ if to.path() == "/in/d" => panic!("the directory is gone, with all that lay in it"),
                    _ if to.path() == "/in/other" => panic!("what the server takes for it is gone"),
                    _ => return files.answer(request, body),
                }
            }
            Some("PROPFIND") if request.path() == "/in/d" => {
                let length = COLLECTION.len().to_string();
                http("207 Multi-Status", &[("content-length", &length)], COLLECTION.as_bytes())
            }
            Some("PROPFIND") if request.path() == "/in/other" => http("404 Not Found", &empty, b""),
            Some("PROPFIND") => http("405 Method Not Allowed", &empty, b""),
            Some("HEAD") if request.path() == "/in/d" => http("200 OK", &empty, b""),
            _ => return files.answer(request, body),
        };
        (answer, Then::Keep)
    });
    let tree = tempfile::tempdir().expect("a directory");
    for name in ["d", "f", "new", "other"] {
        std::fs::write(tree.path().join(name), name).expect("written");
    }
    let ran = put(&tree.path().join(""), target(&server.url("in/"), false), None);
    let mut told: Vec<&str> = ran.failures.iter().map(|error| &error.message[..]).collect();
    told.sort_unstable();
    let [directory, other] = told[..] else { panic!("{told:?}") };
    assert!(directory.contains("/in/d: a directory bears this name"), "{told:?}");
    assert!(other.contains("/in/other: the server takes this name for another"), "{told:?}");
    assert!(ran.failures.iter().all(|error| error.kind == ErrorKind::UnsafeName), "{told:?}");
    let single = put(&tree.path().join("f"), target(&server.url("in/d"), true), None);
    assert_eq!(single.failures.first().map(|error| error.kind), Some(ErrorKind::UnsafeName));
    let there = stored.0.lock();
    let mut names: Vec<&str> = there.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["/in/f", "/in/new"], "nothing unfinished is left");
    assert_eq!(there["/in/f"], b"f", "a file is replaced");
}
