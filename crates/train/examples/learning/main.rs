//! The tables of docs/results/learning.md, every rule side by side.
//!
//! ```text
//! cargo run --release -p tidegate-train --example learning -- --write docs/results/learning.md
//! cargo run --release -p tidegate-train --example learning -- --development      # training's paths, rules alone
//! cargo run --release -p tidegate-train --example learning -- --online           # learning on, alone
//! ```

mod contenders;
mod online;
mod random_paths;
mod six_paths;

use std::error::Error;
use std::fs;

use tidegate_control::Scenario;
use tidegate_control::random_path::{training, unseen};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const SEEDS: u64 = 10;
const ONLINE_SEEDS: u64 = 5;

/// A scenario of the repository.
fn scenario(name: &str) -> Result<Scenario> {
    let file = format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    Ok(Scenario::from_toml(&fs::read_to_string(file)?)?)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--development") {
        let rules = contenders::rules();
        print!("{}", random_paths::table(&rules, |seed| training(seed).ideal())?);
        print!("{}", random_paths::table(&rules, training)?);
        return Ok(());
    }
    if arguments.iter().any(|argument| argument == "--online") {
        print!("{}", online::table(ONLINE_SEEDS)?);
        return Ok(());
    }
    let contenders = contenders::all()?;
    let page = format!(
        "# Learning a path, and needing to learn none\n\n\
         Made by `cargo run --release -p tidegate-train --example learning -- --write docs/results/learning.md`; do \
         not edit by hand. Figures of real transfers are in [automdt.md](automdt.md) and [beyond.md](beyond.md).\n\n\
         ## Training for one path\n\n\
         The recipe `fast`, {SEEDS} seeds a path, two threads. The criterion is the papers\u{2019}: the mean a step over \
         the last hundred episodes against R_max, then 1,000 episodes without anything better. LDM trains 55 episodes/s and \
         AutoMDT 7.5 (their papers). Bars: median \u{2264} 5 s, worst \u{2264} 20 s, within 1 worker, utility \u{2265} \
         0.97.\n\n{}\n\
         ## 500 unseen paths\n\n\
         Drawn by `random_path::unseen`, from seeds that training never uses: a link of 10 Mbit/s to 400 Gbit/s, \
         up to 1 to 256 workers a stage, some stages absent, some with a limit of their own, staging for 0.05 to 10 s. 60 s \
         each: 60 epochs, or 20 for the rules whose epochs are 3 s as published. Late is the second half. Within 0.1 % \
         counts as not behind. Published are aimd, falcon, gradient, bayesian and marlin; fts3 decides once a minute, so \
         here it keeps what it begins with and is not counted among them. The agents have learned another path: that is what needing no retraining is measured \
         against.\n\n\
         ### Ideal: nothing but rates, limits and staging\n\n{}\n\
         ### With every extra\n\n\
         Noise of up to 10 %, knees, new streams that take five round trips to get up to speed, decisions up to 0.3 s \
         late, and up to two changes of the link, a worker\u{2019}s rate or the traffic of others.\n\n{}\n\
         ## Learning while the transfer runs\n\n\
         Off unless asked for (`policy:online`): after every ten epochs a few small PPO steps, the critic trained along \
         with the policy as the start. An hour of epochs of 1 s on the simulator, the mean of {ONLINE_SEEDS} seeds. Utility is \
         goodput by the oracle\u{2019}s, times the mean of 1.02^-n.\n\n{}",
        six_paths::table(SEEDS)?,
        random_paths::table(&contenders, |seed| unseen(seed).ideal())?,
        random_paths::table(&contenders, unseen)?,
        online::table(ONLINE_SEEDS)?,
    );
    match arguments.as_slice() {
        [flag, file] if flag == "--write" => fs::write(file, page)?,
        _ => print!("{page}"),
    }
    Ok(())
}
