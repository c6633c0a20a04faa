//! Puts a program onto a host that ssh reaches, when that is asked for: under its version in the user's cache there,
//! checked before it gets its name.
//!
//! A shell there is told what to do in one line on its standard input, then reads the program from it, and becomes the
//! program in the end, so that one session of ssh and one login do for all.

use std::io::{self, BufRead, Write};
use std::path::Path;

use data_encoding::HEXLOWER;
use ring::digest::{SHA256, digest};
use tidegate_contract::text::one_line;
use tidegate_transfer::error::{Error, ErrorKind, Result, usage};
use tidegate_transfer::text::show;

use crate::ssh::elf::Elf;
use crate::ssh::noise::skip_noise;

/// Runs the line that comes first on standard input; every shell reads these words alike.
pub const SHELL: &str = "exec sh -c 'read -r line; eval \"$line\"'";

/// Where programs are put, seen from the home directory.
pub const CACHE: &str = concat!(".cache/tidegate/", env!("CARGO_PKG_VERSION"));

/// Has a shell know the program `f` in its directory `d`.
pub const FIND: &str = concat!("d=$HOME/.cache/tidegate/", env!("CARGO_PKG_VERSION"), "; f=$d/tidegate");

/// Says of a program that is not run why, before the path that others could change.
pub const UNSAFE: &str = "tidegate: the one in ~/.cache/tidegate is not run, since it or its directory is a link, belongs to somebody else or can be written to by others: ";

/// `safe` tells of a name in the directory `d`, or of `d` itself, whether nobody but the user, and root, can have changed it: as
/// sshd has it of keys, neither that nor a directory up to the home directory may belong to or be written to by others. Without
/// single quotes, negations and backslashes, in which login shells differ.
pub const SAFE: &str = concat!(
    "own() { set -- $(ls -ldn \"$1\" 2>/dev/null); case $1 in d????????[tT]*) ;; ?????w*|????????w*) return 1;; esac; case $3 in $me|0) return 0;; esac; return 1; }; ",
    "safe() { me=$(id -u); h=$(cd -P \"$HOME\" && pwd -P); p=$(cd -P \"$d\" 2>/dev/null && pwd -P) || { p=$d; return 1; }; ",
    "p=$p$1; while own \"$p\"; do case $p in \"$h\"|/) return 0;; esac; p=${p%/*}; p=${p:-/}; done; return 1; }",
);

/// Longest line that the shell answers with.
const MAX_LINE: u64 = 4 << 10;

/// Most of the program that is sent at once.
const PORTION: usize = 64 << 10;

/// A program to put there.
#[derive(Debug)]
pub struct Executable {
    /// For people.
    name: String,
    content: Vec<u8>,
    sha256: String,
    elf: Elf,
}

/// What became of it.
#[derive(Debug)]
pub enum Placed {
    /// The shell becomes the program.
    Ready,
    /// The session ended before the shell said anything.
    Silent,
}

impl Executable {
    /// The file at `path`, or else this program.
    pub fn read(path: Option<&Path>) -> Result<Self> {
        let (name, path) = match path {
            Some(path) => (show(path.as_os_str().as_encoded_bytes()).into_owned(), path),
            None => ("this `tidegate`".to_owned(), Path::new("/proc/self/exe")),
        };
        let failed = |error| Error::io("read", path.as_os_str().as_encoded_bytes(), error);
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(usage(format!("--install-remote: {name} is no file")));
        }
        let content = std::fs::read(path).map_err(failed)?;
        let elf = Elf::of(&content).ok_or_else(|| {
            usage(format!("--install-remote: {name} is no program of Linux for a 64-bit processor"))
        })?;
        let sha256 = HEXLOWER.encode(digest(&SHA256, &content).as_ref());
        Ok(Self { name, content, sha256, elf })
    }

    /// Tells the shell at `place`, behind `to` and `from`, to put it there and to become it. The shell's answers come
    /// behind `mark`; `busy` hears that it goes on.
    ///
    /// # Errors
    /// It is not for that host, or could not be put there; nothing stays of it.
    pub fn put(
        &self,
        (to, from): (&mut impl Write, &mut impl BufRead),
        mark: &str,
        place: &str,
        busy: impl Fn(),
    ) -> Result<Placed> {
        // Who does not listen says why, or has ended.
        let _ = to.write_all(self.script(mark).as_bytes()).and_then(|()| to.flush());
        while skip_noise(from, mark.as_bytes())
            .map_err(|error| error.within(format!("the shell at {place}")))?
        {
            busy();
            let line =
                answer(from).map_err(|error| Error::connection("lost the connection to", place, error))?;
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match word {
                "host" => {
                    self.check_host(rest, place)?;
                    let _ = to.write_all(b"go\n").and_then(|()| to.flush());
                }
                "send" => {
                    tracing::info!("putting {} to {place}, into ~/{CACHE}", self.name);
                    let portions = self.content.chunks(PORTION).try_for_each(|portion| {
                        busy();
                        to.write_all(portion)
                    });
                    let _ = portions.and_then(|()| to.flush());
                }
                "ready" => return Ok(Placed::Ready),
                word => return Err(self.refused(word, rest, place)),
            }
        }
        Ok(Placed::Silent)
    }

    /// One line of the shell's language. It says what it meets in single words, which [`Self::refused`] explains.
    fn script(&self, mark: &str) -> String {
        let steps = [
            "u=$(umask); umask 077",
            FIND,
            "t=$d/.tidegate.$$",
            SAFE,
            &format!("say() {{ printf '%s%s\\n' '{mark}' \"$*\"; }}"),
            "fail() { rm -f \"$t\"; say \"$@\"; exit 1; }",
            // Each tool is given the file as its standard input, so that none says a name.
            "sum() { { sha256sum <\"$1\" || shasum -a 256 <\"$1\" || openssl dgst -sha256 -r <\"$1\"; } 2>/dev/null | { read -r s x; echo \"$s\"; }; }",
            "say host $(uname -s) $(uname -m)",
            "read -r go || exit 1",
            "[ -n \"$(sum /dev/null)\" ] || fail tool",
            &format!(
                "if [ \"$(sum \"$f\")\" != {} ] || ! safe /tidegate; then {}; fi",
                self.sha256,
                self.placing().join("; ")
            ),
            // What the program makes is the user's business.
            "umask \"$u\"; say ready",
            "exec \"$f\" endpoint --once",
        ];
        steps.join("; ") + "\n"
    }

    /// What is done where it is not there yet.
    fn placing(&self) -> [String; 10] {
        [
            "m=$(LC_ALL=C mkdir -p \"$d\" 2>&1) || fail write \"$m\"".to_owned(),
            "safe || fail open \"$p\"".to_owned(),
            "say send".to_owned(),
            format!("m=$({{ LC_ALL=C head -c {} >\"$t\"; }} 2>&1) || fail write \"$m\"", self.content.len()),
            format!("[ \"$(sum \"$t\")\" = {} ] || fail differs", self.sha256),
            "chmod 700 \"$t\"".to_owned(),
            "m=$(LC_ALL=C \"$t\" --version 2>&1) || fail run $? \"$m\"".to_owned(),
            format!("[ \"$m\" = 'tidegate {}' ] || fail version \"$m\"", env!("CARGO_PKG_VERSION")),
            "sync \"$t\" 2>/dev/null".to_owned(),
            "m=$(LC_ALL=C mv -f \"$t\" \"$f\" 2>&1) || fail write \"$m\"".to_owned(),
        ]
    }

    /// Whether it is for a host of what `uname -sm` says.
    fn check_host(&self, said: &str, place: &str) -> Result<()> {
        let is_for = said
            .split_once(' ')
            .is_some_and(|(system, machine)| system == "Linux" && self.elf.is_for(machine));
        if is_for {
            return Ok(());
        }
        let (name, machine) = (&self.name, self.elf.machine());
        Err(usage(format!(
            "{name} is for Linux on {machine}, and {place} is {said}: give a program for that by --install-remote=FILE"
        )))
    }

    /// What runs where this does not.
    fn remedy(&self) -> &'static str {
        match self.elf.is_static {
            true => "give one that does by --install-remote=FILE",
            false => {
                "it needs libraries of this host; give a static one by --install-remote=FILE, as `make dist` makes it (docs/install.md)"
            }
        }
    }

    fn refused(&self, word: &str, rest: &str, place: &str) -> Error {
        let name = &self.name;
        let (kind, why) = match word {
            "tool" => (
                ErrorKind::Usage,
                "none of sha256sum, shasum and openssl is there to check it: install one, or put it there by hand and give --remote-path".to_owned(),
            ),
            "write" if rest.contains("No space left") || rest.contains("quota") => {
                (ErrorKind::NoSpace, format!("there is no room for it in ~/{CACHE} ({rest})"))
            }
            "write" => (ErrorKind::Denied, format!("~/{CACHE} cannot be written to ({rest})")),
            "open" => (
                ErrorKind::Denied,
                format!("{rest} is a link, belongs to somebody else or can be written to by others, who could change it: replace it, or chmod go-w"),
            ),
            "differs" => (ErrorKind::Corrupt, "what arrived has another SHA-256: try again".to_owned()),
            "run" if rest.starts_with("126 ") => (
                ErrorKind::Denied,
                format!(
                    "nothing may be run from ~/{CACHE} (its file system may be mounted noexec): put it elsewhere by hand and give --remote-path"
                ),
            ),
            "run" => (
                ErrorKind::Usage,
                format!("it does not run there ({rest}): {}", self.remedy()),
            ),
            "version" => (
                ErrorKind::Usage,
                format!("it says that it is '{rest}', and this is tidegate {}", env!("CARGO_PKG_VERSION")),
            ),
            _ => (ErrorKind::Protocol, format!("the shell said '{word} {rest}'")),
        };
        Error::new(kind, format!("{name} was not put to {place}: {why}"))
    }
}

/// The rest of the line, in which somebody else's words may be.
fn answer(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    io::Read::take(from, MAX_LINE).read_until(b'\n', &mut line)?;
    Ok(one_line(String::from_utf8_lossy(&line).trim_end()))
}
