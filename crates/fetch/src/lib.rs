//! What gets public data: names and lists become records, records become verified files; and what puts files to
//! others' servers.
//!
//! | you want | take |
//! |---|---|
//! | checksums of bytes | [`checksum::Hashers`], [`checksum::Checksums`] |
//! | the files that a list names | [`list::open`], [`list::read`], [`list::of_url`] |
//! | the files of an accession | [`archive::Archives::resolve`], [`archive::Accession`] |
//! | one file to get | [`record::Record`], in a stream of [`record::Named`] |
//! | to talk to servers | [`remote::servers::Servers`], which gives each worker a [`remote::Remote`] |
//! | a bound of connections a host | [`host::ceilings::Ceilings`], and what hosts bore before: [`host::held::HeldCeilings`] |
//! | to copy them to an endpoint | [`server_source::ServerOrigin`], for `tidegate_transfer`'s `begin` |
//! | to put what an endpoint has | [`endpoint_source::EndpointSource`] |
//! | to get files | [`get::Download`], told by [`get::DownloadSettings`], telling by [`get::DownloadEvent`] |
//! | their content as one stream | [`pipe::pipe`] |
//! | how fast connections bring it | [`ranges::read`] |
//! | to put files | [`put::Upload`], to a [`put::s3::S3Target`] or a [`put::dav::DavTarget`] |
//! | tables beside the files | [`sidecar::Sidecars`] |
//!
//! Modules are listed from the ground up: each one imports only from those above it.

// Words: a checksum, a file to get.
pub mod checksum;
pub(crate) mod choice;
pub(crate) mod foreign;
pub(crate) mod umask;

pub mod record;

// What names files.
pub mod list;

// Others' servers.
pub mod remote;

// Names that archives give.
pub mod archive;

// What gets files from them.
pub mod host;

pub mod get;
pub mod pipe;

// What copies them elsewhere, and what endpoints have.
pub mod server_source;

pub mod endpoint_source;

// What connections bring, measured.
pub mod ranges;

// Files to others' servers.
pub mod put;

// What is written beside them.
pub mod sidecar;
