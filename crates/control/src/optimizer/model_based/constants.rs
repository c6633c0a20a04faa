//! Every number of the rule, with its unit and why it is that: first those that may be set, then those that may not.

use std::time::Duration;

/// The rule's constants; all but the first two are relative and so free of units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelBasedConfig {
    /// Workers a stage to begin with. 2: no burden on a small host, and never worth finding out whether
    /// one would do. On the farthest paths the next step's streams at once: two of them show nothing there
    /// before a second has passed.
    pub start: u16,
    /// Epochs between probes, doubled after each that finds nothing, up to four times as many. 10:
    /// a probe costs no goodput, only workers, and nothing else can notice a path that got wider.
    pub probe_every: u32,
    /// The factor by which the ramp aims higher. 4: from one worker to 256 in four steps.
    pub growth: f64,
    /// The share that must arrive for the gain to be put down to the workers alone, so that a busy
    /// stage shows what one of them moves. 0.75: leaves room for noise of 10 %.
    pub full_gain: f64,
    /// The share a probe must bring to start a new ramp. 0.3, of the mean of two epochs.
    pub probe_gain: f64,
    /// Goodput this far below the capacity, two epochs running, means a trim went too far; more where
    /// goodput strays more. 0.04: one worker too few of up to 25 shows.
    pub shortfall: f64,
    /// Goodput this far from what was held, two epochs running, means the path has changed. 0.2:
    /// twice in a row is beyond noise of 10 %.
    pub change: f64,
    /// Staging is empty below this fill and full above one less it. 0.1: room for the blocks that
    /// workers hold in their hands.
    pub margin: f64,
}

impl Default for ModelBasedConfig {
    fn default() -> Self {
        Self {
            start: 2,
            probe_every: 10,
            growth: 4.0,
            full_gain: 0.75,
            probe_gain: 0.3,
            shortfall: 0.04,
            change: 0.2,
            margin: 0.1,
        }
    }
}

// How far it is.
/// Round trip: a path with at least so long a one is a far one.
pub const FAR: Duration = Duration::from_millis(20);
/// Round trip: from here on a path is one of the farthest, where windows are so large that streams need many seconds
/// to recover from a loss (6 at 100 Mbit/s each, 2 at a round trip of 20 ms).
pub const FARTHEST: Duration = Duration::from_millis(40);

// What is lost.
/// Share of packets: so much lost on a far path says that the path holds back the workers, however few they are.
pub const LOSSY_PATH: f64 = 0.005;
/// Share of packets: so much lost in an epoch on the farthest paths is more than the odd packet, and some stream has
/// to recover.
pub const SLOWING_LOSS: f64 = 0.0005;
/// Share of packets: on the farthest paths so much more lost than in the epoch before came with the workers, and the
/// path is full. (After a small change [`SLOWING_LOSS`] is enough: what gaps held back arrives late and at once, and
/// looks like a gain.)
pub const FLOOD_LOSS: f64 = 0.03;
/// Share of goodput: streams that recover from a loss get quicker by more than this an epoch, ...
pub const RECOVERY_GROWTH: f64 = 0.02;
/// Epochs: ... or have recovered if they do not for so many in a row.
pub const RECOVERED_EPOCHS: u32 = 2;
/// Share of what was usual: less than this is not put down to streams that recover.
pub const MIN_RECOVERING_SHARE: f64 = 0.5;
/// Epochs: so many at most does a ramp that lost packets wait for its streams before it says what the path carries.
pub const MAX_RECOVERY_EPOCHS: u32 = 8;

// What the hosts bear.
/// Workers: so few are not worth an epoch's shortfall to find out whether fewer would do.
pub const FEW_WORKERS: u16 = 2;

// What is enough.
/// Share of the capacity: worth no further worker to exceed; half of what the oracle forgoes.
pub const ENOUGH_SHARE: f64 = 0.99;
/// Factor on the streams that are enough: so many stay on the farthest paths, as cubic streams that have lost packets
/// send 0.85 of their rate for ten seconds or so, and others carry what is missing.
pub const SPARE_STREAMS: f64 = 1.2;

// What is chance.
/// Share of the capacity: however much goodput strays, a larger difference is not put down to chance.
pub const MAX_CHANCE: f64 = 0.12;
/// Times what goodput strays: such a difference is plain, and needs no second epoch to be believed.
pub const PLAIN_STRAYS: f64 = 5.0;
/// Share of the capacity: a plain shortfall is at least this, ...
pub const MIN_PLAIN: f64 = 0.1;
/// Share of the capacity: ... and more than this always is one.
pub const ALWAYS_PLAIN: f64 = 0.25;
/// Times what goodput strays: so far from what was held is no chance, beside [`ModelBasedConfig::change`].
pub const CHANGE_STRAYS: f64 = 3.0;
/// Times the smallest difference that is noticed: a mean that rose by more than this is another path.
pub const RISE_NOTICED: f64 = 2.0;
/// Weight of the newest epoch in what goodput strays: slow, as it is a measure of noise.
pub const STRAY_WEIGHT: f64 = 0.1;
/// Weight of the newest epoch in the mean of what is held.
pub const MEAN_WEIGHT: f64 = 0.3;

// The way up.
/// Factor on goodput: how much higher the ramp aims after a small change, ...
pub const SMALL_GROWTH: f64 = 1.5;
/// Factor on goodput: ... and on the farthest paths, where a climb does no more either.
pub const FARTHEST_SMALL_GROWTH: f64 = 1.2;
/// Factor on goodput: how much higher the ramp aims on a far path once it has more than a few workers, as streams that
/// have lost packets to their own number take seconds to recover there, and where nobody tells how far it is, as a
/// server that is not ours bears no four times of what it needs: so much where the last step brought all that was
/// expected, ...
pub const FAR_GROWTH: f64 = 2.0;
/// Factor on goodput: ... less on the farthest, ...
pub const FARTHEST_GROWTH: f64 = 1.5;
/// Share of the difference to those: ... and at least this where it brought less.
pub const MIN_FAR_STEP: f64 = 0.2;
/// Share of what its workers promised: a step must bring at least this; small steps on a full path cost a worker
/// little.
pub const MIN_STEP_GAIN: f64 = 0.25;
/// Share of the next epoch: one of the ramp that lasted less than this was a short one.
pub const SHORT_EPOCH: f64 = 0.5;
/// Factor on workers: what a climb gives to the stage that holds the path back.
pub const CLIMB_GROWTH: f64 = 2.0;
/// Factor on goodput: what twice the workers must bring for a climb to go on.
pub const MIN_CLIMB_GAIN: f64 = 1.1;

// The way down.
/// Share of the workers: what a trim leaves of a stage whose need is unknown.
pub const TRIM_SHARE: f64 = 0.6;
/// Share of the workers before a trim: more than this is nearly all of them.
pub const NEARLY_ALL: f64 = 0.8;

// Probes.
/// Factor on workers: how much more a probe tries.
pub const PROBE_GROWTH: f64 = 1.2;
/// Share of the capacity: a lasting gain of so much is worth a probe at once, ...
pub const HINT_GAIN: f64 = 0.02;
/// Times what goodput strays: ... as are two epochs running that are so far above the capacity, ...
pub const HINT_STRAYS: f64 = 1.5;
/// Times what goodput strays: ... or a mean that is.
pub const HINT_MEAN_STRAYS: f64 = 2.0;
/// Times [`ModelBasedConfig::probe_every`]: the longest time between two probes.
pub const MAX_PATIENCE: u32 = 4;
