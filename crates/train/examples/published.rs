//! LDM's and AutoMDT's training as published, on their simulators: episodes a second, and whether
//! their own criterion is met within a number of episodes.
//! `cargo run --release -p tidegate-train --example published [EPISODES [SEEDS]]`

use std::time::Instant;

use tidegate_control::Scenario;
use tidegate_control::policy::Recipe;
use tidegate_train::published::{Constants, Published};
use tidegate_train::session::Trainer;

const RUNS: [(Recipe, &str); 9] = [
    (Recipe::Ldm, "ldm-40g"),
    (Recipe::Ldm, "ldm-10g"),
    (Recipe::Ldm, "ldm-1g"),
    (Recipe::Automdt, "automdt-read"),
    (Recipe::Automdt, "automdt-network"),
    (Recipe::Automdt, "automdt-write"),
    (Recipe::AutomdtDiscrete, "automdt-read"),
    (Recipe::AutomdtDiscrete, "automdt-network"),
    (Recipe::AutomdtDiscrete, "automdt-write"),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let most: u64 = arguments.next().map_or(Ok(5_000), |text| text.parse())?;
    let seeds: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    println!(
        "{:<16} {:<16} {:>4} {:>9} {:>9} {:>8} {:>9} {:>12}",
        "recipe", "path", "seed", "end s", "episodes", "ep/s", "to 0.9", "best / R_max"
    );
    for (recipe, name) in RUNS {
        let file = format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let scenario = Scenario::from_toml(&std::fs::read_to_string(file)?)?;
        for seed in 1..=seeds {
            let constants = Constants { most, ..Constants::of(recipe) };
            let mut trainer = Published::new(&scenario, recipe, constants, seed);
            let begin = Instant::now();
            let progress = loop {
                let progress = trainer.advance();
                if progress.done {
                    break progress;
                }
            };
            let took = begin.elapsed().as_secs_f64();
            let converged = progress.converged_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
            println!(
                "{:<16} {name:<16} {seed:>4} {took:>9.1} {:>9} {:>8.0} {converged:>9} {:>12.3}",
                recipe.name(),
                progress.episodes,
                progress.episodes as f64 / took,
                progress.best
            );
        }
    }
    Ok(())
}
