//! Scratch: trains and judges.
use std::time::{Duration, Instant};
use tidegate_control::optimizer::policy::{Choice, Learned};
use tidegate_control::optimizer::{Optimizer, OptimizerOptions, build};
use tidegate_control::random_path::{EPOCHS, training};
use tidegate_control::{Path, SimulatorOptions, Stage, simulate};
use tidegate_train::session::Trainer;
use tidegate_train::universal::{Config, Universal};

fn main() {
    let mut config = Config::default();
    let mut out = String::new();
    let mut load = String::new();
    let mut worst = false;
    let args: Vec<String> = std::env::args().skip(1).collect();
    for a in &args {
        let (k, v) = a.split_once('=').unwrap();
        match k {
            "width" => config.width = v.parse().unwrap(),
            "blocks" => config.blocks = v.parse().unwrap(),
            "env" => config.environments = v.parse().unwrap(),
            "batches" => config.batches = v.parse().unwrap(),
            "passes" => config.passes = v.parse().unwrap(),
            "mini" => config.minibatches = v.parse().unwrap(),
            "rate" => config.rate = v.parse().unwrap(),
            "price" => config.price = v.parse().unwrap(),
            "refining" => config.refining = v.parse().unwrap(),
            "sigma" => config.ppo.sigma = v.parse().unwrap(),
            "prate" => config.ppo.rate = v.parse().unwrap(),
            "gamma" => config.ppo.gae.gamma = v.parse().unwrap(),
            "every" => config.exam_every = v.parse().unwrap(),
            "threads" => config.threads = v.parse().unwrap(),
            "out" => out = v.into(),
            "load" => load = v.into(),
            "worst" => worst = v == "1",
            _ => panic!("{k}"),
        }
    }
    let policy = if load.is_empty() {
        let begun = Instant::now();
        let mut u = Universal::new(config, 1);
        loop {
            let p = u.advance();
            println!("curve {} {} {:?}", p.episodes, p.recent, p.greedy);
            if (p.episodes / config.environments as u64) % 50 == 0 {
                eprintln!(
                    "{:.0}s batch {} recent {:.4} greedy {:?} best {:.4} {:?}",
                    begun.elapsed().as_secs_f64(),
                    p.episodes / config.environments as u64,
                    p.recent,
                    p.greedy,
                    p.best,
                    u.marks()
                );
            }
            if p.done {
                break;
            }
        }
        let mut facts = tidegate_train::session::Facts::new();
        let p = u.progress();
        let mut fact = |name: &str, value: String| drop(facts.insert(format!("training.{name}"), value));
        fact("program", format!("tidegate {}", env!("CARGO_PKG_VERSION")));
        fact("command", "tidegate train --universal -o FILE --seed 1".to_string());
        fact("scenario", "every path".to_owned());
        fact("seed", "1".to_string());
        fact("episodes", p.episodes.to_string());
        fact("utility_share", format!("{:.4}", p.best));
        u.policy(facts).unwrap()
    } else {
        tidegate_control::policy::Policy::from_bytes(&std::fs::read(&load).unwrap()).unwrap()
    };
    if !out.is_empty() {
        std::fs::write(&out, policy.to_bytes()).unwrap();
    }
    for extras in [false, true] {
        let (mut steady, mut workers, mut until, mut mean) = (vec![], vec![], vec![], vec![]);
        for seed in 0..500u64 {
            let scenario = if extras { training(seed) } else { training(seed).ideal() };
            let mut optimizer: Box<dyn Optimizer> = if load == "model" {
                build("model_based", &OptimizerOptions::default()).unwrap()
            } else {
                Box::new(Learned::new(policy.clone(), Choice::Mean, seed))
            };
            let oracle = Path::at(&scenario, Duration::ZERO).oracle();
            let free: Vec<Stage> =
                Stage::ALL.into_iter().filter(|&s| scenario.stages()[s].is_some()).collect();
            let options = SimulatorOptions::new(seed, optimizer.epoch_length(), EPOCHS);
            let played = simulate(&scenario, optimizer.as_mut(), None, options);
            let shares: Vec<f64> =
                played.delivered.iter().map(|d| d.goodput.0 as f64 / d.best.0 as f64).collect();
            steady.push(shares[30..].iter().sum::<f64>() / 30.0);
            let used: f64 = played.delivered[30..]
                .iter()
                .map(|d| free.iter().map(|&s| f64::from(d.concurrency[s])).sum::<f64>())
                .sum::<f64>()
                / 30.0;
            workers.push(used / free.iter().map(|&s| f64::from(oracle.setpoint[s])).sum::<f64>());
            let last_low = shares.iter().rposition(|&s| s < 0.95).map_or(1, |p| p + 2);
            until.push(last_low as f64);
            mean.push(shares.iter().sum::<f64>() / 60.0);
            if worst && (!extras && last_low > 8 || *mean.last().unwrap() < 0.88) {
                println!(
                    "--- seed {seed} extras {extras}: oracle {:?} max {:?} bg {:?} tl {:?}",
                    oracle.setpoint.into_array(),
                    scenario.bounds().map(|b| b.max).into_array(),
                    scenario.background.streams,
                    scenario
                        .timeline
                        .iter()
                        .map(|c| (c.at.as_secs(), Path::at(&scenario, c.at).oracle().setpoint.into_array()))
                        .collect::<Vec<_>>()
                );
                for (d, e) in played.delivered.iter().zip(&played.epochs) {
                    print!("{:?}:{:.2} ", e.concurrency.into_array(), d.goodput.0 as f64 / d.best.0 as f64);
                }
                println!(
                    "\n until {last_low} steady {:.3} mean {:.3} workers {:.2}",
                    steady.last().unwrap(),
                    mean.last().unwrap(),
                    workers.last().unwrap()
                );
            }
        }
        let q = |v: &mut Vec<f64>, p: f64| {
            v.sort_by(f64::total_cmp);
            v[((v.len() - 1) as f64 * p) as usize]
        };
        println!(
            "extras {extras}: steady median {:.3} p5 {:.3} | workers median {:.2} p95 {:.2} mean {:.2} | until95 median {} p95 {} | mean {:.4} p5 {:.3}",
            q(&mut steady, 0.5),
            q(&mut steady, 0.05),
            q(&mut workers, 0.5),
            q(&mut workers, 0.95),
            workers.iter().sum::<f64>() / 500.0,
            q(&mut until, 0.5),
            q(&mut until, 0.95),
            mean.iter().sum::<f64>() / 500.0,
            q(&mut mean, 0.05)
        );
    }
}
