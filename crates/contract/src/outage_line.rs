//! What a program says on standard error when an end of its transfer is away, which the service reads there.

/// Behind an error that comes of an end that is not reached.
const AWAY: &str = "; trying again for up to ";

/// Behind an error of an end that answered, and is waited for.
const WAITS: &str = "; waiting for up to ";

/// What a program waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage<'a> {
    /// The error.
    pub error: &'a str,
    /// Whether an end is not reached; otherwise it answered.
    pub is_away: bool,
}

/// The line of an outage that is outlived for so long, in words.
pub fn write(error: &str, is_away: bool, left: &str) -> String {
    format!("{error}{}{left}", if is_away { AWAY } else { WAITS })
}

/// The outage of a line; `None` if it is about something else.
pub fn read(line: &str) -> Option<Outage<'_>> {
    let find = |mark: &str, is_away: bool| {
        line.rsplit_once(mark).map(|(error, _)| Outage { error: error.trim(), is_away })
    };
    find(AWAY, true).or_else(|| find(WAITS, false)).filter(|outage| !outage.error.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_read_as_it_was_written() {
        for is_away in [true, false] {
            let line = write("cannot connect to h:1: refused", is_away, "30 seconds");
            let read_back = Some(Outage { error: "cannot connect to h:1: refused", is_away });
            assert_eq!(read(&line), read_back);
        }
        for other in ["", "a pipe is left out", "; trying again for up to 1 s", "x; trying again in 1 s"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
