//! What stands for [`ssh`](crate::ssh) where the program is built without it: its addresses are known, and refused as they are
//! read, so nothing here is ever reached.

#[path = "ssh/target.rs"]
pub mod target;
#[path = "ssh/words.rs"]
mod words;

use clap::Args;
use serde::{Deserialize, Serialize};
use tidegate_contract::feature;
use tidegate_transfer::error::{Error, Result, usage};
use tidegate_transfer::terms::DataPlane;
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::transfer::route::{From, Setup, To};
use tidegate_transfer::wire::ticket::Address;
use tidegate_transfer::wire::way::Carriers;

pub(crate) use self::NeverOverSsh as OverSsh;
pub use self::{NoFarHost as FarHost, NoSshArgs as SshArgs, NoSshCommand as SshCommand};
use crate::settings::TrustArgs;
use crate::ssh::target::Target;
pub use crate::ssh::words::Words;

/// No program.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub struct NoSshCommand {}

#[cfg(feature = "servers")]
impl NoSshCommand {
    /// Nothing reaches hosts that have a server of SFTP.
    pub fn carrier(
        &self,
    ) -> Result<Option<std::sync::Arc<dyn tidegate_fetch::remote::carrier::SftpCarrier>>> {
        Ok(None)
    }
}

/// No options.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub struct NoSshArgs {
    /// No program that is run.
    #[command(flatten)]
    #[serde(flatten)]
    pub command: NoSshCommand,
}

impl NoSshArgs {
    /// All of nothing makes sense together.
    pub fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// What is never reached.
#[derive(Debug)]
pub struct NoFarHost {
    /// Its address.
    pub address: Address,
    /// What brings connections to it.
    pub carriers: Carriers,
    /// What errors call it.
    pub words: Words,
}

impl NoFarHost {
    /// Refuses `target`.
    pub fn reach(_: &SshArgs, target: &Target, _: &[u8], _: &Words, _: &Interrupt) -> Result<Self> {
        Err(missing(&target.to_string()))
    }

    /// The path as it is.
    pub fn beneath(&self, path: &[u8]) -> Vec<u8> {
        path.to_vec()
    }
}

/// Ends that are never reached.
pub(crate) enum NeverOverSsh {}

impl NeverOverSsh {
    /// There are none.
    pub fn new(_: &SshArgs, _: Option<Target>, _: Option<Target>) -> Option<Self> {
        None
    }

    pub fn words(&self) -> Words {
        match *self {}
    }

    pub fn reach(&mut self, _: &From, _: &To, _: &mut Setup, _: DataPlane) -> Result<(From, To)> {
        match *self {}
    }
}

/// What stands for the address of an end that ssh reaches.
pub(crate) fn placeholder(target: &Target, path: Vec<u8>) -> Address {
    Address { ticket: None, host: target.host().to_owned(), port: 22, path }
}

fn missing(what: &str) -> Error {
    usage(feature::missing(what, "ssh"))
}

/// The other end of a copy over ssh.
pub mod agent {
    use std::process::ExitCode;

    use super::{Result, TrustArgs, missing};

    /// Refuses to be one.
    pub fn run(_: &TrustArgs) -> Result<ExitCode> {
        Err(missing("--once"))
    }
}
