//! Who predicts.

use tidegate_control::throughput_model::choice::choose_by;
use tidegate_control::throughput_model::{Choice, Model, Options, Sample};

/// A way to choose.
pub struct Contender {
    /// Its name in the tables.
    pub name: String,
    options: Options,
    /// Samples it is shown, of all.
    shown: usize,
}

impl Contender {
    fn new(name: &str, options: Options) -> Self {
        Self { name: name.to_owned(), options, shown: usize::MAX }
    }

    /// What it makes of `samples`.
    pub fn choose(&self, samples: &[Sample], most: u16) -> Choice {
        choose_by(&samples[..samples.len().min(self.shown)], most, &self.options)
    }
}

/// Ours, ours without a step, and each of the published models alone.
pub fn all() -> Vec<Contender> {
    // All are judged by how few streams they do as well with.
    let alone = |model| Options { same: Options::default().same, ..Options::published(vec![model]) };
    vec![
        Contender::new("**ours**", Options::default()),
        Contender::new("best curve alone", Options { blend: false, ..Options::default() }),
        Contender::new("best triples only", Options { blend: false, refine: false, ..Options::default() }),
        Contender::new("full second order", alone(Model::FullSecondOrder)),
        Contender::new("dynamic order", alone(Model::DynamicOrder)),
        Contender::new("Dinda", alone(Model::Dinda)),
        Contender { shown: 1, ..Contender::new("Hacker", alone(Model::Hacker)) },
    ]
}

/// How many of them are ours.
pub const OURS: usize = 3;
