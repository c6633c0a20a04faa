//! Losses, gradients and a step of Adam, held to what PyTorch makes of the same numbers in double precision
//! (`tests/reference/ppo.py`, which no test runs).
//!
//! Ours are of single precision and of a tanh that is off by 3·10⁻⁵, which two blocks let grow: answers agree to 2·10⁻⁴,
//! losses to 10⁻³ of what they are, gradients to 10⁻³ of their length. A first step of Adam has the size of its rate
//! wherever there is a gradient, so where that is much larger than its error steps agree to a hundredth, and nowhere are
//! they longer than the rate.

use serde::Deserialize;

use super::*;

const REFERENCE: &str = include_str!("../../tests/reference/ppo.json");
const ANSWERS: f32 = 2e-4;
const LOSSES: f64 = 1e-3;
const GRADIENTS: f32 = 1e-3;
const STEPS: f32 = 1e-2;

#[derive(Deserialize)]
struct Reference {
    actors: Vec<ActorCase>,
    critics: Vec<CriticCase>,
}

#[derive(Deserialize)]
struct ActorCase {
    name: String,
    shape: Shape,
    choices: Vec<usize>,
    clip: f32,
    entropy: f32,
    rate: f32,
    longest: f32,
    parameters: Vec<f32>,
    log_sigma: Vec<f32>,
    states: Vec<f32>,
    actions: Vec<f32>,
    log_densities: Vec<f32>,
    advantages: Vec<f32>,
    answers: Vec<f32>,
    surrogate: f64,
    mean_entropy: f64,
    gradient: Vec<f32>,
    gradient_log_sigma: Vec<f32>,
    after: Vec<f32>,
    log_sigma_after: Vec<f32>,
}

#[derive(Deserialize)]
struct CriticCase {
    name: String,
    shape: Shape,
    weight: f32,
    rate: f32,
    longest: f32,
    parameters: Vec<f32>,
    states: Vec<f32>,
    returns: Vec<f32>,
    values: Vec<f32>,
    loss: f64,
    gradient: Vec<f32>,
    after: Vec<f32>,
}

fn reference() -> Reference {
    serde_json::from_str(REFERENCE).expect("the reference")
}

fn net(shape: Shape, parameters: &[f32]) -> Net {
    Net::from_network(&tidegate_control::policy::Network::new(shape, parameters.to_vec()).expect("they fit"))
}

fn length(values: impl Iterator<Item = f32>) -> f32 {
    values.map(|value| value * value).sum::<f32>().sqrt()
}

fn differences<'a>(one: &'a [f32], other: &'a [f32]) -> impl Iterator<Item = f32> + 'a {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(one, other)| one - other)
}

fn is_near(what: &str, found: &[f32], wanted: &[f32]) {
    let worst = differences(found, wanted).fold(0.0f32, |worst, by| worst.max(by.abs()));
    assert!(worst < ANSWERS, "{what}: off by {worst}");
}

fn is_loss(what: &str, found: f64, wanted: f64) {
    assert!((found - wanted).abs() < LOSSES * (1.0 + wanted.abs()), "{what}: {found}, not {wanted}");
}

/// Of every parameter.
fn is_gradient(what: &str, found: &[f32], wanted: &[f32]) {
    let (error, size) = (length(differences(found, wanted)), length(wanted.iter().copied()));
    assert!(size > 0.0 && error < GRADIENTS * size, "{what}: off by {error} of {size}");
}

/// From `before` on, where the gradient was `gradient`.
fn is_step(what: &str, (before, found, wanted): (&[f32], &[f32], &[f32]), gradient: &[f32], rate: f32) {
    let sure = 10.0 * GRADIENTS * length(gradient.iter().copied());
    let mut counted = 0;
    for i in 0..before.len() {
        let (ours, theirs) = (found[i] - before[i], wanted[i] - before[i]);
        // What single precision loses of a parameter near 1.
        let exact = f32::EPSILON * before[i].abs();
        assert!(ours.abs() <= rate * 1.001 + exact, "{what} {i}: {ours}");
        if gradient[i].abs() > sure {
            counted += 1;
            assert!((ours - theirs).abs() < STEPS * rate + exact, "{what} {i}: {ours}, not {theirs}");
        }
    }
    assert!(2 * counted >= before.len(), "{what}: only {counted} of {} are sure", before.len());
}

/// The clipped surrogate and the mean entropy of `case` for the network's `answers`, by their definitions.
fn losses(case: &ActorCase, groups: &[Range<usize>], answers: &[f32]) -> (f64, f64) {
    let heads = case.shape.outputs;
    let (mut surrogate, mut entropies) = (0.0, 0.0);
    for (row, answers) in answers.chunks(heads).enumerate() {
        let action = &case.actions[row * heads..(row + 1) * heads];
        let (mut log_density, mut entropy) = (0.0f64, 0.0f64);
        let mut log_p = vec![0.0; heads];
        for group in groups {
            log_likelihoods(&answers[group.clone()], &mut log_p[group.clone()]);
        }
        for i in 0..heads {
            if groups.is_empty() {
                let log_sigma = f64::from(case.log_sigma[i]);
                let z = f64::from(action[i] - answers[i]) / log_sigma.exp();
                log_density -= 0.5 * z * z + log_sigma + f64::from(LOG_ROOT_TAU);
                entropy += 0.5 + log_sigma + f64::from(LOG_ROOT_TAU);
            } else {
                let log_p = f64::from(log_p[i]);
                log_density += f64::from(action[i]) * log_p;
                entropy -= log_p.exp() * log_p;
            }
        }
        let ratio = (log_density - f64::from(case.log_densities[row])).exp();
        let (advantage, clip) = (f64::from(case.advantages[row]), f64::from(case.clip));
        surrogate += (ratio * advantage).min(ratio.clamp(1.0 - clip, 1.0 + clip) * advantage);
        entropies += entropy;
    }
    let count = case.advantages.len() as f64;
    (surrogate / count, entropies / count)
}

#[test]
fn a_policy_answers_and_learns_as_pytorch_has_it() {
    let cases = reference().actors;
    assert_eq!(cases.len(), 3);
    for case in cases {
        let what = |part: &str| format!("{}: {part}", case.name);
        let net = net(case.shape, &case.parameters);
        let config = adam::AdamConfig { rate: case.rate, longest: case.longest };
        let mut actor = match case.choices.is_empty() {
            true => Actor::from_net(net, case.log_sigma.clone(), config),
            false => Actor::of_choices(net, case.choices.clone(), config),
        };
        let mut tape = Tape::default();
        let answers = actor.net.forward(&case.states, &mut tape).to_vec();
        is_near(&what("answers"), &answers, &case.answers);
        // And as it drives a transfer.
        let network = actor.net.to_network().expect("numbers");
        let driven: Vec<f32> =
            case.states.chunks(case.shape.inputs).flat_map(|state| network.forward(state)).collect();
        is_near(&what("answers in a transfer"), &driven, &case.answers);
        let (surrogate, entropy) = losses(&case, &actor.groups, &answers);
        is_loss(&what("clipped surrogate"), surrogate, case.surrogate);
        is_loss(&what("entropy"), entropy, case.mean_entropy);
        let samples = Samples {
            states: case.states.clone(),
            actions: case.actions.clone(),
            log_densities: case.log_densities.clone(),
            advantages: case.advantages.clone(),
        };
        actor.update(&samples, Objective { clip: case.clip, entropy: case.entropy }, &mut tape);
        is_gradient(&what("gradient"), &actor.gradient, &case.gradient);
        let steps = (&case.parameters[..], &actor.net.parameters[..], &case.after[..]);
        is_step(&what("step"), steps, &case.gradient, case.rate);
        if case.choices.is_empty() {
            is_gradient(&what("gradient of ln σ"), &actor.d_sigma, &case.gradient_log_sigma);
            let steps = (&case.log_sigma[..], &actor.log_sigma[..], &case.log_sigma_after[..]);
            is_step(&what("step of ln σ"), steps, &case.gradient_log_sigma, case.rate);
        }
    }
}

#[test]
fn a_critic_answers_and_learns_as_pytorch_has_it() {
    let cases = reference().critics;
    assert_eq!(cases.len(), 2);
    for case in cases {
        let what = |part: &str| format!("{}: {part}", case.name);
        let config = adam::AdamConfig { rate: case.rate, longest: case.longest };
        let mut critic = Critic::from_net(net(case.shape, &case.parameters), config);
        let mut tape = Tape::default();
        let values = critic.net.forward(&case.states, &mut tape).to_vec();
        is_near(&what("values"), &values, &case.values);
        let squares =
            values.iter().zip(&case.returns).map(|(value, wanted)| f64::from(value - wanted).powi(2));
        let loss = f64::from(case.weight) * 0.5 * squares.sum::<f64>() / case.returns.len() as f64;
        is_loss(&what("loss"), loss, case.loss);
        critic.update(&case.states, &case.returns, case.weight, &mut tape);
        is_gradient(&what("gradient"), &critic.gradient, &case.gradient);
        let steps = (&case.parameters[..], &critic.net.parameters[..], &case.after[..]);
        is_step(&what("step"), steps, &case.gradient, case.rate);
    }
}
