//! Plays rules on random paths: `cargo run --release -p tidegate-control --example random_paths -- RULE...`

use std::time::Duration;

use tidegate_control::optimizer::{OptimizerOptions, build};
use tidegate_control::random_path::{EPOCHS, training, unseen};
use tidegate_control::{Path, SimulatorOptions, Stage, simulate};

fn main() {
    let mut rules: Vec<String> = std::env::args().skip(1).collect();
    let extras = rules.iter().any(|rule| rule == "--extras");
    let draw = if rules.iter().any(|rule| rule == "--unseen") { unseen } else { training };
    let worst = rules.iter().any(|rule| rule == "--worst");
    rules.retain(|rule| !rule.starts_with("--"));
    for rule in &rules {
        let (mut steady, mut workers, mut until, mut mean) = (vec![], vec![], vec![], vec![]);
        for seed in 0..500u64 {
            let scenario = if extras { draw(seed) } else { draw(seed).ideal() };
            let mut optimizer =
                build(rule, &OptimizerOptions { seed, ..OptimizerOptions::default() }).expect("a rule");
            let oracle = Path::at(&scenario, Duration::ZERO).oracle();
            let free: Vec<Stage> =
                Stage::ALL.into_iter().filter(|&s| scenario.stages()[s].is_some()).collect();
            let options = SimulatorOptions::new(seed, optimizer.epoch_length(), EPOCHS);
            let played = simulate(&scenario, optimizer.as_mut(), None, options);
            let share = |d: &tidegate_control::simulator::Delivered| d.goodput.0 as f64 / d.best.0 as f64;
            let shares: Vec<f64> = played.delivered.iter().map(share).collect();
            let half = &played.delivered[30..];
            steady.push(half.iter().map(share).sum::<f64>() / 30.0);
            let used: f64 = half
                .iter()
                .map(|d| free.iter().map(|&s| f64::from(d.concurrency[s])).sum::<f64>())
                .sum::<f64>()
                / 30.0;
            let best: f64 = free.iter().map(|&s| f64::from(oracle.setpoint[s])).sum();
            workers.push(used / best);
            let last_low = shares.iter().rposition(|&s| s < 0.95).map_or(1, |p| p + 2);
            until.push(last_low as f64);
            mean.push(shares.iter().sum::<f64>() / shares.len() as f64);
            if worst && (!extras && last_low > 8 || mean.last().is_some_and(|&s| s < 0.9)) {
                println!(
                    "--- seed {seed}: oracle {:?} bounds {:?}",
                    oracle.setpoint.into_array(),
                    scenario.bounds().map(|b| b.max).into_array()
                );
                for (d, e) in played.delivered.iter().zip(&played.epochs).take(60) {
                    print!("{:?}:{:.2} ", e.concurrency.into_array(), share(d));
                }
                println!(
                    "\n until {last_low} steady {:.3} workers {:.2}",
                    steady[steady.len() - 1],
                    workers[workers.len() - 1]
                );
            }
        }
        let q = |v: &mut Vec<f64>, p: f64| {
            v.sort_by(f64::total_cmp);
            v[((v.len() - 1) as f64 * p) as usize]
        };
        println!(
            "{rule:12} steady median {:.3} p5 {:.3} | workers median {:.2} p95 {:.2} | until95 median {} p95 {} | mean {:.3} p5 {:.3}",
            q(&mut steady, 0.5),
            q(&mut steady, 0.05),
            q(&mut workers, 0.5),
            q(&mut workers, 0.95),
            q(&mut until, 0.5),
            q(&mut until, 0.95),
            mean.iter().sum::<f64>() / 500.0,
            q(&mut mean, 0.05)
        );
    }
}
