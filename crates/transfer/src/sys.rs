//! What is Linux-only: confined path resolution, processor time, and the kernel's view of a TCP connection.

pub mod confined;
pub mod identity;
pub mod processors;
pub mod tcp;
