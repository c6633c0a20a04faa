//! A process that submits, claims and completes is killed in the midst of it, again and again: what was
//! acknowledged is there, and what was completed stays so and is never begun again.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tidegate_control::Rng;
use tidegate_service::job::{Event, JobId, Request, State};
use tidegate_service::queue::{Note, Queue, QueueError};

/// Tells the process that is to be killed where its queue is.
const DIRECTORY: &str = "TIDEGATE_TEST_QUEUE";

/// Not a test by itself: the process that the test below kills. Does nothing when nobody asked for it.
#[test]
fn worker() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(work(Path::new(&directory)));
}

/// Says so only once it is so; the reader may be the last to know.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "\n@{line}").and_then(|()| out.flush());
}

async fn work(directory: &Path) {
    let queue = Queue::open(directory).await.expect("opened");
    for (id, state) in queue.recover(1).await.expect("recovered") {
        assert_eq!(state, State::Queued);
        say(&format!("recovered {id}"));
    }
    let submitting = async {
        for batch in 0.. {
            let name = |i: usize| format!("{}-{batch}-{i}", std::process::id());
            let request = |i| Request { name: Some(name(i)), ..Request::transfer("/a", "tg://h/b") };
            let requests: Vec<Request> = (0..1 + batch % 5).map(request).collect();
            for (id, request) in queue.submit(&requests, 1).await.expect("taken").into_iter().zip(&requests) {
                say(&format!("submitted {id} {}", request.name.as_deref().unwrap_or_default()));
            }
        }
    };
    let completing = async {
        loop {
            let Some(next) = queue.next().await.expect("read").into_iter().next() else {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            };
            match queue.change(next.id, Event::Claimed, &Note::default(), 2).await {
                Ok(_) => say(&format!("claimed {}", next.id)),
                Err(QueueError::Illegal(..)) => continue,
                Err(error) => panic!("{error}"),
            }
            queue.change(next.id, Event::Completed, &Note::default(), 3).await.expect("completed");
            say(&format!("completed {}", next.id));
        }
    };
    tokio::join!(submitting, completing, async {
        // Two at once contend for the same jobs.
        loop {
            for next in queue.next().await.expect("read") {
                if queue.change(next.id, Event::Claimed, &Note::default(), 2).await.is_ok() {
                    say(&format!("claimed {}", next.id));
                    queue.change(next.id, Event::Completed, &Note::default(), 3).await.expect("completed");
                    say(&format!("completed {}", next.id));
                }
            }
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_completed_twice() {
    let rounds = if testkit::is_long() { 100 } else { 8 };
    let seed = std::env::var("TIDEGATE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7_u64);
    eprintln!("seed {seed}");
    let directory = tempfile::tempdir().expect("a directory");
    let mut random = Rng::new(seed);
    let mut submitted: HashMap<u64, String> = HashMap::new();
    let mut completed = HashSet::new();
    let mut kills_in_midst = 0;
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "queue_crash::worker", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let lines_until_kill = 1 + random.below(150);
        let mut claimed = HashSet::new();
        let mut seen = 0;
        let out = BufReader::new(child.stdout.take().expect("piped"));
        for line in out.lines().map_while(Result::ok) {
            let Some(line) = line.strip_prefix('@') else { continue };
            let words: Vec<&str> = line.split(' ').collect();
            // The last line may be cut.
            let Some(id) = words.get(1).and_then(|word| word.parse::<u64>().ok()) else { continue };
            match words[0] {
                "submitted" if words.len() == 3 => {
                    assert_eq!(
                        submitted.insert(id, words[2].to_owned()),
                        None,
                        "round {round}: a number given twice"
                    );
                }
                "claimed" => {
                    assert!(!completed.contains(&id), "round {round}: job {id} begun after it was completed");
                    assert!(claimed.insert(id), "round {round}: job {id} claimed twice");
                }
                "completed" => assert!(completed.insert(id), "round {round}: job {id} completed twice"),
                "recovered" => {
                    assert!(!completed.contains(&id), "round {round}: job {id} came back");
                    kills_in_midst += 1;
                }
                _ => {}
            }
            seen += 1;
            if seen == lines_until_kill {
                child.kill().expect("killed");
            }
        }
        let status = child.wait().expect("waited");
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9),
            "round {round}: {status}"
        );
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let queue = Queue::open(directory.path()).await.expect("opened");
        for (id, name) in &submitted {
            let job = queue.get(JobId::new(*id).expect("a number")).await.expect("read").expect("not lost");
            assert_eq!(job.request.name.as_ref(), Some(name), "job {id}");
            assert!(!completed.contains(id) || job.state == State::Done, "job {id} is {}", job.state);
        }
    });
    eprintln!("{} submitted, {} completed, {kills_in_midst} in the midst", submitted.len(), completed.len());
    assert!(!completed.is_empty() && submitted.len() > rounds);
}
