//! The papers' simulators, event for event: what the fluid is held against.
//!
//! Both play one second as a queue of tasks, a thread's next task being queued when its last one ends
//! plus a pause ε. A task's data is credited when it starts; at the end a stage's sum is divided by
//! the time its last task ended. What both leave out is in docs/simulators.md.
//!
//! Equal threads at equal times are kept as one entry with a count. The published loops would take
//! them one after the other with nothing in between, so the result is the same, bit for bit, but a
//! hundred threads that wait cost as much as one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::units::ByteCount;

pub mod automdt;
pub mod ldm;

/// How sizes in bytes meet rates in bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Units {
    /// A byte has eight bits.
    #[default]
    Corrected,
    /// As published: a mebibyte is taken for a megabit, so staging and files are 8.4 times too small.
    Published,
}

impl Units {
    /// A size as the simulator counts it, in Mbit.
    pub fn mbit(self, size: ByteCount) -> f64 {
        match self {
            Self::Corrected => size.bits() / 1e6,
            Self::Published => size.0 as f64 / f64::from(1 << 20),
        }
    }
}

/// One second of simulated time: tasks that would start later are dropped.
const WINDOW: f64 = 1.0;

/// The shortest pause in seconds: without one, a thread that waits would wait for ever.
const SHORTEST: f64 = 1e-6;

/// Threads by the time they start their next task and, within it, by `K`.
#[derive(Clone, Debug, Default)]
struct Queue<K: Ord> {
    heap: BinaryHeap<Reverse<(u64, K, u32)>>,
}

impl<K: Ord + Copy> Queue<K> {
    /// Queues `count` threads for `time`, which is not negative, unless the second is over by then.
    fn push(&mut self, time: f64, key: K, count: u32) {
        if time < WINDOW && count > 0 {
            // The bits of floats that are not negative order as the floats do.
            self.heap.push(Reverse((time.to_bits(), key, count)));
        }
    }

    /// The first threads, together with all that are queued for the same time and key.
    fn pop(&mut self) -> Option<(f64, K, u32)> {
        let Reverse((time, key, mut count)) = self.heap.pop()?;
        while let Some(&Reverse((next, same, more))) = self.heap.peek()
            && (next, same) == (time, key)
        {
            count += more;
            self.heap.pop();
        }
        Some((f64::from_bits(time), key, count))
    }
}
