//! Puts a path to s3://bucket/prefix/ or https://host/directory/: `cargo run --example put -- PATH URL`.

use tidegate::{BitRate, Put};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(path), Some(url)) = (words.next(), words.next()) else {
        return Err("write PATH and URL".into());
    };
    let summary = Put::builder(path, url).limit(BitRate::mbps(800)).start()?.wait()?;
    println!("{} files are there, verified: {}", summary.files.ok, summary.verified);
    Ok(())
}
