//! Which bytes of a file a request wants: the header `Range`.

use std::ops::Range;

/// Most ranges of one request.
const MAX_RANGES: usize = 64;

/// What a request wants of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of it; so does a header that makes no sense.
    Whole,
    /// These, in this order; none is empty.
    Ranges(Vec<Range<u64>>),
    /// Nothing that is there, or more ranges than are served.
    Unsatisfiable,
}

/// Reads `header`, for a file of `size` bytes.
pub(crate) fn wanted(header: &str, size: u64) -> Wanted {
    let Some((unit, list)) = header.split_once('=') else { return Wanted::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Wanted::Whole;
    }
    let mut ranges = Vec::new();
    let mut count = 0;
    for part in list.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        count += 1;
        if count > MAX_RANGES {
            return Wanted::Unsatisfiable;
        }
        let Some(range) = one(part, size) else { return Wanted::Whole };
        ranges.extend((!range.is_empty()).then_some(range));
    }
    match (count, ranges.is_empty()) {
        (0, _) => Wanted::Whole,
        (_, true) => Wanted::Unsatisfiable,
        // To send bytes twice and more helps nobody but who wants us to work.
        _ if ranges.len() > 1 && ranges.iter().map(|range| range.end - range.start).sum::<u64>() > size => {
            Wanted::Unsatisfiable
        }
        _ => Wanted::Ranges(ranges),
    }
}

/// One range, empty if nothing of it is there; `None` if it makes no sense.
fn one(part: &str, size: u64) -> Option<Range<u64>> {
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        // What is longer than any file is as good as its end.
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let (first, last) = part.split_once('-')?;
    let (first, last) = (first.trim(), last.trim());
    if first.is_empty() {
        return Some(size.saturating_sub(number(last)?)..size);
    }
    let first = number(first)?;
    let end = match last {
        "" => size,
        last => {
            let last = number(last)?;
            if last < first {
                return None;
            }
            last.saturating_add(1).min(size)
        }
    };
    Some(first.min(end)..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_are_what_rfc_9110_says() {
        let ranges = |list: &[Range<u64>]| Wanted::Ranges(list.to_vec());
        for (header, expected) in [
            ("bytes=0-0", ranges(&[0..1])),
            ("bytes=0-9", ranges(&[0..10])),
            ("bytes=5-", ranges(&[5..10])),
            ("bytes=-3", ranges(&[7..10])),
            ("bytes=-30", ranges(&[0..10])),
            ("bytes=8-99999999999999999999999", ranges(&[8..10])),
            ("Bytes = 1-2 , ,4-5", ranges(&[1..3, 4..6])),
            ("bytes=4-5,1-2", ranges(&[4..6, 1..3])),
            ("bytes=0-1,20-30", ranges(&[0..2])),
            ("bytes=10-", Wanted::Unsatisfiable),
            ("bytes=-0", Wanted::Unsatisfiable),
            ("bytes=0-8,0-8", Wanted::Unsatisfiable),
            ("bytes=", Wanted::Whole),
            ("bytes=2-1", Wanted::Whole),
            ("bytes=a-b", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("lines=1-2", Wanted::Whole),
            ("", Wanted::Whole),
        ] {
            assert_eq!(wanted(header, 10), expected, "{header}");
        }
        let many = format!("bytes={}", vec!["0-0"; MAX_RANGES + 1].join(","));
        assert_eq!(wanted(&many, 1 << 20), Wanted::Unsatisfiable);
        assert_eq!(wanted("bytes=0-", 0), Wanted::Unsatisfiable);
    }

    proptest! {
        #[test]
        fn whatever_is_asked_lies_in_the_file(header in "(bytes=)?[0-9,\\- a=]{0,40}", size: u64) {
            if let Wanted::Ranges(ranges) = wanted(&header, size) {
                prop_assert!(ranges.iter().all(|range| range.start < range.end && range.end <= size));
            }
        }
    }
}
