//! What is looked at while a rule is made: more figures, and the paths they are worst on.

use crate::run::{Contender, Ratio, Run, mean, percentile};

/// The worst paths, and the stages with the most workers by the oracle’s, that are named.
const PATHS_NAMED: usize = 8;
const STAGES_NAMED: usize = 24;

/// Prints each contender on paths that are its own, then on those with foreign streams.
pub fn print(contenders: &[Contender], all: &[Vec<Run>]) {
    for shared in [false, true] {
        println!("{}", if shared { "with foreign streams" } else { "alone" });
        for (contender, runs) in contenders.iter().zip(all) {
            let runs: Vec<&Run> = runs.iter().filter(|run| run.shared == shared).collect();
            if !runs.is_empty() {
                print_one(&contender.label(), &runs);
            }
        }
    }
}

fn print_one(label: &str, runs: &[&Run]) {
    let of = |value: fn(&Run) -> f64, part: f64| percentile(runs.iter().map(|run| value(run)), part);
    let mut ratios: Vec<&Ratio> = runs.iter().flat_map(|run| &run.ratios).collect();
    ratios.sort_by(|a, b| b.of.total_cmp(&a.of));
    let ratio = |part| percentile(ratios.iter().map(|ratio| ratio.of), part);
    println!(
        "  {label:14} n {} share {:.3} p5 {:.3} worst {:.3} | late p5 {:.3} median {:.3} | end p5 {:.3} worst {:.3} | \
         fair p5 {:.2} median {:.2} p95 {:.2} | workers {:.0} ratio median {:.2} p95 {:.2}",
        runs.len(),
        mean(runs.iter().map(|run| run.share)),
        of(|run| run.share, 0.05),
        of(|run| run.share, 0.0),
        of(|run| run.late, 0.05),
        of(|run| run.late, 0.5),
        of(|run| run.end, 0.05),
        of(|run| run.end, 0.0),
        of(|run| run.fair, 0.05),
        of(|run| run.fair, 0.5),
        of(|run| run.fair, 0.95),
        of(|run| run.workers, 0.5),
        ratio(0.5),
        ratio(0.95),
    );
    println!("      {}", worst(runs, |run| run.share));
    println!("      least at the end: {}", worst(runs, |run| run.end));
    let most: Vec<&str> = ratios.iter().take(STAGES_NAMED).map(|ratio| ratio.place.as_str()).collect();
    println!("      {}", most.join(", "));
}

fn worst(runs: &[&Run], value: fn(&Run) -> f64) -> String {
    let mut runs = runs.to_vec();
    runs.sort_by(|a, b| value(a).total_cmp(&value(b)));
    let named: Vec<String> =
        runs.iter().take(PATHS_NAMED).map(|run| format!("h{} {:.2}", run.seed, value(run))).collect();
    named.join(", ")
}
