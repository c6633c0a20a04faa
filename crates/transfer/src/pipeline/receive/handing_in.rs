//! Files whose last hash comes after their content are handed in by a thread of their own. Whoever hands one in may wait for the
//! committer, which may wait for leave that comes in the session: whoever hears of hashes hears of that, and must not wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::ReceiverState;
use crate::pipeline::incoming::Incoming;
use crate::pipeline::write_path::WriteHandler;
use crate::quota::Held;
use crate::sys::sync::mpsc;
use crate::sys::thread;

/// How long to wait for descriptors before it is looked again.
pub(super) const BREATH: Duration = Duration::from_millis(1);

impl ReceiverState {
    /// What that thread does until the transfer ends. Open files first: they need no descriptor, and
    /// leave theirs to those that were closed meanwhile.
    pub(super) fn hand_in_vouched(&self, vouched: &mpsc::Receiver<Arc<Incoming>>) {
        let mut waiting: VecDeque<Arc<Incoming>> = VecDeque::new();
        loop {
            if waiting.is_empty() {
                match vouched.recv() {
                    Ok(file) => waiting.push_back(file),
                    Err(_) => return,
                }
            }
            waiting.extend(vouched.try_iter());
            let at = waiting.iter().position(|file| file.is_open()).unwrap_or(0);
            let Some(file) = waiting.remove(at) else { continue };
            if file.has_ended() {
                continue;
            }
            let descriptor = match file.is_open() || self.path.is_stopped() {
                true => Some(None),
                false => self.try_descriptor(),
            };
            if let Some(descriptor) = descriptor {
                // It stays open for as long as somebody has it.
                let _part = file.part(&*self.path.sink, descriptor);
                self.complete(&file);
            } else {
                waiting.push_front(file);
                thread::sleep(BREATH);
            }
        }
    }

    /// A descriptor of the peer's, if there is one now: where it has as many as it may, files that are not being written are
    /// closed, and the only one that is open needs none.
    pub(super) fn try_descriptor(&self) -> Option<Option<Held>> {
        loop {
            if let Some(held) = self.share.descriptors.take(1) {
                return Some(Some(held));
            }
            let closed: Vec<(bool, bool)> = {
                let files = self.files.read();
                files.values().map(|file| file.close_idle()).collect()
            };
            if !closed.iter().any(|(_, was)| *was) {
                return Some(None);
            }
            if !closed.iter().any(|(is, was)| was & !is) {
                return None;
            }
        }
    }
}
