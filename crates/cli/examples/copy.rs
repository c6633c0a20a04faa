//! Copies FROM to TO, shows how it gets on, and says how it ended: `cargo run --example copy -- FROM TO`.

use std::time::Duration;

use tidegate::Transfer;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut paths = std::env::args_os().skip(1);
    let (Some(from), Some(to)) = (paths.next(), paths.next()) else { return Err("write FROM and TO".into()) };
    let running = Transfer::builder(from, to).optimizer("auto").start()?;
    while !running.has_ended(Duration::from_millis(500)) {
        if let Some(progress) = running.progress() {
            println!("{} at {} with {} streams", progress.bytes, progress.rate, progress.concurrency.network);
        }
    }
    let summary = running.wait()?;
    println!("{} files, {} bytes, verified: {}", summary.files.ok, summary.bytes, summary.verified);
    Ok(())
}
