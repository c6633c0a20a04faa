//! S3-compatible stores: objects as a [`Remote`], a prefix as [`Names`].
//!
//! Requests are signed into their URLs (docs/decisions/0009) and then are plain HTTP.

pub mod answer;
pub mod calls;
pub mod credentials;
pub mod list;
pub mod place;
