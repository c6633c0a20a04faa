//! A world with a stand-in archive of its own.

use std::process::{Command, Stdio};

use crate::common::service::Service;
use crate::common::{Ran, World, finish};
use testkit::standin::{self, DataSet, Standin, data};

/// What asks the archive, and the archive.
pub struct Lab {
    pub world: World,
    pub archive: Standin,
}

impl Lab {
    /// With the data that all tests share; none where nothing runs the archive.
    pub fn new(test: &str, faults: &[&str]) -> Option<Self> {
        Self::with(test, data, faults)
    }

    /// With data of the test's own, made only where something runs the archive.
    pub fn with(test: &str, made: impl FnOnce() -> &'static DataSet, faults: &[&str]) -> Option<Self> {
        standin::is_there(test).then(|| Self { world: World::new(), archive: Standin::start(made(), faults) })
    }

    /// `tidegate get` from it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.world.command();
        self.archive.lead(&mut command);
        command.arg("get").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The same, run to its end.
    pub fn get(&self, arguments: &[&str]) -> Ran {
        finish(&mut self.command(arguments))
    }

    /// A service whose jobs get from it.
    pub fn service(&self) -> Service {
        Service::start_in(&self.world, "svc", &[], &self.archive.environment())
    }
}
