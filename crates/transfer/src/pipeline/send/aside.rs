//! Threads that do what would hold up the conversation.

use std::sync::Arc;

use super::SenderState;
use crate::quota::Quota;
use crate::sys::sync::{Mutex, mpsc};
use crate::sys::thread::JoinHandle;

/// Some that do jobs of one kind in turn. They begin with the first, and end with this or once stopped.
#[derive(Debug)]
pub(super) struct Aside<J> {
    name: &'static str,
    /// How many there are at most, and whom all but the first are asked for.
    most: (usize, Arc<Quota>),
    work: fn(&SenderState, J),
    jobs: Option<mpsc::Sender<J>>,
    threads: Vec<JoinHandle<()>>,
}

impl<J: Send + 'static> Aside<J> {
    pub fn new(name: &'static str, most: (usize, &Arc<Quota>), work: fn(&SenderState, J)) -> Self {
        Self { name, most: (most.0, Arc::clone(most.1)), work, jobs: None, threads: Vec::new() }
    }

    /// Leaves `job` to one of them.
    pub fn give(&mut self, shared: &Arc<SenderState>, job: J) {
        if self.jobs.is_none() {
            self.begin(shared);
        }
        let _ = self.jobs.as_ref().map(|jobs| jobs.send(job));
    }

    fn begin(&mut self, shared: &Arc<SenderState>) {
        let (queue, jobs) = mpsc::channel();
        let jobs = Arc::new(Mutex::new(jobs));
        self.jobs = Some(queue);
        for number in 0..self.most.0 {
            // One does everything, if need be.
            let held = if number == 0 { None } else { self.most.1.take(1) };
            if number > 0 && held.is_none() {
                break;
            }
            let (jobs, work) = (Arc::clone(&jobs), self.work);
            let work = move |shared: &SenderState| {
                let _held = held;
                let next = || jobs.lock().recv().ok().filter(|_| !shared.is_stopped());
                while let Some(job) = next() {
                    work(shared, job);
                }
            };
            match shared.spawn(self.name, work) {
                Ok(thread) => self.threads.push(thread),
                Err(error) if number == 0 => shared.fail(error),
                Err(_) => break,
            }
        }
    }

    /// Waits for them to end; what they have not begun is left.
    pub fn join(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
