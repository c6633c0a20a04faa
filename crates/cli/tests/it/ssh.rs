//! Copies to and from a host where nothing of ours runs, over a real sshd on the loopback.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::service::Service;
use crate::common::sshd::{Sshd, user};
use crate::common::{Ran, World, eventually, finish, signal, wait};
use rustix::process::Signal;

/// A world with a server of ssh and something to copy.
struct Far {
    world: World,
    sshd: Sshd,
    user: String,
}

impl Far {
    fn new(test: &str) -> Option<Self> {
        let world = World::new();
        let sshd = Sshd::start(&world, test)?;
        for (n, size) in [0, 1, 4096, 1_000_000, 3_000_000].into_iter().enumerate() {
            world.fill(format!("src/a b/{n}"), size, n as u64 + 1);
        }
        Some(Self { world, sshd, user: user() })
    }

    fn at(&self, path: &str) -> String {
        format!("{}@dtn:{path}", self.user)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.world.command();
        command.arg("copy");
        if !arguments.contains(&"--ssh") {
            command.args(["--ssh", &self.sshd.command]);
        }
        command.args(arguments);
        command
    }

    fn copy(&self, arguments: &[&str]) -> Ran {
        finish(&mut self.command(arguments))
    }

    /// A copy that cannot be made: one line, and nothing there.
    fn refused(&self, arguments: &[&str], code: i32, words: &[&str]) {
        let ran = self.copy(&[arguments, &["--retry-for", "0s", "src", &self.at("refused/")]].concat());
        assert_eq!(ran.code, code, "{arguments:?}: {ran:?}");
        assert_eq!(ran.err.lines().count(), 1, "{arguments:?}: {ran:?}");
        assert!(words.iter().all(|word| ran.err.contains(word)), "{words:?}: {ran:?}");
        assert!(!self.sshd.home.join("refused").exists());
    }

    fn same(&self, copy: &str) {
        assert_eq!(self.world.tree("src"), self.world.tree(copy), "{copy}");
        for name in self.world.tree("src").iter().filter(|name| !name.ends_with('/')) {
            let [ours, theirs] = ["src", copy].map(|tree| self.world.read(format!("{tree}/{name}")));
            assert!(ours == theirs, "{copy}/{name}");
        }
    }
}

#[test]
fn whichever_way_data_goes_it_arrives_and_nothing_stays_behind() {
    let Some(far) = Far::new("ssh, ways") else { return };
    for way in ["auto", "direct", "reverse", "ssh"] {
        let pushed = far.copy(&["--via", way, "src/", &far.at(&format!("to {way}/"))]);
        assert!(pushed.code == 0 && pushed.err.is_empty(), "{way}: {pushed:?}");
        far.same(&format!("sshd/home/to {way}"));
        let pulled = far.copy(&["--via", way, &far.at(&format!("to {way}/")), &format!("from {way}/")]);
        assert!(pulled.code == 0 && pulled.err.is_empty(), "{way}: {pulled:?}");
        far.same(&format!("from {way}"));
        eventually(|| far.sshd.running() == 0);
    }
    let again = far.copy(&["src/", &far.at("to auto/")]);
    assert!(again.out.contains("there already"), "{again:?}");
    // State lies where the user there has it.
    let program = env!("CARGO_BIN_EXE_tidegate");
    far.sshd.install(&format!("TIDEGATE_STATE=$HOME/kept exec {program} \"$@\""));
    let elsewhere = far.copy(&["src/", &far.at("to auto/")]);
    assert!(elsewhere.code == 0 && far.sshd.home.join("kept/catalogue").exists(), "{elsewhere:?}");
}

#[test]
fn both_ends_may_be_reached_by_ssh_and_one_of_them_served() {
    let Some(far) = Far::new("ssh, third party") else { return };
    let server = far.world.endpoint("served", &[]);
    let pushed = far.copy(&["src", &far.at("")]);
    assert_eq!(pushed.code, 0, "{pushed:?}");
    for (from, to, copy) in [
        (far.at("src"), far.at("third/"), "sshd/home/third/src"),
        (far.at("src/"), server.at("fourth/"), "served/fourth"),
        (server.at("fourth/"), far.at("fifth/"), "sshd/home/fifth"),
        (far.at("~/src/"), format!("{}/", far.world.text("sixth")), "sixth"),
    ] {
        let moved = far.copy(&[&from, &to]);
        assert!(moved.code == 0 && moved.err.is_empty(), "{from} to {to}: {moved:?}");
        far.same(copy);
    }
    let no_way = far.copy(&["--via", "ssh", &far.at("src"), &far.at("seventh/")]);
    assert!(no_way.code == 2 && no_way.err.contains("through ssh only"), "{no_way:?}");
}

#[test]
fn a_dry_run_says_the_same_over_ssh_and_makes_nothing_there() {
    let Some(far) = Far::new("ssh, dry run") else { return };
    let would = far.copy(&["-n", "src/", &far.at("dry/")]);
    assert!(would.code == 0 && would.err.is_empty(), "{would:?}");
    assert!(would.out.contains("6 new (5 files, 1 directory)\n5 files, 3.82 MiB to send"), "{would:?}");
    assert!(!far.sshd.home.join("dry").exists());
    assert_eq!(far.copy(&["src/", &far.at("dry/")]).code, 0);
    for (from, to) in [("src/", far.at("dry/")), (&far.at("dry/"), "src/".to_owned())] {
        let again = far.copy(&["-n", "--checksum", from, &to]);
        assert_eq!((again.code, &*again.out), (0, "6 the same (5 files, 1 directory)\nnothing to send\n"));
    }
    eventually(|| far.sshd.running() == 0);
}

#[test]
fn a_name_may_stand_for_a_host_that_ssh_reaches() {
    let Some(far) = Far::new("ssh, names") else { return };
    let added = far.world.ok(&["remote", "add", "site", &format!("ssh://{}@dtn/", far.user)]);
    assert!(added.contains("ssh://"), "{added}");
    let target = far.world.text("sshd/home/named/");
    let pushed = far.copy(&["src/", &format!("site:{target}")]);
    assert!(pushed.code == 0, "{pushed:?}");
    far.same("sshd/home/named");
    let checked = finish(
        far.world.command().args(["verify", "--ssh", &far.sshd.command, "src/"]).arg(far.at("named/")),
    );
    assert!(checked.code == 0 && checked.out.contains("the same on both sides"), "{checked:?}");
    let unknown = far.copy(&["src", "nowhere:x/"]);
    assert!(unknown.code == 2 && unknown.err.contains("no endpoint is called 'nowhere'"), "{unknown:?}");
    let service = Service::start(&far.world, "service", &[]);
    for place in [far.at("x/"), format!("ssh://{}@dtn/x/", far.user), "site:/x/".to_owned()] {
        let job = service.run(&far.world, &["submit", "src", &place]);
        assert!(job.code == 2 && job.err.contains("no job runs ssh"), "{place}: {job:?}");
    }
}

#[test]
fn another_way_is_taken_where_one_is_closed() {
    let Some(far) = Far::new("ssh, closed ways") else { return };
    // Nobody finds that name, so that its port is not reached.
    let closed = ["--advertise", "nowhere.invalid"];
    let reversed = far.copy(&[&closed[..], &["src/", &far.at("one/")]].concat());
    assert!(reversed.code == 0 && reversed.err.is_empty(), "{reversed:?}");
    far.same("sshd/home/one");
    // Nor does it know where we are.
    far.sshd.install(&format!("unset SSH_CONNECTION\nexec {} \"$@\"", env!("CARGO_BIN_EXE_tidegate")));
    let through = far.copy(&[&closed[..], &["src/", &far.at("two/")]].concat());
    assert!(through.code == 0 && through.err.lines().count() == 1, "{through:?}");
    assert!(
        through.err.contains("through ssh itself") && through.err.contains("processor time"),
        "{through:?}"
    );
    far.same("sshd/home/two");
    far.refused(&["--via", "reverse"], 1, &["no connection came"]);
    far.refused(&["--via", "direct", "--advertise", "nowhere.invalid"], 1, &["is not reached"]);
    eventually(|| far.sshd.running() == 0);
}

#[test]
fn what_goes_wrong_is_said_in_one_line() {
    let Some(far) = Far::new("ssh, faults") else { return };
    let noise = "dd if=/dev/zero bs=1M count=100 2>/dev/null | tr '\\0' 'x'";
    let program = env!("CARGO_BIN_EXE_tidegate");
    far.refused(&["--remote-path", "/nowhere/tidegate"], 3, &["no `tidegate`", "--remote-path"]);
    far.refused(&["--remote-path", "$(id)"], 2, &["--remote-path"]);
    far.refused(&["--ssh", "no-such-program"], 3, &["cannot start no-such-program"]);
    far.refused(&["--ssh", "ssh 'x"], 2, &["is no command"]);
    far.refused(&["--port-range", "1-x"], 2, &["--port-range"]);
    far.sshd.install(&format!("{noise}\nexec {program} \"$@\""));
    far.refused(&[], 1, &["the shell at", "64 KiB"]);
    far.sshd.install("echo \"error: unexpected argument '--once' found\" >&2; exit 2");
    let ours = format!("tidegate {}", env!("CARGO_PKG_VERSION"));
    far.refused(&[], 1, &["too old", &ours, "update it"]);
    // One that knows other questions, and says which version it is.
    far.sshd.install(&format!("read -r q; echo '{{\"asked\": 1}}' | {program} \"$@\""));
    let asks = format!("does not know what {ours} asks of it");
    far.refused(&[], 1, &[&asks, &format!("--once of {ours}"), "update the older one"]);
    far.sshd.install("echo bang >&2; exit 9");
    far.refused(&[], 1, &["nothing came", "bang"]);
    std::fs::remove_file(far.sshd.programs.join("tidegate")).expect("removed");
    far.refused(&[], 3, &["no `tidegate`", "PATH", "sftp://dtn/PATH needs none there"]);
    far.sshd.install(&format!("echo Welcome; printf 'no end of line'; exec {program} \"$@\""));
    let greeted = far.copy(&["src/", &far.at("greeted/")]);
    assert!(greeted.code == 0 && greeted.err.is_empty(), "{greeted:?}");
    far.same("sshd/home/greeted");
    far.world.write("sshd/authorized", "");
    far.refused(&[], 5, &["not let in", "Permission denied"]);
    far.world.write("sshd/known", "");
    far.refused(&[], 5, &["host key"]);
}

#[test]
fn when_ssh_is_killed_it_is_started_again_and_the_copy_goes_on() {
    let Some(far) = Far::new("ssh, killed") else { return };
    far.world.fill("big/file", 40_000_000, 9);
    let limits = ["--limit-link", "100Mbps", "--epoch", "200ms"];
    let mut command = far.command(&[&limits[..], &["big/", &far.at("big/")]].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let parts = far.sshd.home.join("big");
    eventually(|| parts.exists() && far.sshd.running() > 0);
    std::thread::sleep(Duration::from_millis(500));
    for process in children_of(child.id()) {
        signal(process, Signal::KILL);
    }
    let ran = wait(child);
    assert!(ran.code == 0 && ran.err.contains("trying again"), "{ran:?}");
    assert!(far.world.read("big/file") == far.world.read("sshd/home/big/file"));
    eventually(|| far.sshd.running() == 0);
}

#[test]
fn the_other_end_ends_when_we_are_killed_and_an_ssh_that_hangs_can_be_interrupted() {
    let Some(far) = Far::new("ssh, hangs") else { return };
    far.world.fill("big/file", 40_000_000, 9);
    let mut command = far.command(&["--limit-link", "20Mbps", "big/", &far.at("big/")]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    eventually(|| far.sshd.home.join("big").exists());
    signal(child.id(), Signal::KILL);
    assert_eq!(wait(child).code, -1);
    eventually(|| far.sshd.running() == 0);
    assert!(!far.sshd.home.join("big/file").exists());

    far.world.write("hang", "exec sleep 1000");
    let hangs = format!("sh {}", far.world.text("hang"));
    let mut command = far.command(&["--ssh", &hangs, "src", &far.at("x/")]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    eventually(|| !children_of(child.id()).is_empty());
    std::thread::sleep(Duration::from_millis(200));
    signal(child.id(), Signal::INT);
    let ran = wait(child);
    assert_eq!(ran.code, 130, "{ran:?}");
    assert!(ran.err.contains("interrupted") && ran.err.lines().count() == 1, "{ran:?}");
}

/// The processes that a process has started.
fn children_of(id: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let read = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).ok();
    let text: String = tasks.filter_map(read).collect();
    text.split_whitespace().map(|word| word.parse().expect("a number")).collect()
}
