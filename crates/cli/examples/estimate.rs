//! Tells how long so many bytes take: `cargo run --example estimate -- FROM TO 10GiB`. `tidegate` in the search path
//! samples.

use tidegate::{ByteCount, Estimate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, bytes] = &words[..] else { return Err("write FROM, TO and SIZE".into()) };
    let answer = Estimate::builder(from, to).bytes(bytes.parse::<ByteCount>()?).use_history().answer()?;
    let time = answer.time_ms.map_or("a time that is not known".to_owned(), |ms| format!("{ms} ms"));
    println!("{} streams, {time}: {}", answer.streams, answer.reason);
    Ok(())
}
