//! A share of a path that others set while a transfer runs: a file with the most network streams, read anew each
//! epoch as all bounds are. What cannot be read changes nothing.

use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_control::{Bounds, Concurrency, Environment, Host, Observation, PerStage, Proposal};
use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::ledger::Ledger;
use tidegate_transfer::transfer::route::Transfer;

/// The most bytes of the file that are read; a number and a newline.
const MAX_BYTES: u64 = 16;

/// A transfer with no more network streams than its share.
pub struct Capped {
    transfer: Transfer,
    file: Option<PathBuf>,
    /// The last share that could be read.
    most: Cell<u16>,
    /// Whether the user was told that it cannot be.
    told: Cell<bool>,
    /// Whether it ever was less than the transfer could have used.
    shared: Cell<bool>,
}

impl Capped {
    /// Holds `transfer` to what `file` says, if there is one.
    pub fn new(transfer: Transfer, file: Option<&Path>) -> Self {
        let file = file.map(Path::to_path_buf);
        let (most, told, shared) = (Cell::new(u16::MAX), Cell::new(false), Cell::new(false));
        Self { transfer, file, most, told, shared }
    }

    /// Whether others had a part of the path so far: what it showed then is no property of the path.
    pub fn is_shared(&self) -> bool {
        self.network();
        self.shared.get()
    }

    /// Its ledger.
    pub fn ledger(&self) -> &Arc<Ledger> {
        self.transfer.ledger()
    }

    fn network(&self) -> Bounds {
        let (network, most) = (self.transfer.bounds().network, self.most());
        self.shared.set(self.shared.get() || most < network.max);
        Bounds::new(network.min.min(most), network.max.min(most))
    }

    fn most(&self) -> u16 {
        if let Some(file) = &self.file {
            match read(file) {
                Ok(most) => {
                    self.most.set(most);
                    self.told.set(false);
                }
                Err(why) if !self.told.replace(true) => {
                    tracing::warn!("--bounds {}: {why}; the bounds stay as they are", file.display());
                }
                Err(_) => {}
            }
        }
        self.most.get()
    }
}

impl Environment for Capped {
    type Error = Error;

    fn bounds(&self) -> PerStage<Bounds> {
        PerStage { network: self.network(), ..self.transfer.bounds() }
    }

    fn host(&self) -> Host {
        self.transfer.host()
    }

    fn heed(&mut self, proposal: &Proposal, bounds: PerStage<Bounds>) {
        self.transfer.heed(proposal, bounds);
    }

    fn step(&mut self, setpoint: Concurrency) -> Result<Option<Observation>> {
        self.transfer.step(setpoint)
    }
}

fn read(file: &Path) -> Result<u16, String> {
    let mut text = String::new();
    let opened = File::open(file).map_err(|error| error.to_string())?;
    opened.take(MAX_BYTES).read_to_string(&mut text).map_err(|error| error.to_string())?;
    let most = text.trim().parse().ok().filter(|most| *most > 0);
    most.ok_or_else(|| format!("{:?} is not a number of streams", text.trim()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_transfer::transfer::Tracked;

    use super::*;

    const HOST: Host = Host {
        processors: Some(3),
        round_trip: Some(Duration::from_millis(70)),
        streams: None,
        remembered: None,
    };

    #[derive(Default)]
    struct Path3(Arc<Ledger>);

    impl Environment for Path3 {
        type Error = Error;

        fn bounds(&self) -> PerStage<Bounds> {
            PerStage { read: Bounds::new(1, 32), network: Bounds::new(2, 16), write: Bounds::fixed(1) }
        }

        fn host(&self) -> Host {
            HOST
        }

        fn step(&mut self, _: Concurrency) -> Result<Option<Observation>> {
            Ok(None)
        }
    }

    impl Tracked for Path3 {
        fn ledger(&self) -> &Arc<Ledger> {
            &self.0
        }
    }

    #[test]
    fn the_share_is_read_anew_and_garbage_changes_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("bounds");
        let capped = Capped::new(Box::new(Path3::default()), Some(&file));
        let network = || capped.bounds().network;
        assert_eq!(network(), Bounds::new(2, 16), "there is no file yet");
        for (text, wanted) in [
            ("5\n", Bounds::new(2, 5)),
            ("", Bounds::new(2, 5)),
            ("0", Bounds::new(2, 5)),
            ("many", Bounds::new(2, 5)),
            ("1", Bounds::fixed(1)),
            ("99999999999999999999", Bounds::fixed(1)),
            ("400", Bounds::new(2, 16)),
        ] {
            std::fs::write(&file, text).expect("written");
            assert_eq!(network(), wanted, "{text:?}");
        }
        assert!(capped.is_shared());
        assert_eq!(capped.bounds().read, Bounds::new(1, 32));
        assert_eq!(capped.host(), HOST, "what else is known is passed on");
        assert_eq!(Capped::new(Box::new(Path3::default()), None).bounds().network, Bounds::new(2, 16));
    }

    #[test]
    fn a_share_that_leaves_all_of_the_path_is_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("bounds");
        let capped = Capped::new(Box::new(Path3::default()), Some(&file));
        for (text, wanted) in [("16", false), ("32", false), ("15", true), ("32", true)] {
            std::fs::write(&file, text).expect("written");
            assert_eq!(capped.is_shared(), wanted, "{text}");
        }
    }
}
