//! What the host offers: its kernel, a state directory, a clock, certificates, ssh.

use std::env::consts::ARCH;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context, bail};
use tidegate_contract::redact;
use tidegate_run::settings::StateArgs;
use tidegate_transfer::sys::resolve;

use super::Found;

/// How far a file server's clock may be from ours before times that are compared mislead.
const CLOCK_TOLERANCE: f64 = 2.0;

/// Which program this is, and on what.
pub fn program() -> anyhow::Result<Found> {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let linked = if cfg!(target_feature = "crt-static") { "static" } else { "dynamic" };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let version = env!("CARGO_PKG_VERSION");
    let opens =
        if resolve::is_native() { "" } else { "; openat2 is refused: paths are opened a name at a time" };
    Ok(Found::Works(format!(
        "tidegate {version} for {ARCH}, {linked}, on Linux {release}, {processors} processors{opens}"
    )))
}

/// Whether the state directory can be written and synced, and is ours alone.
pub fn state(args: &StateArgs) -> anyhow::Result<Found> {
    use std::os::unix::fs::MetadataExt;
    let directory = args.state_dir()?;
    let place = directory.display();
    let name = directory.join(format!("self-test-{}", std::process::id()));
    let written = fs::File::create_new(&name).and_then(|mut file| {
        file.write_all(b"tidegate")?;
        file.sync_all()
    });
    let removed = fs::remove_file(&name);
    written
        .and(removed)
        .with_context(|| format!("cannot write to {place}; choose another place with --state"))?;
    let mode = fs::metadata(&directory).with_context(|| format!("cannot look at {place}"))?.mode() & 0o777;
    Ok(match mode & 0o077 {
        0 => Found::Works(format!("{place} can be written, and is closed to others")),
        _ => Found::Warning(format!(
            "others may enter {place} (mode {mode:o}), where keys are kept: chmod 700 it"
        )),
    })
}

/// Whether the clock is behind what must have been before, and goes with that of the file system in `scratch`.
pub fn clock(scratch: &Path) -> anyhow::Result<Found> {
    let before = SystemTime::now();
    let name = scratch.join("clock");
    fs::write(&name, b"now").context("cannot write a file")?;
    let written = fs::metadata(&name).and_then(|file| file.modified()).context("cannot look at a file")?;
    let built = std::env::current_exe().and_then(fs::metadata).and_then(|program| program.modified());
    if built.is_ok_and(|built| built > before) {
        bail!(
            "the clock is before the time of this program's own file: set it, or no certificate can be checked"
        );
    }
    let apart = written.duration_since(before).unwrap_or_else(|error| error.duration()).as_secs_f64();
    Ok(if apart <= CLOCK_TOLERANCE {
        Found::Works("goes with the file system's".to_owned())
    } else {
        Found::Warning(format!(
            "the file system's clock is {apart:.0} s off: --update may take old files for new"
        ))
    })
}

/// Whether hosts can be reached over ssh.
pub fn ssh() -> anyhow::Result<Found> {
    let asked = Command::new("ssh").arg("-V").stdin(Stdio::null()).output();
    Ok(match asked {
        Ok(ran) if ran.status.success() => {
            // OpenSSH tells its version on standard error, others on standard output.
            let said = [ran.stdout, ran.stderr].concat();
            let line = String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_owned();
            Found::Works(redact::text(&line).into_owned())
        }
        Ok(ran) => Found::Warning(format!("`ssh -V` ends with {}: user@host: cannot be used", ran.status)),
        Err(error) => Found::Warning(format!(
            "cannot run ssh ({error}): user@host: cannot be used; install openssh-client"
        )),
    })
}
