//! Files to and from hosts that have a server of SFTP, over a real sshd on the loopback.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::common::sshd::{Sshd, user};
use crate::common::{Ran, World, eventually, finish, signal, wait};

const MIB: usize = 1 << 20;

/// A world with such a host.
pub(crate) struct Host {
    pub world: World,
    sshd: Sshd,
    pub user: String,
}

impl Host {
    pub fn new(test: &str) -> Option<Self> {
        Self::with(test, true)
    }

    fn with(test: &str, has_sftp: bool) -> Option<Self> {
        let world = World::new();
        let sshd = Sshd::start_with(&world, test, has_sftp)?;
        Some(Self { world, sshd, user: user() })
    }

    /// The URL of something in the world.
    pub fn at(&self, path: &str) -> String {
        format!("sftp://{}@dtn{}", self.user, self.world.text(path))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.world.command();
        command.arg(arguments[0]);
        if !arguments.contains(&"--ssh") {
            command.args(["--ssh", &self.sshd.command]);
        }
        command.args(&arguments[1..]);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        finish(&mut self.command(arguments))
    }

    /// What is done without a word.
    fn done(&self, arguments: &[&str]) -> Ran {
        let ran = self.run(arguments);
        assert!(ran.code == 0 && ran.err.is_empty(), "{arguments:?}: {ran:?}");
        ran
    }

    /// What cannot be done, and is told in one line.
    fn refused(&self, arguments: &[&str], code: i32, words: &[&str]) {
        let ran = self.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {ran:?}");
        assert_eq!(ran.err.lines().count(), 1, "{arguments:?}: {ran:?}");
        assert!(words.iter().all(|word| ran.err.contains(word)), "{words:?}: {ran:?}");
    }

    fn same(&self, one: &str, other: &str) {
        assert_eq!(self.world.tree(one), self.world.tree(other), "{other}");
        for name in self.world.tree(one).iter().filter(|name| !name.ends_with('/')) {
            let [ours, theirs] = [one, other].map(|tree| self.world.read(format!("{tree}/{name}")));
            assert!(ours == theirs, "{other}/{name}");
        }
    }

    /// A tree of `count` small files and some that are odd.
    fn fill(&self, root: &str, count: usize) {
        for n in 0..count {
            self.world.fill(format!("{root}/dir {}/{n}", n % 7), 1 + 37 * (n % 300), n as u64);
        }
        self.world.write(format!("{root}/empty"), "");
        self.world.write(format!("{root}/deep/er/x#y?z%20"), "odd");
        self.world.fill(format!("{root}/large"), 12 * MIB + 7, 1);
    }
}

#[test]
fn a_tree_goes_there_and_comes_back() {
    let Some(host) = Host::new("sftp, both ways") else { return };
    host.fill("src", 300);
    let to = host.at("sshd/home/new/there/");
    host.done(&["copy", "src/", &to]);
    host.same("src", "sshd/home/new/there");
    let again = host.done(&["copy", "src/", &to]);
    assert!(again.out.contains("303 files there already"), "{again:?}");
    for (from, copy) in [(to.as_str(), "back"), (to.trim_end_matches('/'), "named/there")] {
        let into = format!("{}/", copy.split('/').next().expect("a name"));
        host.done(&["copy", from, &into]);
        host.same("src", copy);
    }
    let again = host.done(&["copy", &to, "back/"]);
    assert!(again.out.contains("there already"), "{again:?}");
    host.done(&["get", "-q", "-r", "--no-sidecars", &to, "-o", "got"]);
    host.same("src", "got");
    // What is no longer there goes, since the listing leaves nothing out.
    fs::remove_file(host.world.path("sshd/home/new/there/empty")).expect("removed");
    host.done(&["copy", "--delete", &to, "back/"]);
    assert!(!host.world.path("back/empty").exists());
    fs::create_dir(host.world.path("nothing")).expect("made");
    let ran = host.done(&["copy", &host.at("nothing/"), "back/"]);
    assert!(ran.out.contains("nothing to do"), "{ran:?}");
    let ran = host.run(&["copy", "--delete", &host.at("nothing/"), "back/"]);
    assert!(ran.code == 1 && host.world.path("back/large").exists(), "no mirror is made of nothing: {ran:?}");
    host.world.write("emptied/a", "a");
    host.done(&["copy", "--delete", "--max-delete=9", &host.at("nothing/"), "emptied/"]);
    assert!(!host.world.path("emptied/a").exists());
    host.done(&["copy", "--exclude", "dir*", &to, "chosen/"]);
    assert_eq!(host.world.tree("chosen").iter().filter(|name| name.contains("dir")).count(), 0);
}

#[test]
fn names_of_any_bytes_go_and_come() {
    let Some(host) = Host::new("sftp, names") else { return };
    let names: [&[u8]; 5] = [b"\xff\xfe", b"new\nline", b" a b ", b"-rf", b"back\\slash"];
    let read = |tree: &str, name: &[u8]| fs::read(host.world.path(tree).join(OsStr::from_bytes(name)));
    host.world.write("src/plain", "plain");
    for name in names {
        fs::write(host.world.path("src").join(OsStr::from_bytes(name)), name).expect("written");
    }
    host.done(&["copy", "src/", &host.at("there/")]);
    host.done(&["copy", &host.at("there/"), "back/"]);
    for name in names {
        assert_eq!(read("there", name).expect("there"), name);
        assert_eq!(read("back", name).expect("back"), name);
    }
}

#[test]
fn one_file_goes_and_comes_under_the_name_that_is_given() {
    let Some(host) = Host::new("sftp, one file") else { return };
    host.world.fill("a", 3 * MIB, 1);
    fs::create_dir_all(host.world.path("there/dir")).expect("made");
    host.done(&["copy", "a", &host.at("there/b")]);
    host.done(&["put", "a", &host.at("there/dir")]);
    assert!(host.world.read("a") == host.world.read("there/b"));
    assert!(host.world.read("a") == host.world.read("there/dir/a"));
    host.done(&["copy", &host.at("there/b"), "c"]);
    host.done(&["get", "--no-sidecars", "-q", &host.at("there/b"), "-o", "got"]);
    assert!(host.world.read("a") == host.world.read("c"));
    assert!(host.world.read("a") == host.world.read("got/b"));
    let server = host.world.endpoint("served", &[]);
    host.done(&["copy", &host.at("there/b"), &server.at("in/")]);
    assert!(host.world.read("a") == host.world.read("served/in/b"));
    host.done(&["copy", &server.at("in/"), &host.at("from an endpoint/")]);
    assert!(host.world.read("a") == host.world.read("from an endpoint/b"));
    host.done(&["copy", &host.at("there/"), &host.at("from itself/")]);
    host.same("there", "from itself");
    // A file that is newer there is another one.
    host.world.fill("there/b", 3 * MIB, 2);
    host.done(&["copy", &host.at("there/b"), "c"]);
    assert!(host.world.read("there/b") == host.world.read("c"));
}

#[test]
fn links_are_followed_to_files_and_told_otherwise() {
    let Some(host) = Host::new("sftp, links") else { return };
    host.world.write("src/a", "content");
    host.world.write("elsewhere/b", "b");
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, host.world.path(format!("src/{name}"))).expect("made");
    };
    link("a", "to a file");
    link("../elsewhere", "to a directory");
    link("nowhere", "to nothing");
    let ran = host.run(&["copy", &host.at("src/"), "back/"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(host.world.tree("back"), ["a", "to a file"]);
    assert_eq!(host.world.read("back/to a file"), b"content");
    let told = |words: &str| ran.err.lines().filter(|line| line.contains(words)).count();
    assert_eq!((told("to a directory"), told("to nothing"), ran.err.lines().count()), (1, 1, 2), "{ran:?}");
}

#[test]
fn thousands_of_small_files_go_and_come() {
    let Some(host) = Host::new("sftp, many files") else { return };
    let count = if testkit::is_long() { 20_000 } else { 2_000 };
    host.fill("src", count);
    let to = host.at("there/");
    host.done(&["copy", "src/", &to]);
    host.same("src", "there");
    host.done(&["copy", &to, "back/"]);
    host.same("src", "back");
    let again = host.done(&["copy", "src/", &to]);
    assert!(again.out.contains(&format!("{} files there already", count + 3)), "{again:?}");
}

#[test]
fn an_upload_that_was_killed_goes_on_with_what_is_there() {
    let Some(host) = Host::new("sftp, killed") else { return };
    host.world.fill("src/large", 60 * MIB, 1);
    host.fill("src/more", 50);
    let to = host.at("there/");
    let mut command = host.command(&["copy", "--limit-link", "200Mbps", "src/", &to]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    let size = || {
        let parts = fs::read_dir(host.world.path("there")).into_iter().flatten().flatten();
        parts.filter_map(|part| part.metadata().ok()).map(|meta| meta.len()).max().unwrap_or(0)
    };
    eventually(|| size() > 20 << 20);
    signal(child.id(), Signal::KILL);
    wait(child);
    assert!(!host.world.path("there/large").exists(), "it has its name before it is whole");
    let again = host.run(&["copy", "--json", "src/", &to]);
    let summary: Value = serde_json::from_str(&again.out).expect("JSON");
    assert_eq!(again.code, 0, "{again:?}");
    let moved = summary["bytes"].as_u64().expect("a number");
    assert!(moved < 65 << 20, "{summary}");
    host.same("src", "there");
}

#[test]
fn a_download_goes_on_where_ssh_was_killed() {
    let Some(host) = Host::new("sftp, ssh killed") else { return };
    host.world.fill("there/large", 40 * MIB, 1);
    let limits = ["--limit-link", "150Mbps", "--epoch", "200ms"];
    let mut command = host.command(&[&["copy"], &limits[..], &[&host.at("there/"), "back/"]].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let part = host.world.path("back/.tidegate");
    eventually(|| part.exists());
    std::thread::sleep(Duration::from_millis(500));
    children_of(child.id()).into_iter().for_each(|process| signal(process, Signal::KILL));
    let ran = wait(child);
    assert_eq!(ran.code, 0, "{ran:?}");
    host.same("there", "back");
}

#[test]
fn what_goes_wrong_is_said_in_one_line() {
    let Some(host) = Host::new("sftp, faults") else { return };
    host.world.write("a", "x");
    host.world.write("there/b", "x");
    let there = host.at("there/");
    host.refused(
        &["put", "--retries", "0", "a", "sftp://nowhere.invalid/x"],
        1,
        &["sftp://nowhere.invalid", "ssh did not reach"],
    );
    host.refused(&["copy", &host.at("there/none"), "c"], 3, &["there/none", "there is no such file"]);
    host.refused(&["copy", &host.at("none/"), "c"], 3, &["none/", "there is no such file"]);
    host.refused(&["put", "a", "sftp://me:secret@dtn/x"], 2, &["a password is not taken"]);
    host.refused(&["put", "a", "sftp://a%24b@dtn/x"], 2, &["is no host for ssh"]);
    host.refused(&["copy", "--ssh", "no-such-program", "a", &there], 1, &["no-such-program"]);
    host.refused(&["copy", &there, "gs://bucket/"], 2, &["nothing is put to gs://"]);
    let job = host.world.run(&["submit", "a", &there]);
    assert!(job.code == 2 && job.err.contains("sftp:// is not known"), "{job:?}");
    host.world.write("sshd/authorized", "");
    host.refused(&["put", "a", &there], 5, &["not let in", "Permission denied"]);
    host.refused(&["copy", "--retry-for", "0s", &there, "c/"], 5, &["not let in"]);
    host.world.write("sshd/known", "");
    host.refused(&["put", "a", &there], 5, &["does not trust"]);
    let Some(none) = Host::with("sftp, no subsystem", false) else { return };
    none.world.write("a", "x");
    none.refused(&["put", "a", &none.at("there/")], 5, &["has no SFTP server"]);
}

#[test]
fn a_host_that_says_nothing_is_given_up_in_time() {
    let Some(host) = Host::new("sftp, silence") else { return };
    host.world.write("a", "x");
    host.world.write("hang", "exec sleep 1000");
    let hangs = format!("sh {}", host.world.text("hang"));
    let since = Instant::now();
    let quick = ["--ssh", &hangs, "--timeout", "1s", "--retries", "0"];
    host.refused(&[&["put"], &quick[..], &["a", &host.at("there/")]].concat(), 1, &["said nothing for 1 s"]);
    let got = host.run(&[&["get"], &quick[..], &["-q", &host.at("there/b"), "-o", "got"]].concat());
    assert!(got.code == 1 && got.err.contains("said nothing for 1 s"), "{got:?}");
    assert!(since.elapsed() < Duration::from_secs(20));
    // A shell that greets is no server of SFTP.
    host.world.write("greets", "echo Welcome; exec sleep 1000");
    let greets = format!("sh {}", host.world.text("greets"));
    let words = ["is no packet of SFTP", "is the shell there silent"];
    host.refused(&["put", "--ssh", &greets, "a", &host.at("there/")], 1, &words);
}

/// The processes that a process has started.
fn children_of(id: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let read = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).ok();
    let text: String = tasks.filter_map(read).collect();
    text.split_whitespace().map(|word| word.parse().expect("a number")).collect()
}
