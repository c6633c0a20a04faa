//! Rules on a folder of scenarios: shares of the best, and workers by the oracle's.
//!
//! ```text
//! cargo run --release -p tidegate-control --example hard_paths -- FOLDER auto fts3
//! ```
//!
//! `policy=FILE` is a rule that was learned; with LONG set no epoch is short. A scenario's seed is the number in its
//! name. Those that have foreign streams are judged apart.

use std::error::Error;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{env, fs, thread};

use tidegate_control::optimizer::{OptimizerOptions, build};
use tidegate_control::random_path::unseen;
use tidegate_control::{Path, Scenario, SimulatorOptions, Stage, simulate};

/// Epochs a run.
const EPOCHS: u32 = 60;

/// What one rule made of one path.
struct Run {
    path: usize,
    shared: bool,
    share: f64,
    /// In the second half, and over the last ten epochs.
    late: f64,
    end: f64,
    /// Goodput by what the streams that fill the path alone get beside the others.
    fair: f64,
    workers: f64,
    /// Workers by the oracle's, a stage and a stretch between changes.
    ratios: Vec<(f64, String)>,
}

fn run(path: usize, scenario: &Scenario, seed: u64, rule: &str) -> Result<Run, Box<dyn Error + Send + Sync>> {
    let (rule, policy) = match rule.strip_prefix("policy=") {
        Some(file) => ("policy", Some(tidegate_control::Policy::from_bytes(&fs::read(file)?)?)),
        None => (rule, None),
    };
    let mut optimizer = build(rule, &OptimizerOptions { seed, policy, ..OptimizerOptions::default() })?;
    let length = optimizer.epoch_length();
    let options = SimulatorOptions::new(seed, length, EPOCHS);
    let options = if env::var("LONG").is_ok() { options } else { options.with_short_epochs() };
    let done = simulate(scenario, optimizer.as_mut(), None, options);
    if env::var("TRACE").is_ok_and(|traced| traced == seed.to_string()) {
        println!("{scenario:#?}");
        for epoch in &done.epochs {
            println!(
                "{:6.2} {:?} {:.2?} free {:?} -> {:?}",
                epoch.t_ms as f64 / 1e3,
                epoch.concurrency.into_array(),
                epoch.throughput_bps.map(|rate| rate.as_mbps()).into_array(),
                epoch.staging_free_bytes,
                epoch.setpoint.into_array()
            );
        }
    }
    let mut cuts: Vec<Duration> = vec![Duration::ZERO];
    cuts.extend(scenario.timeline.iter().map(|change| change.at));
    let mut ratios = Vec::new();
    let (mut ours, mut alone, mut end, mut best) = (0.0, 0.0, 0.0, 0.0);
    let last = done.delivered.last().map_or(Duration::ZERO, |epoch| epoch.at);
    for (at, from) in cuts.iter().enumerate() {
        let until = cuts.get(at + 1).copied().unwrap_or(Duration::MAX);
        let there = Path::at(scenario, *from);
        let oracle = there.oracle().setpoint;
        let mut quiet = there;
        quiet.background.streams = 0;
        let fills = quiet.oracle().setpoint;
        let fair = there.goodput(fills);
        let epochs: Vec<_> =
            done.delivered.iter().filter(|epoch| epoch.at > *from && epoch.at <= until).collect();
        for stage in Stage::ALL {
            if scenario.bounds()[stage].is_fixed() {
                continue;
            }
            let time: f64 = epochs.iter().map(|epoch| epoch.length.as_secs_f64()).sum();
            let n: f64 = epochs
                .iter()
                .map(|epoch| f64::from(epoch.concurrency[stage]) * epoch.length.as_secs_f64())
                .sum();
            if time > 0.0 {
                let what = format!("h{seed} {stage} {at}: {:.1} for {}", n / time, oracle[stage]);
                ratios.push((n / time / f64::from(oracle[stage]), what));
            }
        }
        for epoch in epochs {
            ours += epoch.goodput.0 as f64 * epoch.length.as_secs_f64();
            alone += fair * epoch.length.as_secs_f64();
            if epoch.at + 10 * length > last {
                end += epoch.goodput.0 as f64 * epoch.length.as_secs_f64();
                best += epoch.best.0 as f64 * epoch.length.as_secs_f64();
            }
        }
    }
    let mean = done.summary.concurrency_mean;
    let shared = scenario.background.streams > 0
        || scenario.timeline.iter().any(|change| change.background.streams.is_some());
    Ok(Run {
        path,
        shared,
        share: done.summary.throughput_share,
        late: done.summary.second_half_share,
        end: end / best,
        fair: ours / alone,
        workers: mean.read + mean.network + mean.write,
        ratios,
    })
}

fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get((values.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN)
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut args = env::args().skip(1);
    let folder = PathBuf::from(args.next().ok_or("a folder, and rules")?);
    let rules: Vec<String> = args.collect();
    let mut files: Vec<PathBuf> = match folder.to_str() {
        Some("ideal" | "extras") => Vec::new(),
        _ => fs::read_dir(&folder)?.map(|file| file.map(|file| file.path())).collect::<Result<_, _>>()?,
    };
    let number = |file: &FilePath| -> u64 {
        let name = file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or_default()
    };
    files.sort_by_key(|file| number(file));
    let mut scenarios = Vec::new();
    if let Some(name @ ("ideal" | "extras")) = folder.to_str() {
        let ideal = |path: Scenario| if name == "ideal" { path.ideal() } else { path };
        scenarios.extend((0..500).map(|seed| (ideal(unseen(seed)), seed)));
    }
    for file in &files {
        scenarios.push((Scenario::from_toml(&fs::read_to_string(file)?)?, number(file)));
    }
    let mut all = Vec::new();
    for rule in &rules {
        let (next, runs) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        let Some((scenario, seed)) = scenarios.get(i) else { return };
                        let done = run(i, scenario, *seed, rule).expect("a rule that runs");
                        runs.lock().expect("not poisoned").push(done);
                    }
                });
            }
        });
        let mut runs = runs.into_inner()?;
        runs.sort_by_key(|run| run.path);
        all.push(runs);
    }
    for shared in [false, true] {
        println!("{}", if shared { "with foreign streams" } else { "alone" });
        for (rule, runs) in rules.iter().zip(&all) {
            let runs: Vec<&Run> = runs.iter().filter(|run| run.shared == shared).collect();
            if runs.is_empty() {
                continue;
            }
            let mut share: Vec<f64> = runs.iter().map(|run| run.share).collect();
            let mut fair: Vec<f64> = runs.iter().map(|run| run.fair).collect();
            let mut late: Vec<f64> = runs.iter().map(|run| run.late).collect();
            let mut end: Vec<f64> = runs.iter().map(|run| run.end).collect();
            let mut workers: Vec<f64> = runs.iter().map(|run| run.workers).collect();
            let mut each: Vec<(f64, String)> = runs.iter().flat_map(|run| run.ratios.clone()).collect();
            each.sort_by(|a, b| b.0.total_cmp(&a.0));
            let mut ratios: Vec<f64> = each.iter().map(|each| each.0).collect();
            let mean = share.iter().sum::<f64>() / share.len() as f64;
            println!(
                "  {rule:14} n {} share {mean:.3} p5 {:.3} worst {:.3} | late p5 {:.3} median {:.3} | end p5 {:.3} worst {:.3} | fair p5 {:.2} median {:.2} p95 {:.2} \
                 | workers {:.0} ratio median {:.2} p95 {:.2}",
                runs.len(),
                percentile(&mut share, 0.05),
                share[0],
                percentile(&mut late, 0.05),
                percentile(&mut late, 0.5),
                percentile(&mut end, 0.05),
                end[0],
                percentile(&mut fair, 0.05),
                percentile(&mut fair, 0.5),
                percentile(&mut fair, 0.95),
                percentile(&mut workers, 0.5),
                percentile(&mut ratios, 0.5),
                percentile(&mut ratios, 0.95),
            );
            let mut worst = runs;
            worst.sort_by(|a, b| a.share.total_cmp(&b.share));
            let names: Vec<String> = worst
                .iter()
                .take(8)
                .map(|run| format!("h{} {:.2}", scenarios[run.path].1, run.share))
                .collect();
            println!("      {}", names.join(", "));
            worst.sort_by(|a, b| a.end.total_cmp(&b.end));
            let names: Vec<String> = worst
                .iter()
                .take(8)
                .map(|run| format!("h{} {:.2}", scenarios[run.path].1, run.end))
                .collect();
            println!("      least at the end: {}", names.join(", "));
            let most: Vec<&str> = each.iter().take(24).map(|each| each.1.as_str()).collect();
            println!("      {}", most.join(", "));
        }
    }
    Ok(())
}
