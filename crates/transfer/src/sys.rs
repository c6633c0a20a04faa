//! What is Linux-only: confined path resolution and the kernel's view of a TCP connection.

pub mod confined;
pub mod tcp;
