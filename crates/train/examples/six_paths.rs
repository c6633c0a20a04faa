//! The fast recipe on the papers' six paths: time to their criterion, time to the end, and where the
//! policy comes to rest. `cargo run --release -p tidegate-train --example six_paths [SEEDS]`

use std::time::Instant;

use tidegate_control::policy::Recipe;
use tidegate_control::{Concurrency, Path, Scenario, Stage};
use tidegate_train::ppo::Config;
use tidegate_train::practice::PathCourse;
use tidegate_train::session::{Session, Stop, Trainer};

const PATHS: [&str; 6] = ["automdt-read", "automdt-network", "automdt-write", "ldm-40g", "ldm-10g", "ldm-1g"];

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seeds: u64 = std::env::args().nth(1).map_or(Ok(10), |text| text.parse())?;
    println!(
        "{:<16} {:>4} {:>9} {:>9} {:>9} {:>9} {:>8} {:>7} {:>5}  rest",
        "path", "seed", "to 0.9 s", "episodes", "end s", "episodes", "ep/s", "U/R_max", "off"
    );
    let (mut to_criterion, mut to_end, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    let (mut worst_off, mut worst_score) = (0, f32::INFINITY);
    for name in PATHS {
        let file = format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let scenario = Scenario::from_toml(&std::fs::read_to_string(file)?)?;
        let best = Path::at(&scenario, std::time::Duration::ZERO).oracle().setpoint;
        for seed in 1..=seeds {
            let course = PathCourse::of(&scenario, Recipe::Fast, 1.02);
            let begin = Instant::now();
            let mut session = Session::new(
                &course,
                (Recipe::Fast, course.scales),
                Config::default(),
                Stop::default(),
                seed,
            );
            let mut converged = None;
            let progress = loop {
                let progress = session.advance();
                if progress.converged_at.is_some() {
                    converged.get_or_insert(begin.elapsed().as_secs_f64());
                }
                if progress.done {
                    break progress;
                }
            };
            let took = begin.elapsed().as_secs_f64();
            let rest = session.marks().map(|marks| marks.rest.clone()).unwrap_or_default();
            let off = |n: &Concurrency| {
                Stage::ALL.into_iter().map(|stage| n[stage].abs_diff(best[stage])).max().unwrap_or(0)
            };
            let off = rest.iter().map(off).max().unwrap_or(u16::MAX);
            let point = session.rest().unwrap_or_default();
            let rate = progress.episodes as f64 / took;
            println!(
                "{name:<16} {seed:>4} {:>9.2} {:>9} {took:>9.2} {:>9} {rate:>8.0} {:>7.4} {off:>5}  {}/{}/{}",
                converged.unwrap_or(f64::INFINITY),
                progress.converged_at.unwrap_or(0),
                progress.episodes,
                progress.best,
                point.read,
                point.network,
                point.write,
            );
            to_criterion.push(converged.unwrap_or(f64::INFINITY));
            to_end.push(took);
            rates.push(rate);
            worst_off = worst_off.max(off);
            worst_score = worst_score.min(progress.best);
        }
    }
    let worst = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    println!(
        "all: to 0.9 R_max median {:.2} s, worst {:.2} s; to the end median {:.2} s, worst {:.2} s; \
         {:.0} episodes/s; off by {worst_off} at most; U/R_max {worst_score:.4} at least",
        median(&mut to_criterion),
        worst(&to_criterion),
        median(&mut to_end),
        worst(&to_end),
        median(&mut rates),
    );
    Ok(())
}
