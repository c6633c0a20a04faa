//! LDM's simulator of a network shared by streams, event for event.

use std::time::Duration;

use crate::events::{Queue, SHORTEST, Units, WINDOW};
use crate::rng::Rng;
use crate::units::{BitRate, ByteCount};
use crate::utility::{LossTerm, Utility};

/// The K of LDM's simulator; its transfers use another.
const K: f64 = 1.002;

/// A path as LDM's simulator knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LdmSettings {
    /// What one stream moves.
    pub worker_rate: BitRate,
    /// What the link carries.
    pub total_rate: BitRate,
    /// M: files are M/8 to M/2 in size, nine in ten of them M/4 or more. 512 MiB as published.
    pub chunk: ByteCount,
    /// How files meet rates.
    pub units: Units,
    /// ε, the pause of a stream between two files, at least 1 µs; 10 ms as published.
    pub pause: Duration,
}

impl LdmSettings {
    /// With the published chunk and pause, and corrected units.
    pub const fn new(worker_rate: BitRate, total_rate: BitRate) -> Self {
        Self {
            worker_rate,
            total_rate,
            chunk: ByteCount::mib(512),
            units: Units::Corrected,
            pause: Duration::from_millis(10),
        }
    }
}

/// What a second showed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LdmStep {
    /// In Mbit/s.
    pub throughput: f64,
    /// T/1.002ⁿ, in Mbit/s.
    pub utility: f64,
}

/// LDM's simulator. Nothing but the state of its random numbers stays from step to step.
#[derive(Clone, Debug)]
pub struct Ldm {
    rate: f64,
    total: f64,
    chunk: f64,
    pause: f64,
    rng: Rng,
    /// A stream's key is what it may still move in this second: who has least goes first.
    queue: Queue<u64>,
}

impl Ldm {
    /// The simulator; `seed` draws the sizes of files.
    pub fn new(settings: &LdmSettings, seed: u64) -> Self {
        Self {
            rate: settings.worker_rate.as_mbps(),
            total: settings.total_rate.as_mbps(),
            chunk: settings.units.mbit(settings.chunk),
            pause: settings.pause.as_secs_f64().max(SHORTEST),
            rng: Rng::new(seed),
            queue: Queue::default(),
        }
    }

    /// Lets a second pass with `n` streams.
    pub fn step(&mut self, n: u16) -> LdmStep {
        let (mut moved, mut finish) = (0.0, self.pause);
        self.queue.push(0.0, self.rate.to_bits(), u32::from(n));
        while let Some((time, key, count)) = self.queue.pop() {
            let budget = f64::from_bits(key);
            if moved >= self.total {
                // Nothing moves any more, whoever comes first: all that counts is who pauses last.
                finish = self.idle(time).max(self.idle_rest());
                break;
            }
            if budget <= 0.0 {
                self.queue.push(time + self.pause, key, count);
                finish = time + self.pause;
                continue;
            }
            for _ in 0..count {
                let credit = self.file().min(budget).min(self.total - moved);
                moved += credit;
                finish = time + credit / self.rate + self.pause;
                self.queue.push(finish, (budget - credit).max(0.0).to_bits(), 1);
            }
        }
        let throughput = moved / finish;
        let utility = Utility { k: K, loss_term: LossTerm::None, ..Utility::default() };
        LdmStep { throughput, utility: utility.score(throughput, n, 0.0) }
    }

    /// The size of the next file in Mbit.
    fn file(&mut self) -> f64 {
        let (low, high) = if self.rng.unit() < 0.9 { (2.0, 4.0) } else { (4.0, 8.0) };
        self.chunk / self.rng.uniform(low, high)
    }

    /// When a stream that can only pause ends its last pause.
    fn idle(&self, mut time: f64) -> f64 {
        while time < WINDOW {
            time += self.pause;
        }
        time
    }

    /// The same for all that are queued, who leave the queue.
    fn idle_rest(&mut self) -> f64 {
        let mut last: f64 = 0.0;
        while let Some((time, ..)) = self.queue.pop() {
            last = last.max(self.idle(time));
        }
        last
    }
}
