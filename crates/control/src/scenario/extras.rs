//! What real paths have and the papers' simulators lack, and how to do without.

use std::time::Duration;

use crate::scenario::{Background, BackgroundChange, Decision, Link, Noise, Scenario};

/// Something that makes a path less than ideal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extra {
    /// New workers need time to reach their rate.
    RampUp,
    /// More workers disturb one another.
    Knee,
    /// Segments are lost, at random or past saturation.
    Loss,
    /// Others use the link, always, in bursts or as the timeline says.
    Background,
    /// Rates change as the timeline says.
    Changes,
    /// Measurements are off.
    Noise,
    /// Decisions take effect late.
    Lag,
}

impl Extra {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::RampUp, Self::Knee, Self::Loss, Self::Background, Self::Changes, Self::Noise, Self::Lag];
}

impl Scenario {
    /// The same scenario with one extra switched off.
    pub fn without(mut self, extra: Extra) -> Self {
        match extra {
            Extra::RampUp => {
                self.stages_mut(|stage| stage.ramp_up = Duration::ZERO);
                self.link.ramp_rtts = 0.0;
            }
            Extra::Knee => self.stages_mut(|stage| stage.knee = None),
            Extra::Loss => {
                self.link = Link { loss: 0.0, surplus_loss: 0.0, ..self.link };
                self.timeline.iter_mut().for_each(|change| change.link.loss = None);
            }
            Extra::Background => {
                self.background = Background::default();
                self.timeline.iter_mut().for_each(|change| change.background = BackgroundChange::default());
            }
            Extra::Changes => {
                self.timeline.retain_mut(|change| {
                    let kept = change.background;
                    (change.read, change.network, change.write, change.link) = Default::default();
                    kept != BackgroundChange::default()
                });
            }
            Extra::Noise => self.noise = Noise::default(),
            Extra::Lag => self.decision = Decision::default(),
        }
        self
    }

    /// The scenario with every extra switched off: rates, bounds, staging and the data set remain.
    pub fn ideal(self) -> Self {
        Extra::ALL.into_iter().fold(self, Self::without)
    }

    fn stages_mut(&mut self, change: impl Fn(&mut super::StagePath)) {
        let stages = [self.read.as_mut(), Some(&mut self.network), self.write.as_mut()];
        stages.into_iter().flatten().for_each(change);
    }
}
