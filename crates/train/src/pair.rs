//! Two independent pieces of work on two threads, or in turn: the result is the same.

/// Runs both; with fewer than two threads one after the other.
pub(crate) fn both(threads: usize, one: impl FnOnce() + Send, other: impl FnOnce() + Send) {
    if threads < 2 {
        one();
        other();
        return;
    }
    std::thread::scope(|scope| {
        scope.spawn(one);
        other();
    });
}
