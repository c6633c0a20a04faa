//! The transfer log of `globus-gridftp-server`: one `FTP_INFO` line a command, as
//! `DATE=… HOST=… PROG=… NL.EVNT=FTP_INFO START=… USER=… FILE=… BUFFER=… BLOCK=… NBYTES=… VOLUME=… STREAMS=…
//! STRIPES=… DEST=[…] TYPE=… CODE=… TASKID=… retrans=…`.
//!
//! DATE is the end, in UTC. Only what moved a file's data is a transfer; listings and other events are not.

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use tidegate_contract::summary::Status;
use tidegate_control::{BitRate, ByteCount, PerStage};

use super::super::record::{Circumstances, Origin, Timestamp, Transfer};
use super::{Host, Sites};

/// Most streams of one transfer that are believed.
const MAX_STREAMS: u64 = 65_536;

/// The transfer a line tells of; none if it tells of something else.
pub fn transfer(line: &str, sites: &Sites) -> Result<Option<Transfer>, String> {
    if !line.split(' ').any(|word| word == "NL.EVNT=FTP_INFO") {
        return Ok(None);
    }
    // A file's name may hold blanks and anything that looks like a field: what stands before it is read from the
    // left, what stands behind it from the last field that always follows it.
    let behind = line.rfind(" BUFFER=").map_or("", |at| &line[at..]);
    let field = |name: &str| value(behind, name).ok_or_else(|| format!("has no {name}"));
    let is_sent = match field("TYPE")? {
        "RETR" | "ERET" => true,
        "STOR" | "ESTO" | "APPE" => false,
        _ => return Ok(None),
    };
    let before = line.find(" FILE=").map_or(line, |at| &line[..at]);
    let early = |name: &str| value(before, name).ok_or_else(|| format!("has no {name}"));
    let (start, end) = (moment("START", early("START")?)?, moment("DATE", early("DATE")?)?);
    let duration = u64::try_from(end - start).map_err(|_| "ends before it starts".to_owned())?;
    let duration = Duration::from_micros(duration);
    let bytes = ByteCount(number("NBYTES", field("NBYTES")?)?);
    let streams = number("STREAMS", field("STREAMS")?)?.max(1);
    let stripes = value(behind, "STRIPES").map_or(Ok(1), |text| number("STRIPES", text))?.max(1);
    let streams = streams.saturating_mul(stripes);
    if streams > MAX_STREAMS {
        return Err(format!("has {streams} streams, which nobody has"));
    }
    let code = number("CODE", field("CODE")?)?;
    let here = Host::Named(early("HOST")?);
    let peer = field("DEST")?;
    let peer = Host::Named(peer.strip_prefix('[').and_then(|peer| peer.strip_suffix(']')).unwrap_or(peer));
    let pair = if is_sent { sites.pair("gsiftp", &here, &peer) } else { sites.pair("gsiftp", &peer, &here) }?;
    let is_complete = (200..300).contains(&code);
    Ok(Some(Transfer {
        pair,
        origin: Origin::GridftpLog,
        job: None,
        bytes,
        files: u64::from(is_complete),
        concurrency: PerStage::new(None, Some(streams as f64), None),
        optimizer: None,
        goodput: BitRate::over(bytes, duration),
        duration,
        loss: None,
        rtt: None,
        retransmits: retransmits(value(behind, "retrans")),
        outcome: if is_complete { Status::Complete } else { Status::Failed },
        reason: (!is_complete).then(|| format!("FTP reply {code}")),
        circumstances: Circumstances::default(),
        at: Timestamp(end / 1000),
    }))
}

/// The value of ` name=value`.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split(' ')
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        .filter(|value| !value.is_empty())
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{name} is no number of 0 or more: {}", text.escape_debug()))
}

/// All streams' retransmitted segments; old servers tell of none.
fn retransmits(list: Option<&str>) -> Option<u64> {
    list?.split(',').map(|number| number.parse::<u64>().ok()).try_fold(0u64, |sum, n| sum.checked_add(n?))
}

/// `YYYYMMDDhhmmss.ffffff` in UTC, as microseconds since 1970.
fn moment(name: &str, text: &str) -> Result<i64, String> {
    let read = || {
        let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if seconds.len() != 14 || !digits(seconds) || !digits(fraction) || fraction.len() > 9 {
            return None;
        }
        let part = |from: usize, to: usize| seconds[from..to].parse::<i16>().ok();
        let small = |from: usize| i8::try_from(part(from, from + 2)?).ok();
        let moment =
            DateTime::new(part(0, 4)?, small(4)?, small(6)?, small(8)?, small(10)?, small(12)?, 0).ok()?;
        let whole = moment.to_zoned(TimeZone::UTC).ok()?.timestamp().as_microsecond();
        let micros = format!("{fraction:0<6}")[..6].parse::<i64>().ok()?;
        Some(whole + micros).filter(|moment| *moment >= 0)
    };
    read().ok_or_else(|| format!("{name} is no date: {}", text.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "DATE=20261121051342.374301 HOST=dtn1 PROG=globus-gridftp-server NL.EVNT=FTP_INFO \
        START=20261121051342.083139 USER=anonymous FILE=/data/a.bin BUFFER=131072 BLOCK=262144 NBYTES=50000000 \
        VOLUME=/ STREAMS=4 STRIPES=1 DEST=[192.0.2.7] TYPE=RETR CODE=226 TASKID=none retrans=0,1,1,0";

    fn read(line: &str) -> Result<Option<Transfer>, String> {
        transfer(line, &Sites::default())
    }

    #[test]
    fn a_line_of_a_server_is_a_transfer() {
        let seen = read(LINE).expect("read").expect("a transfer");
        assert_eq!(seen.pair.to_string(), "gsiftp://dtn1 → gsiftp://192.0.2.7");
        assert_eq!(seen.at.to_string(), "2026-11-21T05:13:42.374Z");
        assert_eq!(seen.duration, Duration::from_micros(291_162));
        assert_eq!((seen.bytes.0, seen.goodput.0), (50_000_000, 1_373_805_648));
        assert_eq!((seen.concurrency.network, seen.retransmits), (Some(4.0), Some(2)));
        assert_eq!((seen.outcome, seen.files), (Status::Complete, 1));
        let stored = read(&LINE.replace("RETR", "STOR")).expect("read").expect("a transfer");
        assert_eq!(stored.pair.to_string(), "gsiftp://192.0.2.7 → gsiftp://dtn1");
        let six = read(&LINE.replace("192.0.2.7", "2001:db8::7")).expect("read").expect("a transfer");
        assert_eq!(six.pair.destination.as_str(), "gsiftp://[2001:db8::7]");
        let old = LINE.replace(" TASKID=none retrans=0,1,1,0", "");
        assert_eq!(read(&old).expect("read").expect("a transfer").retransmits, None);
        let failed = read(&LINE.replace("CODE=226", "CODE=426")).expect("read").expect("a transfer");
        assert_eq!((failed.outcome, failed.reason.as_deref()), (Status::Failed, Some("FTP reply 426")));
    }

    #[test]
    fn the_name_of_a_file_cannot_lie() {
        let name = "/a b NBYTES=1 BUFFER=1 TYPE=LIST DATE=19700101000000.0 DEST=[6.6.6.6]";
        let seen = read(&LINE.replace("/data/a.bin", name)).expect("read").expect("a transfer");
        assert_eq!(Some(seen), read(LINE).expect("read"));
    }

    #[test]
    fn hosts_get_the_names_that_jobs_use() {
        let site = |text: &str| text.parse().expect("a site");
        let by_host = [("dtn1", "tg://dtn1.example.org:7700"), ("192.0.2.7", "local")];
        let by_host = by_host.map(|(host, name)| (host.to_owned(), site(name))).into();
        let sites = Sites { by_host, ..Sites::default() };
        let seen = transfer(LINE, &sites).expect("read").expect("a transfer");
        assert_eq!(seen.pair.to_string(), "tg://dtn1.example.org:7700 → local");
        let sites = Sites { destination: Some(site("s3://b")), ..sites };
        let seen = transfer(LINE, &sites).expect("read").expect("a transfer");
        assert_eq!(seen.pair.to_string(), "tg://dtn1.example.org:7700 → s3://b");
    }

    #[test]
    fn what_is_no_transfer_is_left_out_and_what_is_broken_is_told() {
        for line in [
            "",
            "[77] Sat Nov 21 05:13:42 2026 :: Server started in daemon mode.",
            &LINE.replace("RETR", "MLSD"),
        ] {
            assert_eq!(read(line), Ok(None), "{line}");
        }
        for (from, to, why) in [
            ("NBYTES=50000000", "NBYTES=-1", "NBYTES is no number of 0 or more: -1"),
            ("NBYTES=50000000 ", "", "has no NBYTES"),
            ("STREAMS=4", "STREAMS=99999999999999999999", "STREAMS is no number"),
            ("STREAMS=4", "STREAMS=9999999", "9999999 streams"),
            ("DATE=20261121051342", "DATE=20261321051342", "DATE is no date"),
            ("DATE=2026112", "DATE=é026112", "DATE is no date"),
            ("DATE=2026", "DATE=2025", "ends before it starts"),
            (" BUFFER=131072", "", "has no TYPE"),
            ("HOST=dtn1 ", "", "has no HOST"),
            ("DEST=[192.0.2.7]", "DEST=[]", "no host"),
        ] {
            let error = read(&LINE.replace(from, to)).expect_err(to);
            assert!(error.contains(why), "{to}: {error}");
        }
        for end in (0..LINE.len()).filter(|&end| LINE.is_char_boundary(end)) {
            let _ = read(&LINE[..end]);
        }
    }
}
