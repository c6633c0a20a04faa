//! What travels between two ends (docs/protocol.md): a session of messages and streams of frames.

pub mod channel;
pub mod distrust;
pub mod files;
pub mod frame;
pub mod handshake;
pub(crate) mod joined;
pub mod order;

pub mod message;
pub mod request;

pub mod greeting;

pub mod session;
pub mod ticket;
pub mod tls;
pub mod way;
