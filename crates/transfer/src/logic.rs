//! What either end of a transfer decides: no thread, lock, socket, file or clock is in here. What happens goes in as
//! messages of the other end and as events of this one, and what is to be done comes out as actions.
//!
//! ```text
//! Message ─┐                                  ┌─► Say to the other end
//!          ├─► SenderLogic or ReceiverLogic ──┼─► what pools and the disk are to do
//! Event ───┘                                  └─► Count
//! ```
//!
//! One thread owns the logic of an end and does what it asks for: [`exchange`](crate::exchange) hears the peer, and what pools
//! and the disk's thread have done comes back by an [`EventQueue`](events::EventQueue). The bytes of files go past the logic.

pub(crate) mod asked;
pub(crate) mod count;
pub(crate) mod deciding;
pub(crate) mod events;
pub(crate) mod receiver;
pub(crate) mod sender;
