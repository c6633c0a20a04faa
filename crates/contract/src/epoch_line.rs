//! An epoch as a line of JSON, in the logs of runs and between a program and the service that follows it.

use tidegate_control::Epoch;

/// The longest line that is read, in bytes; an epoch takes some 500.
pub const MAX_LINE: usize = 64 << 10;

/// An epoch in one line, without the line's end.
pub fn write(epoch: &Epoch) -> String {
    serde_json::to_string(epoch).expect("epochs are plain data")
}

/// The epoch of a line; `None` if the line is cut, too long, or about something else.
pub fn read(line: &[u8]) -> Option<Epoch> {
    if line.len() > MAX_LINE {
        return None;
    }
    serde_json::from_slice(line).ok()
}

/// The epochs of a file that grows, from its bytes in whatever pieces they come.
#[derive(Clone, Debug, Default)]
pub struct EpochReader {
    line: Vec<u8>,
    /// Whether the line in hand is longer than any, and is left out.
    too_long: bool,
}

impl EpochReader {
    /// Takes in the next bytes, and hands on each epoch whose line they end.
    pub fn take_in(&mut self, bytes: &[u8], mut hear: impl FnMut(Epoch)) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (text, is_ended) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            self.too_long |= self.line.len() + text.len() > MAX_LINE;
            if !self.too_long {
                self.line.extend_from_slice(text);
            }
            if is_ended {
                if let (false, Some(epoch)) = (self.too_long, read(&self.line)) {
                    hear(epoch);
                }
                self.line.clear();
                self.too_long = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"t_ms":2000,"interval_ms":1000,"concurrency":{"read":1,"network":2,"write":3},"setpoint":{"read":2,"network":4,"write":6},"throughput_bps":{"read":8,"network":7,"write":6},"staging_free_bytes":{"sender":10,"receiver":20},"staging_capacity_bytes":{"sender":30,"receiver":40},"remaining_bytes":50,"arrived":null,"loss":0.25,"rtt_us":400,"cpu":{"sender":null,"receiver":null},"utility":1.5}"#;

    #[test]
    fn a_line_is_read_and_written_as_it_was() {
        let epoch = read(LINE.as_bytes()).expect("an epoch");
        assert_eq!((epoch.t_ms, epoch.setpoint.network), (2000, 4));
        let written = write(&epoch);
        assert_eq!(written, LINE);
        assert_eq!(read(written.as_bytes()), Some(epoch));
        assert_eq!(read(&LINE.as_bytes()[..100]), None);
    }

    #[test]
    fn a_growing_file_is_read_in_any_pieces() {
        let long = format!("\"{}\"", "x".repeat(MAX_LINE));
        let text = format!("{LINE}\nno epoch\n{long}\n{LINE}\n{}", &LINE[..50]);
        for size in [1, 7, 4096, text.len()] {
            let (mut reader, mut heard) = (EpochReader::default(), 0);
            text.as_bytes().chunks(size).for_each(|piece| reader.take_in(piece, |_| heard += 1));
            assert_eq!(heard, 2, "pieces of {size}");
            reader.take_in(&LINE.as_bytes()[50..], |_| heard += 1);
            reader.take_in(b"\n", |_| heard += 1);
            assert_eq!(heard, 3, "pieces of {size}");
        }
    }
}
