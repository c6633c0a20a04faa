//! Clients of many paths: most are known from history, the others are sampled while everybody asks. Told apart is how long
//! an answer took for the known ones, all the time and while anything was sampled, and for the others.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_control::{BitRate, ByteCount};
use tidegate_service::history::{Beside, Circumstances, Conditions, Method, Record, Sample, Timestamp};
use tidegate_spec::pair::Pair;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until, timeout};

use crate::Settings;
use crate::http::{ask, connect, request};

/// Paths, and how many of them are to be sampled.
const PATHS: usize = 200;
const UNKNOWN: usize = 20;

/// How long an answer may take: samples of other paths come first.
const PATIENCE: Duration = Duration::from_secs(300);

/// What was to be moved.
const BYTES: u64 = 10 << 30;

/// Writes a history to be imported, and what to ask. Unknown paths lead to one endpoint on the loopback under addresses of
/// their own, so that each is a path for itself.
pub fn prepare(directory: &Path, endpoint: &str) -> Result<bool, String> {
    let wrong = || {
        format!(
            "--endpoint {endpoint:?}: write tg://TICKET@127.0.0.1:PORT/, as `tidegate endpoint` prints it"
        )
    };
    let (ticket, place) =
        endpoint.strip_prefix("tg://").and_then(|rest| rest.split_once('@')).ok_or_else(wrong)?;
    let port = place.trim_end_matches('/').rsplit_once(':').ok_or_else(wrong)?.1;
    std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let (mut history, mut paths) = (String::new(), String::new());
    for i in 0..PATHS {
        let known = i >= UNKNOWN;
        let destination = match known {
            true => format!("tg://{ticket}@dtn{i}.example.org:{port}/x"),
            false => format!("tg://{ticket}@127.0.1.{}:{port}/x", i + 1),
        };
        let pair = Pair::of("/data", &destination).map_err(|error| error.to_string())?;
        for streams in [1, 2, 4, 8].into_iter().filter(|_| known) {
            let sample = Sample {
                pair: pair.clone(),
                method: Method::Native,
                streams,
                throughput: BitRate::mbps(u64::from(streams.min(4)) * 100),
                bytes: ByteCount::mib(50),
                duration: Duration::from_secs(1),
                circumstances: Circumstances {
                    conditions: Some(Conditions::default()),
                    beside: Some(Beside::default()),
                },
                at: Timestamp::now(),
            };
            let line = serde_json::to_string(&Record::from(sample)).map_err(|error| error.to_string())?;
            let _ = writeln!(history, "{line}");
        }
        let mut asked =
            json!({ "source": "/data", "destination": destination, "bytes": BYTES, "use_history": true });
        if !known {
            // What is sampled leaves the host to those who are answered.
            asked["limit_network"] = 10_000_000.into();
            asked["limit_link"] = 40_000_000.into();
        }
        let _ = writeln!(paths, "{}", json!({ "known": known, "request": asked }));
    }
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    write("history.jsonl", &history)?;
    write("paths.jsonl", &paths)?;
    Ok(true)
}

struct Question {
    known: bool,
    request: String,
}

fn questions(settings: &Settings) -> Result<Vec<Question>, String> {
    let Some(file) = &settings.paths else { return Ok(Vec::new()) };
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let line = |line: &str| {
        let value: Value =
            serde_json::from_str(line).map_err(|error| format!("{}: {error}", file.display()))?;
        let body = value["request"].to_string();
        let request = request(&settings.url, settings.token.as_deref(), Some(&body));
        Ok(Question { known: value["known"].as_bool().unwrap_or(false), request })
    };
    text.lines().map(line).collect()
}

/// An answer: when it was due, how long it took, and whether it was of a known path and the client's first one.
struct Answered {
    due: Duration,
    took: Duration,
    known: bool,
    first: bool,
}

/// Each client asks about its path, `rate` ÷ clients times a second, until time is over and the last one has its answer.
pub async fn run(settings: Settings) -> Result<bool, String> {
    let address = settings.url.socket_addrs(|| None).map_err(|error| format!("{}: {error}", settings.url))?;
    let address = *address.first().ok_or("no address")?;
    let questions = Arc::new(questions(&settings)?);
    if questions.is_empty() || settings.rate <= 0.0 {
        return Err("nothing to ask: --paths names an empty file, or --rate is 0".to_owned());
    }
    let answers = Arc::new(Mutex::new((Vec::<Answered>::new(), Vec::<String>::new())));
    let begun = Instant::now() + Duration::from_secs_f64(settings.connections as f64 / settings.ramp);
    // Clients ask one after the other, each as often as all of them make up the rate.
    let interval = settings.connections as f64 / settings.rate;
    let mut clients = tokio::task::JoinSet::new();
    for i in 0..settings.connections {
        let (questions, answers) = (Arc::clone(&questions), Arc::clone(&answers));
        let (place, seconds) = (i as f64 / settings.connections as f64, settings.seconds);
        clients.spawn(async move {
            let Question { known, request } = &questions[i % questions.len()];
            let mut asked = 0_u32;
            let mut line = connect(address).await.ok();
            loop {
                let offset = Duration::from_secs_f64(interval * (f64::from(asked) + place));
                if offset.as_secs_f64() >= seconds {
                    return;
                }
                let due = begun + offset;
                sleep_until(due).await;
                let ended = async {
                    let line = match &mut line {
                        Some(line) => line,
                        None => line.insert(connect(address).await?),
                    };
                    ask(line, request).await
                };
                let failed = match timeout(PATIENCE, ended).await {
                    Ok(Ok((200, _))) => None,
                    Ok(Ok((status, body))) => {
                        Some(format!("status {status}: {}", String::from_utf8_lossy(&body)))
                    }
                    Ok(Err(error)) => Some(error.to_string()),
                    Err(_) => Some("no answer in time".to_owned()),
                };
                let mut answers = answers.lock().await;
                match failed {
                    Some(why) => {
                        answers.1.push(why);
                        line = None;
                    }
                    None => {
                        let (took, first) = (due.elapsed(), asked == 0);
                        answers.0.push(Answered { due: offset, took, known: *known, first });
                    }
                }
                drop(answers);
                // What fell due while the client waited is not asked: it has its answer.
                let passed = begun.elapsed().as_secs_f64() / interval;
                asked = (asked + 1).max(passed as u32);
            }
        });
    }
    while clients.join_next().await.is_some() {}
    let (answers, failures) = &*answers.lock().await;
    // The last path that nobody knew is known from here on.
    let sampling = answers
        .iter()
        .filter(|one| !one.known && one.first)
        .map(|one| one.due + one.took)
        .max()
        .unwrap_or_default();
    let told = |of: &dyn Fn(&Answered) -> bool| {
        let mut took: Vec<f64> =
            answers.iter().filter(|one| of(one)).map(|one| one.took.as_secs_f64() * 1000.0).collect();
        took.sort_by(f64::total_cmp);
        let at =
            |share: f64| took.get((took.len().saturating_sub(1) as f64 * share).round() as usize).copied();
        json!({ "answered": took.len(), "median_ms": at(0.5), "p95_ms": at(0.95), "p99_ms": at(0.99), "worst_ms": at(1.0) })
    };
    println!(
        "{}",
        json!({
            "clients": settings.connections, "paths": questions.len(), "failed": failures.len(),
            "first_error": failures.first(), "sampling_s": sampling.as_secs_f64(),
            "known_while_sampling": told(&|one| one.known && one.due < sampling),
            "known": told(&|one| one.known),
            "unknown_first": told(&|one| !one.known && one.first),
        })
    );
    Ok(failures.is_empty())
}
