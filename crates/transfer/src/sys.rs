//! What is Linux-only: confined path resolution, processor time, the allocator, and the kernel's view of a TCP connection.

pub mod confined;
pub mod identity;
pub mod memory;
pub mod processors;
pub mod tcp;
