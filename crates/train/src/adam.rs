//! Adam (Kingma and Ba), with the gradient's length limited.

use tidegate_control::policy::network::dot;

/// How far to step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamConfig {
    /// The step size.
    pub rate: f32,
    /// The longest gradient; longer ones are scaled down to it. Infinite for none.
    pub longest: f32,
}

const BETA1: f32 = 0.9;
const BETA2: f32 = 0.999;
const EPSILON: f32 = 1e-8;

/// The moments of one parameter vector's gradients.
#[derive(Clone, Debug)]
pub(crate) struct Adam {
    config: AdamConfig,
    mean: Vec<f32>,
    square: Vec<f32>,
    steps: i32,
}

impl Adam {
    /// For `count` parameters.
    pub fn new(count: usize, config: AdamConfig) -> Self {
        Self { config, mean: vec![0.0; count], square: vec![0.0; count], steps: 0 }
    }

    /// Another step size from here on.
    pub(crate) const fn set_rate(&mut self, rate: f32) {
        self.config.rate = rate;
    }

    /// Moves `parameters` against `gradient`. A gradient that is no number moves nothing.
    pub fn step(&mut self, parameters: &mut [f32], gradient: &[f32]) {
        let length = dot(gradient, gradient).sqrt();
        if !length.is_finite() {
            return;
        }
        let scale = if length > self.config.longest { self.config.longest / length } else { 1.0 };
        self.steps = self.steps.saturating_add(1);
        let correct1 = 1.0 - BETA1.powi(self.steps);
        let correct2 = 1.0 - BETA2.powi(self.steps);
        let rate = self.config.rate / correct1;
        let moments = self.mean.iter_mut().zip(&mut self.square);
        for ((parameter, gradient), (mean, square)) in parameters.iter_mut().zip(gradient).zip(moments) {
            let gradient = gradient * scale;
            *mean += (1.0 - BETA1) * (gradient - *mean);
            *square += (1.0 - BETA2) * (gradient * gradient - *square);
            *parameter -= rate * *mean / ((*square / correct2).sqrt() + EPSILON);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valley_is_found() {
        let mut adam = Adam::new(2, AdamConfig { rate: 0.05, longest: 1.0 });
        let mut at = [5.0f32, -3.0];
        for _ in 0..2000 {
            let gradient = [2.0 * (at[0] - 1.0), 20.0 * (at[1] - 2.0)];
            adam.step(&mut at, &gradient);
        }
        assert!((at[0] - 1.0).abs() < 0.01 && (at[1] - 2.0).abs() < 0.01, "{at:?}");
        adam.step(&mut at, &[f32::NAN, 0.0]);
        assert!(at.iter().all(|value| value.is_finite()));
    }
}
