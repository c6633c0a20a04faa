//! `tidegate demo`: the main job on a path whose best set-point is known.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use tidegate_control::rng::Rng;
use tidegate_control::{BitRate, ByteCount};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::transfer::route::{From, To};

use crate::caller::Caller;
use crate::drive::Work;
use crate::exit::usage;
use crate::loopback::Loopback;
use crate::output::{OutputArgs, report};
use crate::route::RouteArgs;
use crate::signals::interrupt_on_signals;
use crate::terminal;

/// AutoMDT's read bottleneck (figure 5): what one worker of each stage may move, and the link.
const READ: BitRate = BitRate::mbps(80);
const NETWORK: BitRate = BitRate::mbps(160);
const WRITE: BitRate = BitRate::mbps(200);
const LINK: BitRate = BitRate::mbps(1000);

/// Watch real files move on a shaped path and the three concurrencies find their optimum.
///
/// Makes a mixed data set, starts an endpoint on the loopback, and limits each reader to 80, each
/// stream to 160 and each writer to 200 Mbit/s on a link of 1 Gbit/s: 13, 7 and 5 workers are best.
/// Verifies every file and removes what it made.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Size of the data set
    #[arg(long, value_name = "SIZE", default_value = "2GiB")]
    size: ByteCount,
    /// Where to make the data set and the copy [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs<false>,
    #[command(flatten)]
    pub route: RouteArgs,
}

/// Runs the command.
pub fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    if args.size < ByteCount::mib(1) || args.size > ByteCount::gib(1024) {
        return Err(usage("the data set must be from 1MiB to 1TiB").into());
    }
    let interrupt = interrupt_on_signals();
    let home = args.directory.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = Scratch::new(&home)?;
    scratch.has_room(args.size)?;
    if !args.output.json {
        terminal::tell(&format!("making {} of mixed files beneath {}", args.size, scratch.0.display()));
    }
    let source = scratch.0.join("source");
    make_files(&source, args.size, args.route.control.seed, &interrupt)?;
    let destination = scratch.0.join("destination");
    fs::create_dir(&destination).context("cannot make the destination")?;
    let loopback = Loopback::start(&destination, &scratch.0)?;

    let mut shaped = args.route.transfer.clone();
    shaped.limit_read = shaped.limit_read.or(Some(READ));
    shaped.limit_network = shaped.limit_network.or(Some(NETWORK));
    shaped.limit_write = shaped.limit_write.or(Some(WRITE));
    shaped.limit_link = shaped.limit_link.or(Some(LINK));
    let limits = shaped.terms(1).limits;
    let show = |rate: Option<BitRate>| rate.unwrap_or_default().to_string();
    let title = format!(
        "demo: read {}, network {}, write {} each, link {}",
        show(limits.read),
        show(limits.network),
        show(limits.write),
        show(limits.link)
    );
    let pace = args.route.pace()?;
    let source = {
        use std::os::unix::ffi::OsStrExt;
        [source.as_os_str().as_bytes(), b"/"].concat()
    };
    let work = Work::transfer(
        From::Local(vec![source]),
        To::Endpoint(loopback.address()?),
        args.route.setup(shaped.terms(args.route.control.max_workers), pace, interrupt)?,
        shaped.retry_for,
    );
    let job = args.output.job(work, &args.route.control, title, args.route.trust.state_dir()?);
    let mut ended = job.run()?;
    if ended.error.as_ref().is_some_and(|error| error.kind == ErrorKind::Interrupted) {
        let error = Error::new(ErrorKind::Interrupted, "interrupted; what the demo made is removed");
        ended.summary.error = Some(error.message.clone());
        ended.summary.error_kind = Some(error.kind);
        ended.error = Some(error);
    }
    let code = report(&ended, args.output.json, &Caller::Terminal)?;
    if !args.output.json && ended.error.is_none() && limits.link == Some(LINK) && limits.read == Some(READ) {
        terminal::print("  best     read 13, network 7, write 5 on this path")?;
    }
    Ok(code)
}

/// A directory that is removed at the end, also after an error.
struct Scratch(PathBuf);

impl Scratch {
    fn new(home: &Path) -> anyhow::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        let path = home.join(format!("tidegate-demo-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(|error| {
            usage(format!("cannot make {}: {error}; choose another place with --directory", path.display()))
        })?;
        Ok(Self(path))
    }

    fn has_room(&self, size: ByteCount) -> anyhow::Result<()> {
        let room = rustix::fs::statvfs(&self.0)?;
        let free = ByteCount(room.f_bavail * room.f_frsize);
        let needed = ByteCount(size.0 * 2 + (64 << 20));
        if free < needed {
            let why = format!(
                "{} has {free} free and the demo needs {needed}: choose another place with --directory, or less with --size",
                self.0.display()
            );
            return Err(Error::new(ErrorKind::NoSpace, why).into());
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Nine tenths of `size` in six large files, the rest in small ones of 4 KiB to 1 MiB.
fn make_files(directory: &Path, size: ByteCount, seed: u64, interrupt: &Interrupt) -> anyhow::Result<()> {
    let mut rng = Rng::new(seed);
    let mut buffer = vec![0; 1 << 20];
    let mut make = |path: PathBuf, mut size: u64, rng: &mut Rng| -> std::io::Result<()> {
        use std::io::Write;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut file = fs::File::create(path)?;
        while size > 0 && !interrupt.is_raised() {
            let piece = (size as usize).min(buffer.len());
            for word in buffer[..piece].chunks_mut(8) {
                let bytes = rng.next_u64().to_le_bytes();
                word.copy_from_slice(&bytes[..word.len()]);
            }
            file.write_all(&buffer[..piece])?;
            size -= piece as u64;
        }
        Ok(())
    };
    let large = size.0 / 10 * 9 / 6;
    for i in 0..6 {
        make(directory.join(format!("large/{i}.bin")), large, &mut rng)?;
    }
    let mut left = size.0 - 6 * large;
    let mut i = 0;
    while left > 0 {
        let size = (4096 + rng.next_u64() % (1 << 20)).min(left);
        make(directory.join(format!("small/{:02}/{i:05}.bin", i % 20)), size, &mut rng)?;
        left -= size;
        i += 1;
    }
    if interrupt.is_raised() {
        return Err(Error::new(ErrorKind::Interrupted, "interrupted").into());
    }
    Ok(())
}
