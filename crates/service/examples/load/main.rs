//! Loads an HTTP service with requests at a fixed rate over many open connections, and tells how long answers
//! took. The loop is open: a request counts from the moment it was due, so a service that falls behind is not
//! asked less for it.
//!
//! `cargo run --release -p tidegate-service --example load -- --url http://127.0.0.1:7800/healthz`
//!
//! With `--paths` there are clients of many paths, some of which are to be sampled meanwhile: see `paths.rs`.

mod http;
mod paths;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep_until, timeout};
use url::Url;

use http::{Line, PATIENCE, ask, connect, request};

const USAGE: &str = "load --url URL [--token TOKEN] [--body JSON] [--connections N] [--rate REQUESTS/s] \
                     [--ramp CONNECTIONS/s] [--seconds S]; 0 requests/s: each connection asks once\n\
                     load --url URL/api/v1/estimates --paths FILE [--token TOKEN] [--connections N] [--rate REQUESTS/s]\n\
                     load --prepare DIRECTORY --endpoint tg://TICKET@HOST:PORT/";

struct Settings {
    url: Url,
    token: Option<String>,
    body: Option<String>,
    connections: usize,
    rate: f64,
    ramp: f64,
    seconds: f64,
    /// What many clients ask, a path a line.
    paths: Option<PathBuf>,
    /// Where such a file and a history are to be written, and for which endpoint.
    prepare: Option<PathBuf>,
    endpoint: String,
}

fn settings() -> Result<Settings, String> {
    let mut found = Settings {
        url: Url::parse("http://127.0.0.1/").map_err(|error| error.to_string())?,
        token: std::env::var("TIDEGATE_TOKEN").ok(),
        body: None,
        connections: 1000,
        rate: 2000.0,
        ramp: 1000.0,
        seconds: 30.0,
        paths: None,
        prepare: None,
        endpoint: String::new(),
    };
    let mut given = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<f64>().map_err(|_| format!("{name}: {value} is no number"));
        match name.as_str() {
            "--url" => (found.url, given) = (Url::parse(&value).map_err(|e| format!("{value}: {e}"))?, true),
            "--token" => found.token = Some(value),
            "--body" => found.body = Some(value),
            "--connections" => found.connections = number()? as usize,
            "--rate" => found.rate = number()?,
            "--ramp" => found.ramp = number()?,
            "--seconds" => found.seconds = number()?,
            "--paths" => found.paths = Some(value.into()),
            "--prepare" => (found.prepare, given) = (Some(value.into()), true),
            "--endpoint" => found.endpoint = value,
            _ => return Err(format!("{name} is not known")),
        }
    }
    if given { Ok(found) } else { Err("--url is missing".to_owned()) }
}

#[derive(Default)]
struct Tally {
    answered: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    unconnected: AtomicU64,
    latencies_us: Mutex<Vec<u64>>,
    first_error: Mutex<Option<String>>,
}

impl Tally {
    async fn fail(&self, counter: &AtomicU64, error: impl ToString) {
        counter.fetch_add(1, Relaxed);
        let error = error.to_string();
        self.first_error.lock().await.get_or_insert(error);
    }

    async fn asked(&self, line: &mut Line, request: &str, due: Instant) -> bool {
        match timeout(PATIENCE, ask(line, request)).await {
            Ok(Ok((status, _))) if (200..300).contains(&status) => {
                self.answered.fetch_add(1, Relaxed);
                self.latencies_us.lock().await.push(due.elapsed().as_micros() as u64);
                true
            }
            Ok(Ok((status, _))) => {
                self.fail(&self.refused, format!("status {status}")).await;
                true
            }
            Ok(Err(error)) => {
                self.fail(&self.failed, error).await;
                false
            }
            Err(_) => {
                self.fail(&self.failed, "no answer in time").await;
                false
            }
        }
    }
}

async fn run(settings: Settings) -> Result<bool, String> {
    let address = settings.url.socket_addrs(|| None).map_err(|error| format!("{}: {error}", settings.url))?;
    let address = *address.first().ok_or("no address")?;
    let tally = Arc::new(Tally::default());
    let request = request(&settings.url, settings.token.as_deref(), settings.body.as_deref());
    let request: Arc<str> = request.into();
    // Connections that are free; a request takes the one that has been free the longest.
    let (free, mut waiting) = mpsc::channel::<Line>(settings.connections.max(1));
    let begun = Instant::now();
    let mut opening = Vec::new();
    for i in 0..settings.connections {
        let (tally, free, request) = (Arc::clone(&tally), free.clone(), Arc::clone(&request));
        let due = begun + Duration::from_secs_f64(i as f64 / settings.ramp);
        let once = settings.rate <= 0.0;
        opening.push(tokio::spawn(async move {
            sleep_until(due).await;
            match connect(address).await {
                Ok(mut line) => {
                    if once {
                        tally.asked(&mut line, &request, due).await;
                    }
                    let _ = free.send(line).await;
                }
                Err(error) => tally.fail(&tally.unconnected, error).await,
            }
        }));
    }
    for each in opening {
        each.await.map_err(|error| error.to_string())?;
    }
    let open = settings.connections as u64 - tally.unconnected.load(Relaxed);
    let begun = Instant::now();
    let wanted = (settings.rate * settings.seconds) as u64;
    let mut asking = tokio::task::JoinSet::new();
    for i in 0..wanted {
        let due = begun + Duration::from_secs_f64(i as f64 / settings.rate);
        sleep_until(due).await;
        let Ok(Some(mut line)) = timeout(PATIENCE, waiting.recv()).await else {
            tally.fail(&tally.failed, "no free connection").await;
            break;
        };
        let (tally, free, request) = (Arc::clone(&tally), free.clone(), Arc::clone(&request));
        asking.spawn(async move {
            let line = match tally.asked(&mut line, &request, due).await {
                true => Some(line),
                false => connect(address).await.ok(),
            };
            if let Some(line) = line {
                let _ = free.send(line).await;
            }
        });
        while asking.try_join_next().is_some() {}
    }
    while asking.join_next().await.is_some() {}
    let seconds = begun.elapsed().as_secs_f64();
    let mut latencies = tally.latencies_us.lock().await.clone();
    latencies.sort_unstable();
    let at = |share: f64| {
        let last = latencies.len().saturating_sub(1);
        latencies.get((last as f64 * share).round() as usize).map_or(0.0, |&us| us as f64 / 1000.0)
    };
    let [answered, refused, failed, unconnected] =
        [&tally.answered, &tally.refused, &tally.failed, &tally.unconnected].map(|count| count.load(Relaxed));
    println!(
        "{}",
        serde_json::json!({
            "connections": open, "unconnected": unconnected, "answered": answered, "refused": refused,
            "failed": failed, "seconds": seconds, "rate_per_s": wanted as f64 / seconds.max(1e-9),
            "median_ms": at(0.5), "p90_ms": at(0.9), "p99_ms": at(0.99), "worst_ms": at(1.0),
            "first_error": *tally.first_error.lock().await,
        })
    );
    Ok(refused + failed + unconnected == 0)
}

#[tokio::main]
async fn main() -> ExitCode {
    let ran = match settings() {
        Ok(Settings { prepare: Some(directory), endpoint, .. }) => paths::prepare(&directory, &endpoint),
        Ok(settings) if settings.paths.is_some() => paths::run(settings).await,
        Ok(settings) => run(settings).await,
        Err(error) => Err(format!("{error}\n{USAGE}")),
    };
    match ran {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
