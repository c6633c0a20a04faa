//! Drives one run of whatever moves data: its rule, its memory of the path, its record, and another try when the connection
//! was lost.
//!
//! | you want | take |
//! |---|---|
//! | what the paths of a copy mean | [`place::Place`], [`ends::Ends`] |
//! | where state is kept, and whom to trust | [`settings::StateArgs`], [`settings::TrustArgs`] |
//! | the rule that is asked for | [`settings::optimizer`] |
//! | what the path last held | [`run_memory::MemoryArgs`] |
//! | to run something | [`drive::Work`] in a [`drive::Job`] |
//! | what a download is followed by | [`conversion`], [`pushed_back`], [`refresh`] |
//! | to hear how it gets on | [`audience::Audience`], [`monitor::Monitor`] |
//!
//! It reads no command line and prints nothing: lines for people are events with the target [`told::TOLD`].
//!
//! Modules are listed from the ground up: each one imports only from those above it.

// What stands on its own.
pub mod beneath;
mod capped;
#[cfg(feature = "servers")]
pub mod conversion;
pub mod file_system;
mod followed;
pub mod ports;
mod recalled;
pub mod steady;
mod summary;
pub mod told;
pub mod whole_file;
mod words;

#[cfg(feature = "servers")]
pub mod refresh;

// How a run is set up.
pub mod own_rule;
pub mod state_place;

pub mod settings;

mod lesson;
mod recorder;
pub mod route;

pub mod path_store;

pub mod known_rate;
#[cfg(feature = "servers")]
pub mod pushed_back;
pub mod run_memory;

// How it is followed.
pub mod audience;
pub mod monitor;

// Places.
#[cfg_attr(not(feature = "ssh"), path = "no_ssh.rs")]
pub mod ssh;

pub mod remotes;

pub mod place;

pub mod loopback;

// What runs, and between whom.
pub mod drive;

pub mod ends;

/// Options as a test types them.
#[cfg(test)]
mod typed {
    pub(crate) fn parsed<T: clap::Args>(words: &[&str]) -> T {
        let command = T::augment_args(clap::Command::new("tidegate"));
        let matches = command.try_get_matches_from([&["tidegate"], words].concat()).expect("understood");
        T::from_arg_matches(&matches).expect("read")
    }
}
