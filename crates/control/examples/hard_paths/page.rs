//! docs/results/hard-paths.md: the rules that share a path, for each share, beside every published one.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;

use tidegate_control::Share;

use crate::run::{Contender, Run, mean, percentile};
use crate::set::Set;
use crate::{PUBLISHED, runs};

/// Who is behind by no more than this is not behind.
const LEAD: f64 = 0.01;

/// What a figure of ours should be.
#[derive(Clone, Copy)]
struct Bar(f64, f64);

impl Bar {
    const fn least(value: f64) -> Self {
        Self(value, f64::INFINITY)
    }

    const fn most(value: f64) -> Self {
        Self(f64::NEG_INFINITY, value)
    }

    fn text(self) -> String {
        match self {
            Self(least, most) if most.is_infinite() => format!("≥ {least}"),
            Self(least, most) if least.is_infinite() => format!("≤ {most}"),
            Self(least, most) => format!("{least} to {most}"),
        }
    }
}

/// A column: what it is of a rule's runs, and what it should be.
struct Column {
    head: &'static str,
    of: fn(&[&Run]) -> f64,
    bar: Option<Bar>,
}

const fn column(head: &'static str, of: fn(&[&Run]) -> f64, bar: Option<Bar>) -> Column {
    Column { head, of, bar }
}

fn share_mean(runs: &[&Run]) -> f64 {
    mean(runs.iter().map(|run| run.share))
}

fn share_low(runs: &[&Run]) -> f64 {
    percentile(runs.iter().map(|run| run.share), 0.05)
}

fn share_worst(runs: &[&Run]) -> f64 {
    percentile(runs.iter().map(|run| run.share), 0.0)
}

fn ratio(runs: &[&Run], part: f64) -> f64 {
    percentile(runs.iter().flat_map(|run| &run.ratios).map(|ratio| ratio.of), part)
}

fn fair(runs: &[&Run], part: f64) -> f64 {
    percentile(runs.iter().map(|run| run.fair), part)
}

const ALONE: [Column; 5] = [
    column("goodput ÷ best: mean", share_mean, Some(Bar::least(0.975))),
    column("5th percentile", share_low, Some(Bar::least(0.92))),
    column("worst", share_worst, Some(Bar::least(0.75))),
    column("workers ÷ oracle’s: median", |runs| ratio(runs, 0.5), Some(Bar::most(1.15))),
    column("95th percentile", |runs| ratio(runs, 0.95), Some(Bar::most(2.0))),
];

/// Not behind any published rule, in %.
const NOT_BEHIND: Bar = Bar::least(90.0);

const FULL: [Column; 3] = [
    column("goodput ÷ best: mean", share_mean, Some(Bar::least(0.94))),
    column("5th percentile", share_low, Some(Bar::least(0.86))),
    column("worst", share_worst, Some(Bar::least(0.70))),
];

const FAIR: [Column; 3] = [
    column("goodput ÷ fair: median", |runs| fair(runs, 0.5), Some(Bar(0.9, 1.2))),
    column("5th percentile", |runs| fair(runs, 0.05), Some(Bar::least(0.75))),
    column("95th percentile", |runs| fair(runs, 0.95), None),
];

/// Bold where it is judged and misses its bar.
fn emphasized(text: String, value: f64, bar: Option<Bar>) -> String {
    match bar {
        Some(Bar(least, most)) if !(least..=most).contains(&value) => format!("**{text}**"),
        _ => text,
    }
}

/// The cells of a row.
fn row(columns: &[Column], cell: impl Fn(&Column) -> String) -> String {
    columns.iter().map(|column| format!(" {} |", cell(column))).collect()
}

fn heads(columns: &[Column]) -> String {
    row(columns, |column| column.head.to_owned())
}

fn bars(columns: &[Column]) -> String {
    row(columns, |column| column.bar.map_or_else(|| "–".to_owned(), Bar::text))
}

fn figures(columns: &[Column], runs: &[&Run], judged: bool) -> String {
    row(columns, |column| {
        let value = (column.of)(runs);
        emphasized(format!("{value:.3}"), value, column.bar.filter(|_| judged))
    })
}

/// What a rule is beside the published ones, path by path.
struct Beside<'a> {
    /// Paths, in %, on which none of them is ahead.
    not_behind: f64,
    /// On the others: the one that is furthest ahead, and ourselves.
    leaders: Vec<(&'a str, &'a Run, &'a Run)>,
}

impl<'a> Beside<'a> {
    fn new(rule: &str, runs: &[&'a Run], published: &[(&'a str, Vec<&'a Run>)]) -> Self {
        let mut leaders = Vec::new();
        for (path, own) in runs.iter().enumerate() {
            let rivals = published.iter().filter(|(name, _)| *name != rule);
            let best = rivals.map(|(name, runs)| (*name, runs[path]));
            let best = best.max_by(|(_, a), (_, b)| a.share.total_cmp(&b.share));
            leaders.extend(
                best.filter(|(_, run)| own.share < (1.0 - LEAD) * run.share)
                    .map(|(name, run)| (name, run, *own)),
            );
        }
        let not_behind = 100.0 * (runs.len() - leaders.len()) as f64 / runs.len() as f64;
        Self { not_behind, leaders }
    }

    fn cells(&self, judged: bool) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, ..) in &self.leaders {
            *counts.entry(name).or_default() += 1;
        }
        let mut names: Vec<_> = counts.into_iter().collect();
        names.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        let names: Vec<String> = names.into_iter().map(|(name, count)| format!("{name} {count}")).collect();
        let median = |of: fn(&(&str, &Run, &Run)) -> f64| match self.leaders.as_slice() {
            [] => "–".to_owned(),
            leaders => format!("{:.2}", percentile(leaders.iter().map(of), 0.5)),
        };
        format!(
            " {} | {} | {} | {} |",
            emphasized(format!("{:.1} %", self.not_behind), self.not_behind, judged.then_some(NOT_BEHIND)),
            if names.is_empty() { "–".to_owned() } else { names.join(", ") },
            median(|(_, leader, _)| leader.ratio),
            median(|(_, _, own)| own.ratio),
        )
    }
}

/// The runs of one kind of paths, by contender.
type Played<'a> = [(&'a Contender, Vec<&'a Run>)];

fn alone(played: &Played<'_>) -> Result<String, std::fmt::Error> {
    let mut text = format!(
        "| rule |{} not behind a published rule | who is ahead elsewhere | its workers ÷ oracle’s there: median | our own \
         |\n|---{}|\n| *bar* |{} {} % | – | – | – |\n",
        heads(&ALONE),
        "|---:".repeat(ALONE.len()) + "|---:|---|---:|---:",
        bars(&ALONE),
        NOT_BEHIND.text(),
    );
    let published: Vec<(&str, Vec<&Run>)> = played
        .iter()
        .filter(|(contender, _)| contender.share.is_none())
        .map(|(contender, runs)| (contender.rule.as_str(), runs.clone()))
        .collect();
    for (contender, runs) in played {
        let judged = contender.share.is_some();
        let beside = Beside::new(&contender.rule, runs, &published);
        let cells = figures(&ALONE, runs, judged) + &beside.cells(judged);
        writeln!(text, "| {} |{cells}", contender.label())?;
    }
    Ok(text)
}

fn shared(played: &Played<'_>) -> Result<String, std::fmt::Error> {
    let blank = |columns: &[Column]| " – |".repeat(columns.len());
    let mut text = format!(
        "| rule |{}{}\n|---{}|\n| *bar of full* |{}{}\n| *bar of fair* |{}{}\n",
        heads(&FULL),
        heads(&FAIR),
        "|---:".repeat(FULL.len() + FAIR.len()),
        bars(&FULL),
        blank(&FAIR),
        blank(&FULL),
        bars(&FAIR),
    );
    for (contender, runs) in played {
        let full = figures(&FULL, runs, contender.share == Some(Share::Full));
        let fair = figures(&FAIR, runs, contender.share == Some(Share::Fair));
        writeln!(text, "| {} |{full}{fair}", contender.label())?;
    }
    Ok(text)
}

fn kind_of(runs: &[Run], foreign: bool) -> Vec<&Run> {
    runs.iter().filter(|run| run.shared == foreign).collect()
}

/// Plays `rules`, for each share, and the published rules on every path of `sets`.
pub fn page(sets: &[Set], rules: &[String]) -> Result<String, Box<dyn Error>> {
    if let Some(rule) =
        rules.iter().find(|rule| PUBLISHED.contains(&rule.as_str()) || rule.contains("share="))
    {
        return Err(
            format!("{rule}: name rules of our own, without a share; the others are there anyway").into()
        );
    }
    let with = |rule: &String, share| Contender { rule: rule.clone(), share: Some(share) };
    let ours = rules.iter().flat_map(|rule| [with(rule, Share::Fair), with(rule, Share::Full)]);
    let contenders: Vec<Contender> = ours.chain(PUBLISHED.map(Contender::new)).collect();
    let mut page = format!(
        "# Rules on paths drawn at random\n\n\
         Made by `cargo run --release -p tidegate-control --example hard_paths -- FOLDER... {} --write \
         docs/results/hard-paths.md`; do not edit by hand. What was drawn: `lab/hard_paths.py`, \
         `lab/wide_paths.py` (every kind), `crates/control/src/random_path.rs`. Simulated as by `tidegate simulate`: 60 epochs of the length that each rule \
         asks for. So falcon, gradient and bayesian, with 3 s, have three times as long to find the best; fts3, which decides \
         once a minute, has its first 31 workers throughout, and no path of `lab/hard_paths.py` needs many more.\n\n\
         | paths | drawn by | served for |\n|---|---|---|\n",
        rules.join(" ")
    );
    for set in sets {
        writeln!(page, "| {} | {} | {} |", set.name, set.drawn_by, set.served)?;
    }
    page += "\n*Best* is the most that any number of workers moves, over the whole run; the *oracle* has the fewest \
             workers that lose less than 2 % of it. Workers ÷ the oracle’s is for each stage with a choice the mean between \
             two changes of the path. Not behind: no published rule has 1 % more; where one has, the workers are those \
             of all stages over the whole run. *Fair* is what the streams that would fill the path alone get beside the same \
             foreign streams. A figure of ours that misses its bar is bold.\n";
    for set in sets {
        let all = runs(set, &contenders)?;
        for foreign in [false, true] {
            let of_kind = contenders.iter().zip(&all);
            let of_kind = of_kind.map(|(contender, runs)| (contender, kind_of(runs, foreign)));
            let played: Vec<(&Contender, Vec<&Run>)> = of_kind.collect();
            let count = played[0].1.len();
            if count > 0 {
                let (kind, table) = if foreign {
                    ("with foreign streams", shared(&played)?)
                } else {
                    ("alone", alone(&played)?)
                };
                write!(page, "\n## {}, {kind}: {count} paths\n\n{table}", set.name)?;
            }
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(share: f64, ratio: f64) -> Run {
        Run {
            seed: 0,
            shared: false,
            share,
            late: 0.0,
            end: 0.0,
            fair: 0.0,
            workers: 0.0,
            ratio,
            ratios: Vec::new(),
        }
    }

    #[test]
    fn what_misses_its_bar_is_bold() {
        for (value, bar, shown) in [
            (0.969, Some(Bar::least(0.97)), "**x**"),
            (0.97, Some(Bar::least(0.97)), "x"),
            (1.21, Some(Bar::most(1.2)), "**x**"),
            (1.21, Some(Bar(0.9, 1.2)), "**x**"),
            (0.9, Some(Bar(0.9, 1.2)), "x"),
            (0.1, None, "x"),
            (f64::NAN, Some(Bar::least(0.97)), "**x**"),
        ] {
            assert_eq!(emphasized("x".to_owned(), value, bar), shown, "{value}");
        }
    }

    #[test]
    fn a_rule_is_behind_whoever_is_a_hundredth_ahead() {
        let own = [run(0.9, 1.0), run(0.995, 1.1), run(0.5, 1.2)];
        let (a, b) =
            ([run(0.8, 5.0), run(1.0, 6.0), run(0.6, 2.0)], [run(0.85, 7.0), run(1.0, 8.0), run(0.7, 3.0)]);
        let published = [("a", a.iter().collect()), ("b", b.iter().collect())];
        let beside = Beside::new("ours", &own.iter().collect::<Vec<_>>(), &published);
        assert_eq!(beside.leaders.len(), 1, "the second path is too close");
        assert_eq!((beside.leaders[0].0, beside.leaders[0].1.ratio), ("b", 3.0), "the furthest ahead");
        assert_eq!(beside.cells(true), " **66.7 %** | b 1 | 3.00 | 1.20 |");
        // Nobody is behind himself.
        let beside = Beside::new("b", &b.iter().collect::<Vec<_>>(), &published);
        assert_eq!(beside.cells(false), " 100.0 % | – | – | – |");
    }
}
