//! How many steps of one second each simulator takes in a second, on one core.
//!
//! `cargo bench -p tidegate-control --bench simulators` prints a table; `-- --json` prints JSON, and
//! `-- --write FILE` writes the table as a page (`make bench` keeps docs/results/simulators.md so).
//! Every step has another set-point, drawn beforehand, as in training.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tidegate_control::events::automdt::{self, Automdt};
use tidegate_control::events::ldm::{self, Ldm};
use tidegate_control::scenario::Staging;
use tidegate_control::{
    BitRate, ByteCount, Concurrency, Environment, Fluid, Path, PerStage, Rng, Scenario, Simulator,
    SimulatorOptions,
};

const SEED: u64 = 1;
/// Runs of each; the median counts.
const RUNS: usize = 9;
/// The least time of a run.
const LEAST: Duration = Duration::from_millis(200);

const READ: &str = include_str!("../../../scenarios/automdt-read.toml");

/// Everything that a path can have.
const EXTRAS: &str = r#"
name = "extras"
description = "AutoMDT's slow reader with every extra on"
read = { worker_rate = "80Mbit/s", max_workers = 30, ramp_up = "100ms", knee = { workers = 16, slope = 0.05 } }
network = { worker_rate = "160Mbit/s", max_workers = 30, knee = { workers = 24, slope = 0.05 } }
write = { worker_rate = "200Mbit/s", max_workers = 30, ramp_up = "50ms", knee = { workers = 16, slope = 0.05 } }
link = { rate = "1Gbit/s", rtt = "40ms", loss = 1e-7, surplus_loss = 0.01, ramp_rtts = 5 }
staging = { sender = "64MiB", receiver = "64MiB" }
noise = { throughput = 0.1 }
decision = { lag = "300ms" }
background = { streams = 2, bursts = { rate = "300Mbit/s", streams = 3, on = "10s", off = "20s" } }
[[timeline]]
at = "20s"
write.worker_rate = "150Mbit/s"
[[timeline]]
at = "40s"
background.streams = 0
"#;

struct Row {
    key: &'static str,
    what: &'static str,
    bar: f64,
    steps_per_second: f64,
}

/// Processor time of this thread, so that a busy neighbour does not count; the clock where Linux
/// does not tell.
#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn now(start: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let spent = told.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    spent.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

/// The median over the runs of steps a second; `step` is given the number of the step.
#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn measure(key: &'static str, what: &'static str, bar: f64, mut step: impl FnMut(usize)) -> Row {
    const BATCH: usize = 4096;
    let start = Instant::now();
    let mut rates: Vec<f64> = (0..=RUNS)
        .map(|_| {
            let (begin, mut steps) = (now(start), 0);
            loop {
                (0..BATCH).for_each(&mut step);
                steps += BATCH;
                let spent = now(start).saturating_sub(begin);
                if spent >= LEAST {
                    return steps as f64 / spent.as_secs_f64();
                }
            }
        })
        .skip(1) // while caches warm up
        .collect();
    rates.sort_by(f64::total_cmp);
    Row { key, what, bar, steps_per_second: rates[RUNS / 2] }
}

/// A scenario played in episodes of 60 epochs, one after the other.
fn episodes(scenario: &Scenario, setpoints: &[Concurrency]) -> impl FnMut(usize) {
    let options = SimulatorOptions::new(SEED, Duration::from_secs(1), 60);
    let mut simulator = Simulator::new(scenario.clone(), options);
    let mut seed = SEED;
    move |i| {
        let mut answer = simulator.step(black_box(setpoints[i % setpoints.len()]));
        if matches!(answer, Ok(None)) {
            seed += 1;
            simulator.reset(seed);
            answer = simulator.step(setpoints[i % setpoints.len()]);
        }
        black_box(&answer);
    }
}

fn rows() -> Result<Vec<Row>, String> {
    let scenario =
        |text| Scenario::from_toml(text).map_err(|error| format!("a scenario of the benchmark: {error}"));
    let ideal = scenario(READ)?.ideal();
    let extras = scenario(EXTRAS)?;
    let mut rng = Rng::new(SEED);
    let setpoints: Vec<Concurrency> = (0..256).map(|_| PerStage::from_fn(|_| rng.integer(1, 30))).collect();
    let streams: Vec<u16> = (0..256).map(|_| rng.integer(1, 100)).collect();

    let path = Path::at(&ideal, Duration::ZERO);
    let mut fluid = Fluid::new(path, ideal.staging);
    let staging = Staging { sender: ByteCount::gib(1), receiver: ByteCount::gib(1) };
    let rates = PerStage::new(80, 160, 200).map(BitRate::mbps);
    let mut automdt =
        Automdt::new(&automdt::AutomdtSettings::new(rates, PerStage::all(BitRate::mbps(1000)), staging));
    let ldm = |mbps, total| Ldm::new(&ldm::LdmSettings::new(BitRate::mbps(mbps), BitRate::mbps(total)), SEED);
    let mut ldm = ldm(500, 10_000);
    Ok(vec![
        measure("fluid", "fluid core (`Fluid::advance`)", 1e7, |i| {
            black_box(fluid.advance(black_box(setpoints[i % 256]), 1.0, f64::INFINITY));
        }),
        measure("step_ideal", "`Environment::step`, extras off", 1e7, episodes(&ideal, &setpoints)),
        measure("step_extras", "`Environment::step`, all extras on", 1e6, episodes(&extras, &setpoints)),
        measure("automdt_events", "AutoMDT's events, 1 to 30 threads a stage", 5e4, |i| {
            black_box(automdt.step(black_box(setpoints[i % 256])));
        }),
        measure("ldm_events", "LDM's events, 1 to 100 streams", 5e4, |i| {
            black_box(ldm.step(black_box(streams[i % 256])));
        }),
    ])
}

/// `12_345_678` as `12,345,678`.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from("| simulator | steps/s | bar |\n|---|---:|---:|\n");
    for row in rows {
        text += &format!("| {} | {} | {} |\n", row.what, grouped(row.steps_per_second), grouped(row.bar));
    }
    text
}

/// What the processor calls itself.
fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find(|line| line.starts_with("model name"));
    let name = model.and_then(|line| line.split(':').nth(1)).map(str::trim);
    name.unwrap_or(std::env::consts::ARCH).to_owned()
}

fn page(rows: &[Row]) -> String {
    format!(
        "# Speed of the simulators\n\n\
         One thread of {}; the median of {RUNS} runs of {} ms of processor time. A step is one second of simulated\n\
         time with a set-point of its own. What each simulator is: [docs/simulators.md](../simulators.md).\n\n\
         {}\n\
         The events have the published pause of 10 ms. The authors' own programs, in Python, took 57 to 2,880\n\
         steps a second when they were run by hand, once, on two such cores; this bench does not run them.\n\n\
         Written by `cargo bench -p tidegate-control --bench simulators -- --write docs/results/simulators.md`\n\
         in the root of the repository (part of `make bench`).\n",
        processor(),
        LEAST.as_millis(),
        table(rows)
    )
}

fn run() -> Result<(), String> {
    let (mut json, mut file) = (false, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--bench" => {} // cargo says so
            "--json" => json = true,
            "--write" => file = Some(arguments.next().ok_or("--write: name the file to write")?),
            other => return Err(format!("{other}: unknown; there are --json and --write FILE")),
        }
    }
    let rows = rows()?;
    if json {
        let values = rows.iter().map(|row| (row.key.to_owned(), row.steps_per_second.round().into()));
        let values: serde_json::Map<String, serde_json::Value> = values.collect();
        println!("{}", serde_json::json!({ "steps_per_second": values }));
    } else {
        print!("{}", table(&rows));
    }
    if let Some(file) = file {
        // Cargo starts a benchmark in its crate's directory; a name is meant from the root.
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(&file);
        std::fs::write(path, page(&rows)).map_err(|error| format!("{file}: cannot be written: {error}"))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("simulators: {message}");
            ExitCode::from(2)
        }
    }
}
