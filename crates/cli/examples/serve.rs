//! Serves a directory until a line is read: `cargo run --example serve -- DIRECTORY`.

use tidegate::Endpoint;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::args_os().nth(1).ok_or("write DIRECTORY")?;
    let serving = Endpoint::builder(root).writable().start()?;
    println!("{}\nEnter ends it", serving.address());
    std::io::stdin().read_line(&mut String::new())?;
    serving.stop();
    Ok(())
}
