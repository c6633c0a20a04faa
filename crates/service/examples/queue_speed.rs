//! How quick the queue is: `cargo run --release -p tidegate-service --example queue_speed [DIRECTORY]`.
//!
//! Submits a hundred thousand jobs in batches, each acknowledged after it is on disk, and then times pages and
//! cancellations among them. Prints a Markdown table.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tidegate_service::job::{Event, JobId, Request};
use tidegate_service::queue::{Note, Queue};

const JOBS: usize = 100_000;
const BATCH: usize = 1000;
const TIMES: usize = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let own = tempfile::tempdir()?;
    let directory = std::env::args_os().nth(1).map_or_else(|| own.path().to_owned(), PathBuf::from);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let queue = Queue::open(&directory.join("queue")).await?;
        let begun = Instant::now();
        let mut ids: Vec<JobId> = Vec::new();
        for batch in 0..JOBS / BATCH {
            let request = |i: usize| {
                let to = format!("tg://host{}.example.org/data/{batch}/{i}", i % 20);
                Request { priority: (i % 7) as i32, ..Request::transfer(format!("/data/{batch}/{i}"), to) }
            };
            let requests: Vec<Request> = (0..BATCH).map(request).collect();
            ids.extend(queue.submit(&requests, 1).await?);
        }
        let time = begun.elapsed();
        println!("| what | figure |\n|---|---|");
        println!(
            "| jobs submitted in batches of {BATCH} | {JOBS} in {:.1} s: {:.0}/s |",
            time.as_secs_f64(),
            JOBS as f64 / time.as_secs_f64()
        );
        let mut pages = Vec::new();
        let mut nexts = Vec::new();
        let mut cancels = Vec::new();
        for i in 0..TIMES {
            let id = ids[i * (JOBS / TIMES)];
            let begun = Instant::now();
            let page = queue.page(&[], Some(id), 100).await?;
            pages.push(begun.elapsed());
            assert!(page.len() <= 100);
            let begun = Instant::now();
            queue.next().await?;
            nexts.push(begun.elapsed());
            let begun = Instant::now();
            queue.change(id, Event::Cancel, &Note::why("measured"), 2).await?;
            cancels.push(begun.elapsed());
        }
        for (what, times) in [
            ("a page of 100", pages),
            ("who is next among 20 pairs", nexts),
            ("a cancellation, on disk", cancels),
        ] {
            println!("| {what} | {} |", shown(times));
        }
        let status = std::fs::read_to_string("/proc/self/status")?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        println!("| most memory resident | {} |", resident.trim());
        Ok(())
    })
}

fn shown(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0;
    format!("median {:.1} ms, p99 {:.1} ms, most {:.1} ms", at(0.5), at(0.99), at(1.0))
}
