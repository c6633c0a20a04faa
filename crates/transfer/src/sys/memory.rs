//! What the C library's allocator keeps for itself.

/// Has the allocator keep one heap a processor, where it would keep eight: a heap that was large once stays large, and
/// with hundreds of threads all of them come to be. Does nothing where the C library has only one, or where the
/// environment says how many (`MALLOC_ARENA_MAX`).
#[allow(unsafe_code)]
pub fn keep_few_heaps() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if std::env::var_os("MALLOC_ARENA_MAX").is_none() {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let heaps = i32::try_from(processors).unwrap_or(i32::MAX);
        // SAFETY: it sets a number of the allocator's, which takes its own lock for that.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, heaps) };
    }
}
