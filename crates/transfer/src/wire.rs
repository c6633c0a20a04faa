//! What travels between two ends (docs/protocol.md): a session of messages and streams of frames.

pub mod frame;
pub mod message;
pub mod ticket;
pub mod tls;
pub mod channel;
pub mod handshake;
pub mod session;
