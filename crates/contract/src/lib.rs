//! What programs of Tidegate promise each other and scripts: how a run ends, what it prints, and that no word of it
//! gives away a secret or upsets a terminal.
//!
//! | module | holds |
//! |---|---|
//! | [`text`] | others' words escaped, in one line, of bounded length |
//! | [`home`] | where the user's own files are |
//! | [`own_program`] | where our own program is |
//! | [`feature`] | that a part of the program was left out |
//! | [`object`] | objects of JSON and TOML, where a list is none |
//! | [`job_id`] | the number of a job |
//! | [`opaque!`](crate::opaque!) | a `Debug` that gives nothing away |
//! | [`redact`] | addresses without what may be secret in them |
//! | [`error_kind`] | what a program may act on when something went wrong |
//! | [`exit`] | the exit codes |
//! | [`epoch_line`] | an epoch as a line of JSON: written, read, and read as a file grows |
//! | [`outage_line`] | that an end of a transfer is away, as a line of standard error |
//! | [`rule_line`] | what a rule in a program of its own is told and answers |
//! | [`summary`] | how a run ended, as the JSON object that `--json` prints |
//! | [`plan_line`] | what a dry run says of each entry, and of all |
//!
//! Modules are listed from the ground up: each one imports only from those above it.

pub mod text;

pub mod feature;
pub mod home;
pub mod job_id;
pub mod object;
pub mod own_program;

pub mod opaque;

pub mod redact;

pub mod error_kind;

pub mod exit;

pub mod epoch_line;

pub mod outage_line;

pub mod rule_line;

pub mod summary;

pub mod plan_line;
