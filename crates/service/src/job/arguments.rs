//! The `arguments` of a Stork job: `-b 128K -s 10M`, the buffer and the size of a sample.

use tidegate_control::ByteCount;

/// What the arguments ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// TCP buffer of each stream.
    pub buffer: Option<ByteCount>,
    /// Bytes moved for a sample.
    pub sample: Option<ByteCount>,
    /// What else stands there.
    pub rest: Vec<String>,
}

impl Arguments {
    /// Reads them; what is neither `-b` nor `-s` is kept in order.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut found = Self::default();
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            // They would be part of a pattern, which then excludes nothing.
            if word.contains(['\'', '"']) {
                return Err(format!(
                    "{word}: quotes mean nothing in arguments, whose words end at blanks: write --exclude=*.tmp without, and what has blanks in a job file of TOML"
                ));
            }
            let (option, joined) = match word.get(..2) {
                Some(option @ ("-b" | "-s")) => (option, &word[2..]),
                _ => {
                    found.rest.push(word.to_owned());
                    continue;
                }
            };
            let value = if joined.is_empty() { words.next() } else { Some(joined) };
            let value = value.ok_or_else(|| format!("{option} needs a size, such as {option} 128K"))?;
            let size =
                size(value).ok_or_else(|| format!("{option} {value}: not a size, such as 128K or 10M"))?;
            *(if option == "-b" { &mut found.buffer } else { &mut found.sample }) = Some(size);
        }
        Ok(found)
    }
}

/// A size as GridFTP's programs write it, in powers of 1024: `131072`, `128K`, `10M`, `1G`, or with a unit of ours.
fn size(text: &str) -> Option<ByteCount> {
    if let Ok(size) = text.parse::<ByteCount>() {
        return Some(size);
    }
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 10),
        b'm' | b'M' => (&text[..text.len() - 1], 20),
        b'g' | b'G' => (&text[..text.len() - 1], 30),
        b't' | b'T' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(1 << shift).map(ByteCount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_arguments_are_read() {
        let read = Arguments::parse("-b 128K -s 10M").expect("fine");
        assert_eq!(
            read,
            Arguments { buffer: Some(ByteCount::kib(128)), sample: Some(ByteCount::mib(10)), rest: vec![] }
        );
        let read = Arguments::parse("-b131072 -vb -s 1GiB -x y").expect("fine");
        assert_eq!((read.buffer, read.sample), (Some(ByteCount(131_072)), Some(ByteCount::gib(1))));
        assert_eq!(read.rest, ["-vb", "-x", "y"]);
        for bad in
            ["-b", "-s x", "-b 99999999999999999999", "-s 99999999999T", "-b -s 1", "--exclude='*.cfg'"]
        {
            assert!(Arguments::parse(bad).is_err(), "{bad}");
        }
    }
}
