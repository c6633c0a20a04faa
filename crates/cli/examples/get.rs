//! Gets an accession or a URL into a directory: `cargo run --example get -- NAME DIRECTORY`.

use tidegate::Get;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(name), Some(directory)) = (words.next(), words.next()) else {
        return Err("write NAME and DIRECTORY".into());
    };
    let summary = Get::builder(name, directory).start()?.wait()?;
    println!("{} files are there, {} were there before", summary.files.ok, summary.files.skipped);
    Ok(())
}
