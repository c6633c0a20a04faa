//! Rules on paths drawn at random: shares of the best, and workers by the oracle's.
//!
//! ```text
//! python3 -m lab.hard_paths 500 101 target/hard-paths/101
//! cargo run --release -p tidegate-control --example hard_paths -- target/hard-paths/101 auto fts3   # and the worst paths
//! cargo run --release -p tidegate-control --example hard_paths -- target/hard-paths/101 extras auto \
//!     --write docs/results/hard-paths.md                                  # beside every published rule, for each share
//! ```
//!
//! A folder is called as its seed; `ideal` and `extras` are 500 paths of `random_path::unseen`, `extras:1000` those from
//! seed 1000 on. Everything else is the name of a rule, `auto` by default. `TRACE=7` prints path 7, epoch by epoch.

mod details;
mod page;
mod run;
mod set;

use std::error::Error;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use run::{Contender, Run};
use set::Set;

/// The published rules that drive any path untrained.
const PUBLISHED: [&str; 5] = ["aimd", "falcon", "gradient", "bayesian", "fts3"];

/// What each contender made of each path of `set`, in the order of the paths.
fn runs(set: &Set, contenders: &[Contender]) -> Result<Vec<Vec<Run>>, Box<dyn Error>> {
    let mut all = Vec::new();
    for contender in contenders {
        // A wrong name is told before anything runs.
        contender.build(0)?;
        let (next, runs) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            while let Some((seed, scenario)) = set.paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                let run = run::run(scenario, *seed, contender).expect("a rule that was built before");
                runs.lock().expect("no run panicked").push(run);
            }
        };
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(work);
            }
        });
        let mut runs = runs.into_inner()?;
        runs.sort_by_key(|run| run.seed);
        all.push(runs);
    }
    Ok(all)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut sets, mut rules, mut file) = (Vec::new(), Vec::new(), None);
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--write" {
            file = Some(arguments.next().ok_or("--write FILE")?);
        } else if let Some(set) = Set::named(&argument)? {
            sets.push(set);
        } else {
            rules.push(argument);
        }
    }
    if sets.is_empty() {
        return Err("name a folder of scenarios, ideal or extras".into());
    }
    if rules.is_empty() {
        rules.push("auto".to_owned());
    }
    if let Some(file) = file {
        return Ok(fs::write(file, page::page(&sets, &rules)?)?);
    }
    let contenders: Vec<Contender> = rules.iter().map(|rule| Contender::new(rule)).collect();
    for set in &sets {
        println!("{}", set.name);
        details::print(&contenders, &runs(set, &contenders)?);
    }
    Ok(())
}
