//! What a directory costs that many files were verified in: `cargo run --release -p tidegate-transfer --example catalogue`.
//!
//! Remembers RECORDS files (10,000,000 unless told), a thousand a directory, and says how long it takes to open what is
//! remembered, to look one file up and to remember one more, and with how much memory.

use std::os::unix::ffi::OsStrExt as _;
use std::time::Instant;

use tidegate_transfer::catalogue::{Catalogues, Verified};
use tidegate_transfer::manifest::Timestamp;
use tidegate_transfer::sys::confined::Root;

const TOGETHER: u64 = 512;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let records: u64 = std::env::args().nth(1).map_or(Ok(10_000_000), |number| number.parse())?;
    let state = tempfile::tempdir()?;
    let catalogues = || -> Result<Catalogues, Box<dyn std::error::Error>> {
        Ok(Catalogues::new(&Root::open(state.path().as_os_str().as_bytes()).map_err(std::io::Error::from)?)?)
    };
    let path = |number: u64| format!("run{:05}/part-{number:08}.fastq.gz", number / 1000);
    let verified = |size| Verified { size, mtime: Timestamp::default(), root: [7; 32] };

    let began = Instant::now();
    {
        let catalogues = catalogues()?;
        let catalogue = catalogues.of(b"server").ok_or("somebody else has it")?;
        for first in (0..records).step_by(TOGETHER as usize) {
            let paths: Vec<_> = (first..records.min(first + TOGETHER)).map(|n| (path(n), n)).collect();
            let files = paths.iter().map(|(path, size)| (path.as_bytes(), verified(*size)));
            catalogue.lock().put(files)?;
        }
    }
    let took = began.elapsed();
    println!(
        "remembered  {records} files in {:.1} s, {:.1} µs each",
        took.as_secs_f64(),
        took.as_secs_f64() * 1e6 / records as f64
    );
    let on_disk: u64 = std::fs::read_dir(state.path().join("catalogue"))?
        .map(|entry| entry.and_then(|entry| entry.metadata()).map(|metadata| metadata.len()))
        .sum::<Result<u64, _>>()?;
    println!("on disk     {:.1} MB, {:.1} B a file", on_disk as f64 / 1e6, on_disk as f64 / records as f64);

    let before = resident()?;
    let (mut opens, mut gets, mut puts) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..21 {
        let catalogues = catalogues()?;
        let began = Instant::now();
        let catalogue = catalogues.of(b"server").ok_or("somebody else has it")?;
        opens.push(began.elapsed());
        let mut catalogue = catalogue.lock();
        let number = records / 22 * round;
        let began = Instant::now();
        assert!(catalogue.get(path(number).as_bytes()).is_some_and(|found| found.size == number));
        gets.push(began.elapsed());
        let began = Instant::now();
        catalogue.put(std::iter::once((&b"one more"[..], verified(round))))?;
        puts.push(began.elapsed());
        if round == 0 {
            println!(
                "memory      {:.1} MB more with it open",
                (resident()?.saturating_sub(before)) as f64 / 1e6
            );
        }
    }
    for (what, mut times) in [("open", opens), ("look up", gets), ("put", puts)] {
        times.sort_unstable();
        println!(
            "{what:11} {:.3} ms in the median of {}",
            times[times.len() / 2].as_secs_f64() * 1e3,
            times.len()
        );
    }

    let catalogues = catalogues()?;
    let catalogue = catalogues.of(b"server").ok_or("somebody else has it")?;
    let listed = records.min(300_000);
    let paths: Vec<_> = (0..listed).map(path).collect();
    let began = Instant::now();
    let found = paths.chunks(TOGETHER as usize).map(|some| {
        let known = catalogue.lock().get_all(some.iter().map(String::as_bytes));
        known.iter().flatten().count() as u64
    });
    assert_eq!(found.sum::<u64>(), listed);
    println!("a listing   {listed} files looked up in {:.0} ms", began.elapsed().as_secs_f64() * 1e3);
    Ok(())
}

/// Bytes of memory that this process has now.
fn resident() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).ok_or("no number")?.parse::<u64>()? * 1024)
}
