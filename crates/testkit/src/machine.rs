//! What the machine has for tests: programs, rights. `make test` leaves out what wants either.

use std::io::Write;
use std::path::PathBuf;

/// Set to `no`, it leaves out tests that want root's rights, or programs that neither cargo nor pip bring.
const INSTALLED: &str = "TIDEGATE_TEST_INSTALLED";

/// Programs that pip brings, or that every machine has that can build Tidegate.
const BROUGHT: [&str; 3] = ["moto_server", "python3", "wsgidav"];

/// Says that a test could not run; `scripts/test` reads it, and names the test as its thread is named.
pub fn skip(test: &str, reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").unwrap_or(test);
    eprintln!("skipped {test}: {reason}");
    if let Some(log) = std::env::var_os("TIDEGATE_SKIP_LOG") {
        let mut log = std::fs::OpenOptions::new().append(true).create(true).open(log).expect("opened");
        // At once: others write to it, too.
        log.write_all(format!("{test}: {reason}\n").as_bytes()).expect("written");
    }
}

/// Lets this process have as many files open as it may: many transfers run in it at once.
pub fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("no more than may be");
}

/// Whether tests may use what has to be installed, or wants root.
pub fn may_use_installed() -> bool {
    std::env::var_os(INSTALLED).is_none_or(|word| word != "no")
}

/// Whether there is time for many seeds: the long mode.
pub fn is_long() -> bool {
    std::env::var_os("TIDEGATE_LONG").is_some()
}

/// Where a program is that a test wants; many are outside of an ordinary user's `PATH`.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    let mut places = std::env::split_paths(&path).chain(more).map(|directory| directory.join(name));
    places.find(|file| file.is_file()).filter(|_| BROUGHT.contains(&name) || may_use_installed())
}

/// Whether all of these programs are here; the test is skipped if not.
pub fn has(test: &str, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|name| program(name).is_none());
    if let Some(name) = missing {
        skip(test, &format!("{name} is not installed"));
    }
    missing.is_none()
}

/// Whether tests may use root's rights.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root() && may_use_installed()
}

/// The congestion controls that this kernel has.
pub fn congestion_controls() -> Vec<String> {
    let listed = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    listed.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// The congestion control of each connection from or to a port of this host; `None` where there is no `ss` to tell it.
pub fn congestion_at(port: u16) -> Option<Vec<String>> {
    let ss = program("ss")?;
    let told =
        std::process::Command::new(ss).args(["-Htin", "state", "established"]).output().expect("asked");
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let (lines, known): (Vec<&str>, _) = (text.lines().collect(), congestion_controls());
    let at = format!(":{port} ");
    let here = lines.chunks(2).filter(|pair| pair.len() == 2 && format!("{} ", pair[0]).contains(&at));
    let name = |pair: &[&str]| {
        pair[1].split_whitespace().find(|word| known.iter().any(|name| name == word)).map(str::to_owned)
    };
    Some(here.filter_map(name).collect())
}
