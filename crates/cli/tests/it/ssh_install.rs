//! The program is put onto a host that ssh reaches, when that is asked for, and otherwise nothing stays there.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::sshd::{Sshd, user};
use crate::common::{Ran, World, eventually, finish};
use testkit::mounted::Mounted;
use testkit::skip;

/// A world with a server of ssh that has no program of ours, and one to put there.
struct Bare {
    world: World,
    sshd: Sshd,
}

impl Bare {
    fn new(test: &str) -> Option<Self> {
        let world = World::new();
        let sshd = Sshd::start(&world, test)?;
        fs::remove_file(sshd.programs.join("tidegate")).expect("removed");
        world.fill("src/file", 100_000, 1);
        // As small as it can be had.
        let ours = env!("CARGO_BIN_EXE_tidegate");
        let stripped = Command::new("strip").arg("-o").arg(world.path("program")).arg(ours).status();
        if !stripped.is_ok_and(|status| status.success()) {
            fs::copy(ours, world.path("program")).expect("copied");
        }
        Some(Self { world, sshd })
    }

    fn copy(&self, options: &[&str], to: &str) -> Ran {
        let mut command = self.program();
        command.args(["copy", "--retry-for", "0s", "--ssh", &self.sshd.command]).args(options);
        finish(command.args(["src/", &format!("{}@dtn:{to}", user())]))
    }

    /// The program, as small as it can be had, where a test runs it.
    fn program(&self) -> Command {
        let usual = self.world.command();
        let mut command = Command::new(self.world.path("program"));
        command.current_dir(usual.get_current_dir().expect("a directory")).env_clear().stdin(Stdio::null());
        command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }

    fn cache(&self) -> PathBuf {
        self.sshd.home.join(".cache/tidegate").join(env!("CARGO_PKG_VERSION"))
    }

    /// One line that says why, and nothing there.
    fn refused(&self, option: &str, code: i32, words: &[&str]) {
        let ran = self.copy(&[option], "refused/");
        assert_eq!((ran.code, ran.err.lines().count()), (code, 1), "{option}: {ran:?}");
        assert!(words.iter().all(|word| ran.err.contains(word)), "{option}, {words:?}: {ran:?}");
        eventually(|| self.sshd.running() == 0);
        let left = fs::read_dir(self.cache()).into_iter().flatten().flatten();
        assert_eq!(left.map(|entry| entry.file_name()).collect::<Vec<_>>(), [""; 0], "{option}");
        assert!(!self.sshd.home.join("refused").exists());
    }

    /// Makes a program of the other host that comes before the system's.
    fn shadow(&self, name: &str, script: &str) {
        let path = self.sshd.programs.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("made executable");
    }
}

#[test]
fn it_is_put_there_once_and_found_by_later_runs() {
    let Some(bare) = Bare::new("it_is_put_there_once_and_found_by_later_runs") else { return };
    let missing = bare.copy(&[], "none/");
    assert!(missing.code == 3 && missing.err.contains("--install-remote"), "{missing:?}");
    bare.sshd.install("echo 'an older one' >&2; exit 2");
    let put = bare.copy(&["--install-remote"], "first/");
    assert!(put.code == 0 && put.err.is_empty(), "{put:?}");
    assert!(bare.world.read("sshd/home/first/file") == bare.world.read("src/file"));
    let there = bare.cache().join("tidegate");
    let about = fs::metadata(&there).expect("put there");
    assert_eq!(about.permissions().mode() & 0o7777, 0o700);
    assert!(fs::read(&there).expect("read") == bare.world.read("program"));
    // Before the older one on the path, and without being asked for.
    let later = bare.copy(&["--via", "ssh"], "second/");
    assert!(later.code == 0 && later.err.is_empty(), "{later:?}");
    let modes = ["first", "second"]
        .map(|made| bare.sshd.home.join(made))
        .map(|made| fs::metadata(made).expect("made").mode());
    assert_eq!(modes[0], modes[1], "the copy is as if nothing had been put there");
    let again = bare.copy(&["--install-remote=program"], "third/");
    assert!(again.code == 0 && again.err.is_empty(), "{again:?}");
    assert_eq!(fs::metadata(&there).expect("there").ino(), about.ino(), "it was put there again");
    // One that others could have changed is not run, and not put where they could change it.
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    fs::rename(bare.sshd.programs.join("tidegate"), bare.world.path("older")).expect("moved away");
    set(&there, 0o777);
    let open = bare.copy(&["--via", "ssh"], "open/");
    assert!(open.code == 5 && open.err.contains("chmod go-w") && open.err.lines().count() == 1, "{open:?}");
    set(&bare.cache(), 0o777);
    let open = bare.copy(&["--install-remote=program"], "open/");
    assert!(open.code == 5 && open.err.contains("chmod go-w") && open.err.lines().count() == 1, "{open:?}");
    set(&bare.cache(), 0o700);
    // What is damaged, or another build, is replaced.
    fs::write(&there, "damaged").expect("written");
    let mended = bare.copy(&["--install-remote=program", "-v"], "fourth/");
    assert_eq!(mended.code, 0, "{mended:?}");
    assert!(mended.err.contains("putting program to"), "{mended:?}");
    assert_eq!(fs::read_dir(bare.cache()).expect("listed").count(), 1);
    eventually(|| bare.sshd.running() == 0);
}

#[test]
fn what_cannot_be_put_there_is_told_in_one_line_and_leaves_nothing() {
    let Some(bare) = Bare::new("what_cannot_be_put_there_is_told_in_one_line") else { return };
    let program = bare.world.read("program");
    let mut foreign = program.clone();
    foreign[18..20].copy_from_slice(&183_u16.to_le_bytes());
    bare.world.write("foreign", foreign);
    bare.world.write("script", "#!/bin/sh\nexit 0\n");
    // One that needs what is not there, as one that cargo built may; where all is there it is put.
    if let Some(at) = program.windows(8).position(|window| window == b"/ld-linu") {
        let mut elsewhere = program.clone();
        elsewhere[at..at + 8].copy_from_slice(b"/ld-none");
        bare.world.write("elsewhere", elsewhere);
        let words = ["does not run there", "libraries of this host", "--install-remote=FILE", "make dist"];
        bare.refused("--install-remote=elsewhere", 2, &words);
    }
    bare.refused("--install-remote=none", 3, &["cannot read none"]);
    bare.refused("--install-remote=src", 2, &["src is no file"]);
    bare.refused("--install-remote=script", 2, &["script is no program of Linux"]);
    bare.refused("--install-remote=foreign", 2, &["is for Linux on aarch64", "is Linux"]);
    bare.refused("--install-remote=/bin/true", 2, &["it says that it is 'true", "and this is tidegate"]);
    let both = bare.copy(&["--install-remote=program", "--remote-path=/x"], "x/");
    assert!(both.code == 2 && both.err.contains("cannot be used with"), "{both:?}");
    bare.shadow("sha256sum", "echo 0123456789abcdef");
    bare.refused("--install-remote=program", 1, &["another SHA-256"]);
    for name in ["sha256sum", "shasum", "openssl"] {
        bare.shadow(name, "exit 1");
    }
    bare.refused("--install-remote=program", 2, &["none of sha256sum, shasum and openssl"]);
}

#[test]
fn a_home_directory_that_is_full_or_runs_nothing_is_told_of() {
    let test = "a_home_directory_that_is_full_or_runs_nothing_is_told_of";
    let Some(bare) = Bare::new(test) else { return };
    let cache = bare.sshd.home.join(".cache");
    fs::create_dir_all(&cache).expect("made");
    for (options, code, words) in [
        ("size=64k", 4, &["there is no room for it", "No space left"][..]),
        ("noexec", 5, &["noexec", "--remote-path"]),
        ("ro", 5, &["cannot be written to", "Read-only"]),
    ] {
        let Some(_mounted) = Mounted::tmpfs(&cache, options) else {
            skip(test, "nothing may be mounted");
            return;
        };
        bare.refused("--install-remote=program", code, words);
    }
}
