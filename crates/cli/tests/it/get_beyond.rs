//! What `tidegate get` does besides keeping files: a stream to standard output, a look at the archives, conversion of
//! what has arrived; and stores whose requesters pay.

use crate::common;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;

use crate::common::archive::Lab;
use crate::common::{World, finish};
use serde_json::Value;
use testkit::scripted::{Scripted, Then, http};
use testkit::standin::{data, run_of};

/// Standard output as it is, the exit code, and standard error.
fn bytes(lab: &Lab, arguments: &[&str]) -> (Vec<u8>, i32, String) {
    let output = lab.command(arguments).output().expect("it runs");
    let err = String::from_utf8(output.stderr).expect("text");
    (output.stdout, output.status.code().unwrap_or(-1), err)
}

/// The files of a run in a format, one after the other.
fn content_of(shape: &str, format: &str) -> Vec<u8> {
    let files = data().shape(shape)[format].as_array().expect("files");
    let path = |file: &Value| data().root.path().join(file["path"].as_str().expect("text"));
    files.iter().flat_map(|file| fs::read(path(file)).expect("made")).collect()
}

// A stream -----------------------------------------------------------------------------------------------

#[test]
fn runs_flow_to_standard_output_and_leave_nothing() {
    let Some(lab) = Lab::new("runs_flow_to_standard_output_and_leave_nothing", &[]) else { return };
    let (out, code, err) = bytes(&lab, &["--pipe", run_of("paired"), run_of("three")]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out == [content_of("paired", "fastq"), content_of("three", "fastq")].concat());
    assert!(lab.world.tree(".").iter().all(|name| name.starts_with("state/") || name.starts_with("home/")));
    // What cannot be found is said before anything flows.
    let (out, code, err) = bytes(&lab, &["--pipe", run_of("paired"), "SRR999999999"]);
    assert_eq!((out.len(), code, err.lines().count()), (0, 3, 1), "{err}");
    let (_, code, err) = bytes(&lab, &["--pipe", run_of("paired"), "--json"]);
    assert!(code == 2 && err.contains("--json"), "{err}");
}

#[test]
fn a_stream_goes_on_where_its_connection_broke() {
    let faults = ["--drop-after", "9000", "--drops", "6"];
    let Some(lab) = Lab::new("a_stream_goes_on_where_its_connection_broke", &faults) else { return };
    let (out, code, err) = bytes(&lab, &["--pipe", "--format", "sra", run_of("paired")]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out == content_of("paired", "sra"));
}

#[test]
fn a_stream_of_wrong_content_ends_with_an_error() {
    let Some(lab) = Lab::new("a_stream_of_wrong_content_ends_with_an_error", &[]) else { return };
    let file = &data().shape("single")["fastq"][0];
    let url = format!("{}/{}", lab.archive.url("data_url"), file["path"].as_str().expect("text"));
    lab.world.write("list", format!("{url}\n  checksum=md5={}\n", "0".repeat(32)));
    let (out, code, err) = bytes(&lab, &["--pipe", "list"]);
    assert_eq!((code, out == content_of("single", "fastq")), (1, true), "{err}");
    assert!(err.lines().count() == 1 && err.contains("do not use it"), "{err}");
    // Without a sum nothing can be verified, and that is said.
    let (_, code, err) = bytes(&lab, &["--pipe", &url]);
    assert!(code == 0 && err.contains("1 file of 1 had no checksum"), "{err}");
}

#[test]
fn a_reader_that_leaves_ends_the_stream_quietly() {
    let faults = ["--connection-rate", "20000"];
    let Some(lab) = Lab::new("a_reader_that_leaves_ends_the_stream_quietly", &faults) else { return };
    let mut child = lab.command(&["--pipe", run_of("three"), run_of("paired")]).spawn().expect("started");
    let mut beginning = [0; 2];
    let mut out = child.stdout.take().expect("piped");
    out.read_exact(&mut beginning).expect("a beginning");
    drop(out);
    assert_eq!(beginning, content_of("three", "fastq")[..2]);
    let ran = common::wait(child);
    assert_eq!((ran.code, ran.err.as_str()), (141, ""), "as programs end that do not mind SIGPIPE");
}

// A look at the archives -----------------------------------------------------------------------------------

fn self_check(lab: &Lab, more: &[(&str, &str)]) -> (i32, Value) {
    let mut command = lab.command(&["--self-check", run_of("paired"), "--json"]);
    command.envs(more.iter().copied());
    let ran = finish(&mut command);
    (ran.code, serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}")))
}

/// What is said of the interfaces that are not as expected.
fn differing(answer: &Value) -> Vec<(&str, &str, &str)> {
    let checks = answer["checks"].as_array().expect("checks").iter();
    checks
        .filter(|check| check["status"] != "as_expected")
        .map(|check| {
            let text = |name: &str| check[name].as_str().expect("text");
            (text("name"), text("status"), check["differs"][0].as_str().expect("a reason"))
        })
        .collect()
}

#[test]
fn archives_that_answer_as_ever_are_as_expected() {
    let Some(lab) = Lab::new("archives_that_answer_as_ever_are_as_expected", &[]) else { return };
    let (code, answer) = self_check(&lab, &[]);
    assert_eq!((code, differing(&answer)), (0, Vec::new()), "{answer:#}");
    assert_eq!(
        (answer["as_expected"].as_bool(), answer["checks"].as_array().map(Vec::len)),
        (Some(true), Some(7))
    );
    let ran = finish(&mut lab.command(&["--self-check", run_of("paired")]));
    assert!(ran.code == 0 && ran.err.is_empty(), "{ran:?}");
    assert!(
        ran.out.lines().count() == 7 && ran.out.lines().all(|line| line.starts_with("as expected  ")),
        "{ran:?}"
    );
    let ran = finish(&mut lab.command(&["--self-check", "PRJNA1"]));
    assert!(ran.code == 2 && ran.err.contains("is none"), "{ran:?}");
}

#[test]
fn a_column_that_is_missing_is_named() {
    let faults = ["--lacks-column", "fastq_md5"];
    let Some(lab) = Lab::new("a_column_that_is_missing_is_named", &faults) else { return };
    let (code, answer) = self_check(&lab, &[]);
    assert_eq!(code, 1);
    let missing = "the column fastq_md5 is missing";
    assert_eq!(differing(&answer), [("ENA", "differs", missing); 2], "{answer:#}");
}

#[test]
fn an_archive_that_is_down_is_told_from_one_that_differs() {
    let faults = ["--fail", "-1", "--at", "eutils"];
    let Some(lab) = Lab::new("an_archive_that_is_down_is_told_from_one_that_differs", &faults) else {
        return;
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let closed = format!("http://{}/sdl/2/retrieve", listener.local_addr().expect("its address"));
    drop(listener);
    let (code, answer) = self_check(&lab, &[("TIDEGATE_SDL_URL", &closed)]);
    let differing = differing(&answer);
    assert_eq!((code, differing.len()), (1, 3), "{answer:#}");
    let status = "it answers with status 503, and not 200";
    assert_eq!(differing[..2], [("NCBI's E-utilities", "differs", status); 2]);
    let (name, how, why) = differing[2];
    assert_eq!((name, how), ("NCBI's locator", "no_answer"));
    assert!(why.contains(&closed), "{why}");
}

// Conversion -----------------------------------------------------------------------------------------------

/// A fasterq-dump that makes two files of an archive, or fails.
fn fake(lab: &Lab, script: &str) -> String {
    let path = lab.world.path("bin/fasterq-dump");
    lab.world.write("bin/fasterq-dump", format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    format!("{}:/usr/bin:/bin", lab.world.text("bin"))
}

const CONVERTS: &str = r#"for last; do :; done
name=$(basename "$last" .sra)
echo "$name" >> "$(dirname "$0")/called"
for end in 1 2; do
    awk -v n=${READS:-1000} 'BEGIN { for (i = 0; i < n; i++) print "@r\nA\n+\n#" }' > "$2/${name}_$end.fastq"
done"#;

#[test]
fn archives_are_converted_once_they_are_verified() {
    let Some(lab) = Lab::new("archives_are_converted_once_they_are_verified", &[]) else { return };
    let run = run_of("paired");
    let get = ["--format", "sra", "--convert", "fastq", run, "-o", "out"];
    let ran = finish(lab.command(&get).env("PATH", lab.world.text("nowhere")));
    assert!(ran.code == 2 && ran.err.lines().count() == 1 && ran.err.contains("sra-toolkit"), "{ran:?}");
    // The one request is this question.
    assert_eq!(lab.archive.requests().get("data"), Some(&1), "nothing was downloaded");

    let path = fake(&lab, CONVERTS);
    let ran = finish(lab.command(&get).env("PATH", &path));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert!(ran.out.contains(&format!("made     {run}_1.fastq, {run}_2.fastq")), "{ran:?}");
    assert_eq!(lab.world.read(format!("out/{run}_2.fastq")).len(), 1000 * "@r\nA\n+\n#\n".len());
    assert!(lab.world.read(format!("out/{run}.sra")) == content_of("paired", "sra"));
    assert!(!lab.world.path("out/.tidegate-convert").exists(), "nothing else is left");
    // What is there is not made again.
    let ran = finish(lab.command(&get).arg("--json").env("PATH", &path));
    let all: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((ran.code, &all["converted"]), (0, &Value::Null), "{all}");
    assert_eq!(lab.world.read("bin/called"), format!("{run}\n").as_bytes());
}

#[test]
fn the_first_archive_is_converted_while_the_second_is_under_way() {
    let world = World::new();
    let called = world.path("bin/called");
    let (seen, told) = std::sync::mpsc::channel();
    let server = Scripted::http(move |request| {
        if request.path() == "/two.sra" {
            let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
            while !called.exists() && std::time::Instant::now() < end {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            let _ = seen.send(called.exists());
        }
        (http("200 OK", &[("Content-Length", "9")], b"123456789"), Then::Keep)
    });
    world.write("bin/fasterq-dump", format!("#!/bin/sh\n{CONVERTS}\n"));
    fs::set_permissions(world.path("bin/fasterq-dump"), fs::Permissions::from_mode(0o755)).expect("set");
    let (one, two) = (server.url("one.sra"), server.url("two.sra"));
    let mut command = world.command();
    command.env("PATH", format!("{}:/usr/bin:/bin", world.text("bin")));
    command.args(["get", one.as_str(), two.as_str(), "--convert", "fastq", "-o", "out"]);
    let ran = finish(&mut command);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(told.try_iter().next(), Some(true), "the second came only once the first was converted");
    assert_eq!(world.read("bin/called"), b"one\ntwo\n");
    for made in ["one_1.fastq", "one_2.fastq", "two_1.fastq", "two_2.fastq"] {
        assert!(world.path("out").join(made).exists() && ran.out.contains(made), "{made}: {ran:?}");
    }
}

#[test]
fn a_conversion_that_fails_leaves_the_archive_and_says_so() {
    let Some(lab) = Lab::new("a_conversion_that_fails_leaves_the_archive_and_says_so", &[]) else { return };
    let run = run_of("paired");
    let script = "echo half > \"$2/half.fastq\"\necho 'disk-limit exceeded' >&2\nexit 3";
    let path = fake(&lab, script);
    let get = ["--format", "sra", "--convert", "fastq", run, "-o", "out"];
    let ran = finish(lab.command(&get).env("PATH", &path));
    let why = format!(
        "cannot convert {run}.sra: fasterq-dump ended with 3: disk-limit exceeded; the archive is kept"
    );
    assert_eq!((ran.code, ran.err.trim_end()), (1, &format!("tidegate: {why}")[..]), "{ran:?}");
    let names = lab.world.tree("out");
    assert!(
        names.contains(&format!("{run}.sra")) && !names.iter().any(|name| name == "half.fastq"),
        "{names:?}"
    );
    // Nor does one that ends well and has written less than there is.
    let path = fake(&lab, CONVERTS);
    for (reads, wanted) in [("999", "wrote 999 of 1000 reads"), ("0", "wrote no read")] {
        let ran = finish(lab.command(&get).env("PATH", &path).env("READS", reads));
        let why =
            format!("cannot convert {run}.sra: fasterq-dump ended well, and {wanted}; the archive is kept");
        assert_eq!((ran.code, ran.err.trim_end()), (1, &format!("tidegate: {why}")[..]), "{ran:?}");
        assert!(!lab.world.tree("out").iter().any(|name| name.ends_with("_1.fastq") && !name.contains('/')));
    }
    // The next run does it, with what is there.
    let ran = finish(lab.command(&get).env("PATH", &path));
    assert_eq!((ran.code, lab.world.path(format!("out/{run}_1.fastq")).exists()), (0, true), "{ran:?}");
    assert!(!lab.world.path("out/.tidegate-convert").exists(), "nothing else is left");
}

// Who pays -------------------------------------------------------------------------------------------------

/// What the header lines and the query of each request say when `url` is got with these options.
fn asked(url: &str, options: &[&str]) -> (String, i32) {
    let head = [("Content-Length", "9"), ("ETag", "\"v\""), ("x-goog-hash", "crc32c=4waSgw==")];
    let server = Scripted::http(move |_| (http("200 OK", &head, b"123456789"), Then::Keep));
    let world = World::new();
    let mut command = world.command();
    command.env("STORAGE_EMULATOR_HOST", server.url("").as_str()).env("GOOGLE_OAUTH_ACCESS_TOKEN", "t0ken");
    command.env("AWS_ENDPOINT_URL_S3", server.url("").as_str());
    command.env("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE").env("AWS_SECRET_ACCESS_KEY", "hush");
    let ran = finish(command.args(["get", url, "-o", "out"]).args(options));
    assert!(!format!("{ran:?}").contains("t0ken"), "{ran:?}");
    if ran.code == 0 {
        assert_eq!(world.read("out/x"), b"123456789");
    }
    let lines: Vec<String> = server.requests().into_iter().flat_map(|request| request.lines).collect();
    (lines.join("\n").to_lowercase(), ran.code)
}

#[test]
fn nobody_pays_unless_asked_to() {
    let (lines, code) = asked("gs://bucket/x", &[]);
    assert!(
        code == 0 && lines.contains("get /bucket/x http") && lines.contains("authorization: bearer t0ken")
    );
    assert!(!lines.contains("userproject"), "{lines}");
    let (lines, code) = asked("gs://bucket/x", &["--billing-project", "who-pays"]);
    assert!(code == 0 && lines.contains("get /bucket/x?userproject=who-pays http"), "{lines}");
    let (lines, code) = asked("s3://bucket/x", &[]);
    assert!(code == 0 && !lines.contains("x-amz-request-payer") && !lines.contains("t0ken"), "{lines}");
    let (lines, code) = asked("s3://bucket/x", &["--requester-pays"]);
    assert!(code == 0 && lines.contains("x-amz-request-payer: requester"), "{lines}");
    assert!(lines.contains("signedheaders=host%3bx-amz-checksum-mode%3bx-amz-request-payer"), "{lines}");
}

// Links that expire --------------------------------------------------------------------------------------

const LINKED: usize = 12 << 20;

/// A file at `/f`, whose links give so many bytes each, in answers that end in the middle at last.
fn expiring(content: &'static [u8], each: usize) -> Scripted {
    let given = tidegate_transfer::sys::sync::Mutex::new(std::collections::HashMap::<String, usize>::new());
    Scripted::http(move |request| {
        let link = request.path().rsplit('=').next().unwrap_or_default().to_owned();
        let mut given = given.lock();
        let given = given.entry(link).or_default();
        if *given >= each {
            let why = b"<Code>AccessDenied</Code><Message>Request has expired</Message>";
            let length = why.len().to_string();
            return (http("403 Forbidden", &[("Content-Length", &length)], why), Then::Keep);
        }
        let size = content.len();
        let range = request.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
        let (start, end) = range.map_or((0, size), |(start, end)| {
            (start.parse().expect("a number"), end.parse().map_or(size, |end: usize| size.min(end + 1)))
        });
        let (length, range) = ((end - start).to_string(), format!("bytes {start}-{}/{size}", end - 1));
        let headers = [
            ("Content-Length", &*length),
            ("Content-Range", &range),
            ("ETag", "\"a\""),
            ("Accept-Ranges", "bytes"),
        ];
        let head = request.lines[0].starts_with("HEAD");
        let last = if head { start } else { end.min(start + each - *given) };
        *given += last - start;
        let status = if head { "200 OK" } else { "206 Partial Content" };
        (
            http(status, &headers, &content[start..last]),
            if last < end && !head { Then::Close } else { Then::Keep },
        )
    })
}

#[test]
fn a_fresh_link_continues_what_another_began_by_hand_or_by_a_command() {
    let content: &[u8] = Box::leak(testkit::noise(57, LINKED).into_boxed_slice());
    let world = World::new();
    // They end in the middle of a segment, and of a block.
    let blocks = (8 << 20) + 5 * (128 << 10);
    let server = expiring(content, blocks + 77);
    let link =
        |number: u32| server.url(&format!("f?X-Amz-Date={number}&X-Amz-Signature={number}")).to_string();
    // One connection, so that what is there is known: what came before a link expired is written down.
    let get = |link: &str, out: &str, more: &[&str]| {
        world.json(&[&["get", link, "-o", out, "--fixed", "1", "--retry-for", "5s"], more].concat())
    };
    let (code, all) = get(&link(1), "hand", &[]);
    let message = all["failures"][0]["message"].as_str().expect("text");
    assert!(code == 5 && message.contains("403") && message.contains("a fresh one continues"), "{all}");
    let (code, all) = get(&link(2), "hand", &[]);
    assert_eq!((code, all["bytes"].as_u64()), (0, Some((LINKED - blocks) as u64)), "{all}");
    assert!(world.read("hand/f") == content);

    let count = world.path("count");
    let script = format!(
        "#!/bin/sh\nn=$(($(cat {0} 2>/dev/null || echo 3) + 1)); echo $n > {0}\n\
         echo \"$1\" | sed s/=[0-9]*/=$n/g\n[ $n -lt 9 ] || {{ echo no more of these >&2; exit 4; }}\n",
        count.display()
    );
    world.write("fresh", script);
    fs::set_permissions(world.path("fresh"), fs::Permissions::from_mode(0o700)).expect("set");
    let command = format!("{} ", world.path("fresh").display());
    let (code, all) = get(&link(3), "command", &["--refresh-url-with", &command]);
    assert_eq!((code, all["bytes"].as_u64()), (0, Some(LINKED as u64)), "{all}");
    assert!(world.read("command/f") == content);
    assert_eq!(fs::read_to_string(&count).expect("written"), "4\n", "a link that works needs no other");

    // A command that fails is asked once, and shown.
    world.write("count", "8\n");
    let (code, all) = get(&link(3), "fails", &["--refresh-url-with", &command]);
    let message = all["failures"][0]["message"].as_str().expect("text");
    assert!(
        code == 5 && message.contains("403") && message.ends_with("exit status: 4: no more of these"),
        "{all}"
    );
    assert_eq!(fs::read_to_string(&count).expect("written"), "9\n");
}

// Directories and sums ------------------------------------------------------------------------------------

#[test]
fn a_directory_that_a_server_lists_is_got_and_nothing_above_or_elsewhere() {
    let test = "a_directory_that_a_server_lists_is_got_and_nothing_above_or_elsewhere";
    let world = World::new();
    for name in [
        "pub/d/a b.txt",
        "pub/d/100%.bin",
        "pub/d/sub/\u{e9}#?.bin",
        "pub/d/sub/deep/x&y",
        "pub/above",
        "else/x",
    ] {
        world.write(format!("www/{name}"), name);
    }
    let Some(nginx) = testkit::nginx::Nginx::with(&world.path("www"), "", "autoindex on;") else {
        return testkit::skip(test, "nginx is not installed");
    };
    let wanted = ["100%.bin", "a b.txt", "sub/deep/x&y", "sub/\u{e9}#?.bin"];
    let tree = |out: &str| {
        world
            .tree(out)
            .into_iter()
            .filter(|name| name.contains('.') || name.contains('&'))
            .collect::<Vec<_>>()
    };
    for (path, out) in [("pub/d/", "one"), ("pub/d", "two")] {
        let (code, all) = world.json(&["get", "-r", nginx.url(path).as_str(), "-o", out, "--no-sidecars"]);
        assert_eq!((code, tree(out)), (0, wanted.map(str::to_owned).to_vec()), "{all}");
    }
    assert_eq!(world.read("one/sub/deep/x&y"), b"pub/d/sub/deep/x&y");

    let other = Scripted::http(|_| (http("200 OK", &[("Content-Length", "0")], b""), Then::Keep));
    let away = other.url("d/").to_string();
    let odd = Scripted::http(move |request| {
        let page = |text: &str| {
            let length = text.len().to_string();
            (
                http(
                    "200 OK",
                    &[("Content-Type", "text/html"), ("Content-Length", &length)],
                    text.as_bytes(),
                ),
                Then::Keep,
            )
        };
        match request.path() {
            "/d/" => page(&format!(
                "<a href=/up><a href=../up><a href={away}x><a href=?C=N><a href=%2e%2e%2fup><a href=out/><a href=gone/><a href=loop/><a href=ok>"
            )),
            "/d/out/" => {
                (http("302 Found", &[("Location", &away), ("Content-Length", "0")], b""), Then::Keep)
            }
            "/d/ok" | "/d/ok/" => (http("200 OK", &[("Content-Length", "2")], b"ok"), Then::Keep),
            path if path.starts_with("/d/loop/") => page("<a href=loop/><a href=..>"),
            _ => (http("404 Not Found", &[("Content-Length", "0")], b""), Then::Keep),
        }
    });
    let (code, all) = world.json(&["get", "-r", odd.url("d/").as_str(), "-o", "odd", "--no-sidecars"]);
    let failures = all["failures"].as_array().expect("failures");
    assert_eq!((code, all["files"]["ok"].as_u64(), failures.len()), (1, Some(1), 4), "{all}");
    for words in ["'.' or '..'", "which lies elsewhere", "404", "deeper than 32"] {
        assert!(all["failures"].to_string().contains(words), "{words}: {all}");
    }
    assert_eq!((world.tree("odd"), other.requests().len()), (vec!["ok".to_owned()], 0));
    for (names, code, words) in [
        (&["SRR390728"][..], 2, "-r is for directories"),
        (&["file:///d/"], 2, "-r is for directories"),
        (&[odd.url("d/ok").as_str()], 1, "no listing of a directory"),
    ] {
        let ran = world.run(&[&["get", "-r", "-o", "no"], names].concat());
        assert!(ran.code == code && ran.err.contains(words), "{ran:?}");
    }
}

#[test]
fn a_sum_on_the_command_line_is_what_the_only_url_must_have() {
    let world = World::new();
    let server = Scripted::http(|_| (http("200 OK", &[("Content-Length", "9")], b"123456789"), Then::Keep));
    let url = server.url("x").to_string();
    let right = "md5:25f9e794323b453885f5181f1b624d0b,SHA-1=F7C3BC1D808E04732ADF679965CCC34CA7AE3441";
    let (code, all) = world.json(&["get", &url, "-o", "out", "--checksum", right, "--checksum", "sha256"]);
    assert_eq!((code, &all["verified"]), (0, &true.into()), "{all}");
    let wrong = format!("sha256:{}", "0".repeat(64));
    let told = "sha256 is 15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225";
    let ran = world.run(&["get", &url, "-o", "wrong", "--checksum", &wrong]);
    assert!(ran.code == 1 && !world.path("wrong/x").exists(), "{ran:?}");
    let times = (ran.err.matches(told).count(), ran.err.matches("fetched once more").count());
    assert_eq!(times, (2, 1), "when it is tried again, and at the end: {ran:?}");
    for (arguments, words) in [
        (&["--checksum", &wrong, &url, &url][..], "exactly one URL"),
        (&["--checksum", &wrong, "SRR390728"], "exactly one"),
        (&["--checksum", &wrong, "-r", &url], "exactly one"),
        (&["--checksum", "sha256:12", &url], "64 hexadecimal digits"),
        (&["--checksum", "sum:12", &url], "\"sum\""),
        (&["--checksum", &format!("{wrong},{}", wrong.replace(":0", ":1")), &url], "two sums by sha256"),
    ] {
        let ran = world.run(&[&["get", "-o", "no"], arguments].concat());
        assert!(ran.code == 2 && ran.err.contains(words), "{arguments:?}: {ran:?}");
    }
}
