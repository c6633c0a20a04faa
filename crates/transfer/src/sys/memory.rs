//! What the C library's allocator keeps for itself.

/// Has the allocator keep one heap a processor, where it would keep eight: a heap that was large once stays large, and
/// with hundreds of threads all of them come to be. Does nothing where the C library has only one, or where the
/// environment says how many (`MALLOC_ARENA_MAX`).
#[allow(unsafe_code)]
pub fn keep_few_heaps() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if std::env::var_os("MALLOC_ARENA_MAX").is_none() {
        let heaps = i32::from(super::processors::count().unwrap_or(1));
        // SAFETY: it sets a number of the allocator's, which takes its own lock for that.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, heaps) };
    }
}
