//! AutoMDT's simulator of reading, sending and writing (its algorithm 1), event for event.

use std::time::Duration;

use crate::events::{Queue, SHORTEST, Units};
use crate::scenario::Staging;
use crate::stage::{Concurrency, Ends, PerStage, Stage};
use crate::units::BitRate;
use crate::utility::{LossTerm, Utility};

/// The order in which tasks of one time are taken: by their published names, as text.
const ORDER: [Stage; 3] = [Stage::Network, Stage::Read, Stage::Write];

/// A path as AutoMDT's simulator knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AutomdtSettings {
    /// What one thread moves.
    pub worker_rate: PerStage<BitRate>,
    /// What a stage moves at most.
    pub total_rate: PerStage<BitRate>,
    /// Buffers.
    pub staging: Staging,
    /// How staging meets rates.
    pub units: Units,
    /// ε, the pause of a thread between two tasks, at least 1 µs; 10 ms as published.
    pub pause: Duration,
}

impl AutomdtSettings {
    /// With the published pause and corrected units.
    pub const fn new(
        worker_rate: PerStage<BitRate>,
        total_rate: PerStage<BitRate>,
        staging: Staging,
    ) -> Self {
        Self { worker_rate, total_rate, staging, units: Units::Corrected, pause: Duration::from_millis(10) }
    }
}

/// What a second showed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AutomdtStep {
    /// What moved by the time the stage's last task ended, in Mbit/s.
    pub throughput: PerStage<f64>,
    /// What moved, in Mbit: all that was credited in the second.
    pub moved: PerStage<f64>,
    /// Free staging in Mbit, as the simulator counts it.
    pub free: Ends<f64>,
    /// Σ T/1.02ⁿ over the stages, in Mbit/s.
    pub utility: f64,
}

/// AutoMDT's simulator. What is staged stays from step to step.
#[derive(Clone, Debug)]
pub struct Automdt {
    rate: PerStage<f64>,
    total: PerStage<f64>,
    size: Ends<f64>,
    pause: f64,
    staged: Ends<f64>,
    queue: Queue<u8>,
}

impl Automdt {
    /// The published start: what one thread a stage would have left in the buffers after a second.
    pub fn new(settings: &AutomdtSettings) -> Self {
        let rate = settings.worker_rate.map(BitRate::as_mbps);
        let size = Ends {
            sender: settings.units.mbit(settings.staging.sender),
            receiver: settings.units.mbit(settings.staging.receiver),
        };
        let staged = Ends {
            sender: (rate.read - rate.network).clamp(0.0, size.sender),
            receiver: (rate.network - rate.write).clamp(0.0, size.receiver),
        };
        Self {
            rate,
            total: settings.total_rate.map(BitRate::as_mbps),
            size,
            pause: settings.pause.as_secs_f64().max(SHORTEST),
            staged,
            queue: Queue::default(),
        }
    }

    /// What is staged, in Mbit.
    pub const fn staged(&self) -> Ends<f64> {
        self.staged
    }

    /// Sets what is staged, in Mbit, within what fits.
    pub fn set_staged(&mut self, mbit: Ends<f64>) {
        self.staged.sender = mbit.sender.clamp(0.0, self.size.sender);
        self.staged.receiver = mbit.receiver.clamp(0.0, self.size.receiver);
    }

    /// Lets a second pass with `n` threads a stage.
    pub fn step(&mut self, n: Concurrency) -> AutomdtStep {
        let mut moved = PerStage::all(0.0);
        let mut finish = PerStage::all(self.pause);
        for (rank, stage) in ORDER.into_iter().enumerate() {
            self.queue.push(0.0, rank as u8, u32::from(n[stage]));
        }
        while let Some((time, rank, count)) = self.queue.pop() {
            let stage = ORDER[usize::from(rank)];
            // Tasks of equal length end together and are queued together.
            let (mut next, mut waiting) = (0.0, 0);
            for done in 0..count {
                let credit = self.credit(stage, moved[stage]);
                moved[stage] += credit;
                let end = time + credit / self.rate[stage] + self.pause;
                if end != next {
                    self.queue.push(next, rank, waiting);
                    (next, waiting) = (end, 0);
                }
                waiting += 1;
                if credit == 0.0 {
                    // Whoever comes next finds the same.
                    waiting += count - done - 1;
                    break;
                }
            }
            self.queue.push(next, rank, waiting);
            finish[stage] = next;
        }
        let throughput = PerStage::from_fn(|stage| moved[stage] / finish[stage]);
        let utility = Utility { loss_term: LossTerm::None, ..Utility::default() };
        AutomdtStep {
            throughput,
            moved,
            free: Ends {
                sender: self.size.sender - self.staged.sender,
                receiver: self.size.receiver - self.staged.receiver,
            },
            utility: Stage::ALL
                .into_iter()
                .map(|stage| utility.score(throughput[stage], n[stage], 0.0))
                .sum(),
        }
    }

    /// Moves what one task of a stage may, and tells how much, in Mbit.
    fn credit(&mut self, stage: Stage, moved: f64) -> f64 {
        let Ends { sender, receiver } = &mut self.staged;
        let most = self.rate[stage].min(self.total[stage] - moved);
        let credit = match stage {
            Stage::Read => most.min(self.size.sender - *sender),
            Stage::Network => most.min(*sender).min(self.size.receiver - *receiver),
            Stage::Write => most.min(*receiver),
        };
        let credit = credit.max(0.0);
        match stage {
            Stage::Read => *sender += credit,
            Stage::Network => (*sender, *receiver) = (*sender - credit, *receiver + credit),
            Stage::Write => *receiver -= credit,
        }
        credit
    }
}
