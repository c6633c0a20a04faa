//! How fast bodies come on one connection a worker: `body_speed URL [SECONDS] [WORKERS] [CA]`.
//!
//! It reads a file again and again, keeps nothing, and prints the rate of all workers together. What it has
//! found is in docs/decisions/0008-http-client.md.

use std::io::Read as _;
use std::time::{Duration, Instant};

use tidegate_fetch::remote::servers::{ServerSettings, Servers};
use tidegate_fetch::remote::{Ask, Remotes as _};
use url::Url;

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default: u64| given.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let Some(url) = given.first().and_then(|text| Url::parse(text).ok()) else {
        eprintln!("usage: body_speed URL [SECONDS] [WORKERS] [CA]");
        std::process::exit(2);
    };
    let (time, workers) = (Duration::from_secs(number(1, 3)), number(2, 1));
    let servers =
        Servers::new(&ServerSettings { ca: given.get(3).map(Into::into), ..ServerSettings::default() });
    let start = Instant::now();
    let work = || {
        let (mut remote, mut buffer, mut bytes) = (servers.remote(), vec![0; 128 << 10], 0_u64);
        while start.elapsed() < time {
            let ask = Ask { url: &url, headers: &[], range: 0..u64::MAX, version: None };
            let mut body = remote.open(&ask).unwrap_or_else(|refusal| panic!("{}", refusal.error)).body;
            loop {
                match body.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => bytes += count as u64,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        bytes
    };
    let bytes: u64 = std::thread::scope(|scope| {
        let all: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        all.into_iter().map(|worker| worker.join().expect("no panic")).sum()
    });
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{workers} workers, {bytes} bytes in {seconds:.2} s: {:.2} Gbit/s",
        bytes as f64 * 8e-9 / seconds
    );
}
