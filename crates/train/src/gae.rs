//! Generalised advantage estimation (Schulman et al.): how much better an action was than expected.

/// What the future counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GaeConfig {
    /// γ, the worth of a reward one step later.
    pub gamma: f32,
    /// λ, between one step's estimate (0) and the whole episode's (1).
    pub(crate) lambda: f32,
}

/// Advantages of one episode's steps. `values` has one more entry than `rewards`: the worth of the
/// state the episode was cut off in. The path would have gone on, so that worth counts, unless the
/// environment really `ended`.
pub(crate) fn advantages(rewards: &[f32], values: &[f32], ended: bool, config: GaeConfig, out: &mut [f32]) {
    let steps = rewards.len();
    let mut later = 0.0;
    for t in (0..steps).rev() {
        let next = if ended && t + 1 == steps { 0.0 } else { values[t + 1] };
        let surprise = rewards[t] + config.gamma * next - values[t];
        later = surprise + config.gamma * config.lambda * later;
        out[t] = later;
    }
}

/// Shifts and scales `values` to mean 0 and deviation 1.
pub(crate) fn standardize(values: &mut [f32]) {
    let count = values.len() as f32;
    let mean = values.iter().sum::<f32>() / count;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f32>() / count;
    let scale = 1.0 / (variance.sqrt() + 1e-5);
    values.iter_mut().for_each(|value| *value = (*value - mean) * scale);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_counts_what_would_have_come_and_an_end_does_not() {
        let config = GaeConfig { gamma: 0.5, lambda: 1.0 };
        // A reward of 1 for ever is worth 2; a critic that knows this is never surprised.
        let mut out = [0.0; 3];
        advantages(&[1.0; 3], &[2.0; 4], false, config, &mut out);
        assert!(out.iter().all(|a| a.abs() < 1e-6), "{out:?}");
        advantages(&[1.0; 3], &[2.0; 4], true, config, &mut out);
        assert!((out[2] + 1.0).abs() < 1e-6 && (out[0] + 0.25).abs() < 1e-6, "{out:?}");
    }

    /// What PyTorch makes of the same numbers by the definition, in double precision (`tests/reference/ppo.py`).
    #[test]
    fn advantages_are_those_of_the_definition() {
        let reference: serde_json::Value =
            serde_json::from_str(include_str!("../tests/reference/ppo.json")).expect("the reference");
        let cases = reference["gae"].as_array().expect("cases");
        assert_eq!(cases.len(), 3);
        for case in cases {
            let list = |key: &str| -> Vec<f32> {
                serde_json::from_value(case[key].clone()).unwrap_or_else(|error| panic!("{key}: {error}"))
            };
            let number = |key: &str| case[key].as_f64().expect(key) as f32;
            let config = GaeConfig { gamma: number("gamma"), lambda: number("lambda") };
            let (rewards, values) = (list("rewards"), list("values"));
            let mut out = vec![0.0; rewards.len()];
            let ended = case["ended"].as_bool().expect("ended");
            advantages(&rewards, &values, ended, config, &mut out);
            let near = |out: &[f32], wanted: &[f32]| {
                out.len() == wanted.len() && out.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-5)
            };
            assert!(near(&out, &list("advantages")), "{out:?} of {case}");
            standardize(&mut out);
            assert!(near(&out, &list("standardized")), "{out:?} of {case}");
        }
    }

    #[test]
    fn lambda_zero_looks_one_step_ahead() {
        let mut out = [0.0; 2];
        advantages(&[1.0, 0.0], &[0.0, 4.0, 2.0], false, GaeConfig { gamma: 0.5, lambda: 0.0 }, &mut out);
        assert_eq!(out, [3.0, -3.0]);
        standardize(&mut out);
        assert!((out[0] - 1.0).abs() < 1e-4 && (out[1] + 1.0).abs() < 1e-4);
    }
}
