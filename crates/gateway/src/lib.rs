//! What an endpoint serves, over HTTP: for curl, browsers and whatever else has never heard of tickets.
//!
//! A request says who asks by a token ([`tidegate_transfer::endpoint::access`]), which opens what a ticket with the same
//! claims would. [`Gateway`] is all of it. Modules are listed from the ground up: each one imports only from those above it.

// Words.
mod xml;

mod refusal;

mod document;

mod blocking;
mod limit;
mod names;

// What a request asks for, and who asks.
mod range;
mod validators;

mod signature;

mod credentials;

// What is there, and how it is sent.
mod body;
mod tree;
mod unread;

mod content;
mod pages;

mod conditions;
mod hashes;

mod digests;

mod archive;
mod page;

// What is put there.
mod checksums;
mod chunked;

mod receive;
mod upload;

mod change;
mod multipart;

mod served;

mod put;

// The dialects.
mod dav;
mod plain;
mod s3;

mod server;

// Who watches.
mod status;

pub use server::{Config, Gateway};
pub use status::Status;
pub use tidegate_http::listener::{Renewal, TlsFiles};
