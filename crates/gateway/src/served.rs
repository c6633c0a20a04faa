//! What requests are answered with.

use std::sync::Arc;

use axum::http::request::Parts;
use tidegate_transfer::endpoint::Endpoint;

use crate::conditions::Names;
use crate::hashes::Hashes;
use crate::limit::{Limits, Share};
use crate::multipart::Uploads;

/// What is served, and how.
pub(crate) struct Served {
    /// Root, rights and tokens.
    pub endpoint: Arc<Endpoint>,
    /// Whether files may be put that nothing vouches for.
    pub unverified: bool,
    /// Who gives names and takes them away.
    pub names: Names,
    /// What S3's clients put in parts.
    pub uploads: Uploads,
    /// What files hash to.
    pub hashes: Arc<Hashes>,
    /// How much of it one token may have.
    pub limits: Limits,
}

/// A request without its body.
pub(crate) struct Asked {
    /// As it came.
    pub parts: Parts,
    /// Where, beneath the root.
    pub path: Vec<u8>,
    /// Names and values.
    pub query: Vec<(String, String)>,
    /// What may be used for it.
    pub share: Arc<Share>,
}
