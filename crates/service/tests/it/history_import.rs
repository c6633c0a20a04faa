//! Importing logs, benchmarks and exports: what they give, and what garbage does not do.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_contract::summary::Status;
use tidegate_control::{BitRate, ByteCount, PerStage};
use tidegate_service::history::import::{Import, ImportFormat, Sites};
use tidegate_service::history::{
    Basis, Beside, Blocking, Circumstances, Conditions, Decision, Estimate, Kind, Method, Origin, Page,
    Point, Query, Record, Sample, Timestamp, Transfer, csv,
};
use tidegate_spec::pair::{Pair, Site};

const NOW: Timestamp = Timestamp(1_795_300_000_000);

/// The records of a file, and its bad lines.
fn import(text: &[u8], format: Option<ImportFormat>, sites: Sites) -> (Vec<Record>, Vec<(u64, String)>) {
    let mut import = Import::new(text, format, sites, NOW).expect("memory, of a known format");
    let (mut records, mut bad) = (Vec::new(), Vec::new());
    while let Some(item) = import.next_item().expect("memory") {
        match item.found {
            Ok(found) => records.extend(found),
            Err(why) => bad.push((item.line, why)),
        }
    }
    (records, bad)
}

fn site(text: &str) -> Site {
    text.parse().expect("a site")
}

/// A line of a server's log: `streams` streams at `mbps` for 10 s that end at `second` of a certain minute.
fn logged(streams: u32, mbps: u64, minute: u32) -> String {
    format!(
        "DATE=202611210{}{:02}10.000000 HOST=dtn1 PROG=globus-gridftp-server NL.EVNT=FTP_INFO \
         START=202611210{}{:02}00.000000 USER=u FILE=/data/a b BUFFER=131072 BLOCK=262144 NBYTES={} VOLUME=/ \
         STREAMS={streams} STRIPES=1 DEST=[192.0.2.7] TYPE=RETR CODE=226 TASKID=none retrans=0\n",
        minute / 60,
        minute % 60,
        minute / 60,
        minute % 60,
        mbps * 1_250_000
    )
}

#[test]
fn a_log_warms_a_path() {
    let mut log = "[77] Server started in daemon mode.\n\n".to_owned();
    for (minute, (streams, mbps)) in
        [(1, 100), (2, 190), (4, 340), (8, 520), (4, 360)].into_iter().enumerate()
    {
        log.push_str(&logged(streams, mbps, minute as u32));
    }
    log.push_str("DATE=20261121051342.374301 HOST=dtn1 NL.EVNT=FTP_INFO\n");
    let (records, bad) = import(log.as_bytes(), None, Sites::default());
    assert_eq!(records.len(), 5);
    assert_eq!(bad, [(8, "has no TYPE".to_owned())]);

    let dir = tempfile::tempdir().expect("a directory");
    let history = Blocking::open(&format!("sqlite:{}", dir.path().join("h.db").display())).expect("opened");
    let pair = Pair::of("gsiftp://dtn1", "gsiftp://192.0.2.7").expect("a pair");
    for new in [5, 0] {
        assert_eq!(history.wait(history.history().record(&records)), Ok(new));
        let samples = history.wait(history.history().warm_start(&pair));
        assert_eq!(samples, Ok(if new > 0 { 4 } else { 0 }), "the same again changes nothing");
    }
    let points = history.wait(history.history().points(&pair, Timestamp(0))).expect("read");
    let seen: Vec<_> = points.iter().map(|point| (point.streams, point.throughput.as_mbps())).collect();
    assert_eq!(seen, [(1, 100.0), (2, 190.0), (4, 350.0), (8, 520.0)]);
}

/// As iperf3 3.12 writes it, with keys that come twice.
fn iperf3(more: &str, end: &str) -> String {
    format!(
        "{{\n\t\"start\":\t{{\n\t\t\"connected\":\t[{{\n\t\t\t\t\"remote_host\":\t\"192.0.2.7\"\n\t\t\t}}],\n\
         \t\t\"sock_bufsize\":\t0,\n\t\t\"sock_bufsize\":\t1,\n\
         \t\t\"timestamp\":\t{{\n\t\t\t\"timesecs\":\t1795295936\n\t\t}},\n{more}\
         \t\t\"tcp_mss_default\":\t1448,\n\t\t\"test_start\":\t{{\n\t\t\t\"protocol\":\t\"TCP\",\n\
         \t\t\t\"num_streams\":\t4,\n\t\t\t\"reverse\":\t0\n\t\t}}\n\t}},\n\
         \t\"intervals\":\t[{{\n\t\t\t\"sum\":\t{{\n\t\t\t\t\"seconds\":\t0.5,\n\t\t\t\t\"bytes\":\t1000000\n\t\t\t}}\n\t\t}}],\n{end}}}\n"
    )
}

const CLIENT: &str =
    "\t\t\"connecting_to\":\t{\n\t\t\t\"host\":\t\"dtn2.example.org\",\n\t\t\t\"port\":\t5201\n\t\t},\n";
const END: &str = "\t\"end\":\t{\n\t\t\"streams\":\t[{\n\t\t\t\"sender\":\t{ \"mean_rtt\":\t20000 }\n\t\t}],\n\
    \t\t\"sum_sent\":\t{\n\t\t\t\"seconds\":\t2.0,\n\t\t\t\"bytes\":\t14480000,\n\t\t\t\"retransmits\":\t10\n\t\t},\n\
    \t\t\"sum_received\":\t{\n\t\t\t\"end\":\t2,\n\t\t\t\"end\":\t2,\n\t\t\t\"seconds\":\t2.0,\n\t\t\t\"bytes\":\t14000000\n\t\t}\n\t}\n";

#[test]
fn iperf3_documents_are_samples() {
    let one = iperf3(CLIENT, END);
    let (records, bad) = import(one.as_bytes(), None, Sites::default());
    assert_eq!(bad, []);
    let pair = Pair::of("local", "iperf3://dtn2.example.org").expect("a pair");
    let at = Timestamp(1_795_295_938_000);
    let sample = Sample {
        pair,
        method: Method::Iperf3,
        streams: 4,
        throughput: BitRate::mbps(56),
        bytes: ByteCount(14_000_000),
        duration: Duration::from_secs(2),
        circumstances: Circumstances::default(),
        at,
    };
    assert_eq!(records[0], Record::Sample(sample));
    let Record::Transfer(transfer) = &records[1] else { panic!("{records:?}") };
    assert_eq!((transfer.loss, transfer.retransmits), (Some(0.001), Some(10)));
    assert_eq!((transfer.rtt, transfer.at), (Some(Duration::from_millis(20)), at));
    assert_eq!((transfer.origin, transfer.concurrency.network), (Origin::Iperf3, Some(4.0)));

    let reverse = one.replace("\"reverse\":\t0", "\"reverse\":\t1");
    assert_eq!(import(reverse.as_bytes(), None, Sites::default()).0[0].pair().destination, site("local"));
    let server = iperf3(&CLIENT.replace("connecting_to", "accepted_connection"), END);
    assert_eq!(import(server.as_bytes(), None, Sites::default()).0[0].pair().destination, site("local"));
    let sites = Sites { destination: Some(site("tg://dtn2:7700")), ..Sites::default() };
    assert_eq!(import(one.as_bytes(), None, sites).0[0].pair().to_string(), "local → tg://dtn2:7700");
    let udp = one.replace("\"TCP\"", "\"UDP\"");
    assert_eq!(import(udp.as_bytes(), None, Sites::default()), (vec![], vec![]));
}

#[test]
fn broken_documents_do_not_hide_the_next() {
    let good = iperf3(CLIENT, END);
    let compact = good.replace(['\n', '\t'], "");
    let refused = "{\n\t\"start\":\t{},\n\t\"intervals\":\t[],\n\t\"end\":\t{},\n\t\"error\":\t\"unable to connect\"\n}\n";
    let stopped =
        iperf3(CLIENT, "\t\"end\":\t{},\n\t\"error\":\t\"interrupt - the client has terminated\"\n");
    let nameless = good.replace("192.0.2.7", "").replace(CLIENT, "");
    let cut = &good[..good.len() / 2];
    let text = format!(
        "{good}{refused}{cut}\n{compact}\niperf3: error\n{stopped}{nameless}{{\"a\": 1}}\n{good}{cut}"
    );
    let (records, bad) = import(text.as_bytes(), Some(ImportFormat::Iperf3), Sites::default());
    let samples = records.iter().filter(|record| matches!(record, Record::Sample(_))).count();
    let failed: Vec<_> = records
        .iter()
        .filter_map(|record| match record {
            Record::Transfer(transfer) if transfer.outcome == Status::Failed => Some(transfer),
            _ => None,
        })
        .collect();
    assert_eq!((samples, records.len()), (3, 7), "{bad:?}");
    // What moved before it was stopped is told, and is no sample.
    assert_eq!(failed.len(), 1);
    assert_eq!((failed[0].bytes.0, failed[0].goodput.as_mbps()), (1_000_000, 16.0));
    let reasons: Vec<&str> = bad.iter().map(|(_, why)| why.as_str()).collect();
    assert_eq!(reasons.len(), 6, "{bad:?}");
    for (reason, part) in reasons.iter().zip([
        "unable to connect",
        "in the middle",
        "expected",
        "host",
        "no document",
        "in the middle",
    ]) {
        assert!(reason.contains(part), "{reasons:?}");
    }
    let lines = good.lines().count() as u64;
    assert_eq!((bad[0].0, bad[1].0), (lines + 1, lines + 7));
}

#[test]
fn what_is_no_format_is_said() {
    for text in ["", "\n \n\n"] {
        assert_eq!(
            import(text.as_bytes(), None, Sites::default()),
            (vec![], vec![]),
            "an empty log is no error"
        );
    }
    for text in ["hello\nworld\n", "a,b,c\n1,2,3\n"] {
        let error = Import::new(text.as_bytes(), None, Sites::default(), NOW).err().expect("no format");
        assert!(error.to_string().contains("gridftp, iperf3, jsonl, csv"), "{error}");
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ,\"'=;{}\\[\\]→é-]{0,40}",
        Just("get https://u:p@h/a?b failed\n".to_owned()),
        any::<String>()
    ]
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![0.0..1e12, any::<f64>(), Just(-0.0), Just(f64::NAN)]
}

fn pair() -> impl Strategy<Value = Pair> {
    let site = || {
        prop_oneof![
            "[a-z]{1,8}".prop_map(|h| format!("tg://{h}:7700")),
            Just("local".to_owned()),
            "[a-z]{3}".prop_map(|b| format!("s3://{b}"))
        ]
    };
    (site(), site()).prop_map(|(source, destination)| Pair::of(&source, &destination).expect("sites"))
}

fn at() -> impl Strategy<Value = Timestamp> {
    prop_oneof![0i64..4_000_000_000_000, any::<i64>()].prop_map(Timestamp)
}

fn length() -> impl Strategy<Value = Duration> {
    prop_oneof![(0u64..10_000_000_000).prop_map(Duration::from_micros), Just(Duration::MAX)]
}

fn circumstances() -> impl Strategy<Value = Circumstances> {
    use prop::option::of;
    let rate = || any::<u64>().prop_map(BitRate);
    let limits = prop::collection::btree_map(text(), rate(), 0..3);
    let bytes = || of(any::<u64>().prop_map(ByteCount));
    let conditions = (any::<bool>(), of(text()), bytes(), bytes(), limits, of(any::<u16>()));
    let conditions =
        conditions.prop_map(|(clear, verify, buffer_bytes, mtu_bytes, limits_bps, most_streams)| {
            Conditions { clear, verify, buffer_bytes, mtu_bytes, limits_bps, most_streams }
        });
    let beside = (any::<u32>(), rate()).prop_map(|(jobs, throughput)| Beside { jobs, throughput });
    (of(conditions), of(beside)).prop_map(|(conditions, beside)| Circumstances { conditions, beside })
}

fn sample() -> impl Strategy<Value = Sample> {
    let method = prop_oneof![
        Just(Method::Native),
        Just(Method::Iperf3),
        Just(Method::Gridftp),
        Just(Method::Transfers)
    ];
    (pair(), method, any::<u32>(), any::<u64>(), any::<u64>(), length(), circumstances(), at()).prop_map(
        |(pair, method, streams, rate, bytes, duration, circumstances, at)| Sample {
            pair,
            method,
            streams,
            throughput: BitRate(rate),
            bytes: ByteCount(bytes),
            duration,
            circumstances,
            at,
        },
    )
}

fn estimate() -> impl Strategy<Value = Estimate> {
    let basis = prop_oneof![
        (text(), prop::collection::vec(number(), 0..5))
            .prop_map(|(model, coefficients)| Basis::Model { model, coefficients }),
        text().prop_map(|reason| Basis::Fallback { reason }),
    ];
    let point =
        (any::<u32>(), any::<u64>()).prop_map(|(streams, rate)| Point { streams, throughput: BitRate(rate) });
    (sample(), basis, prop::collection::vec(point, 0..9)).prop_map(|(sample, basis, samples)| Estimate {
        pair: sample.pair,
        method: sample.method,
        streams: sample.streams,
        throughput: sample.throughput,
        basis,
        samples,
        cost_bytes: sample.bytes,
        cost: sample.duration,
        circumstances: sample.circumstances,
        at: sample.at,
    })
}

fn transfer() -> impl Strategy<Value = Transfer> {
    use prop::option::of;
    let origin = prop_oneof![Just(Origin::Own), Just(Origin::GridftpLog), Just(Origin::Iperf3)];
    let outcome = prop_oneof![Just(Status::Complete), Just(Status::NoSpace), Just(Status::Interrupted)];
    let workers = (of(number()), of(number()), of(number()));
    (sample(), (origin, outcome), of(text()), workers, of(number()), of(length()), of(any::<u64>())).prop_map(
        |(sample, (origin, outcome), text, (read, network, write), loss, rtt, retransmits)| Transfer {
            pair: sample.pair,
            origin,
            job: text.clone(),
            bytes: sample.bytes,
            files: sample.bytes.0 / 3,
            concurrency: PerStage { read, network, write },
            optimizer: text.clone(),
            goodput: sample.throughput,
            duration: sample.duration,
            loss,
            rtt,
            retransmits,
            outcome,
            reason: text,
            circumstances: sample.circumstances,
            at: sample.at,
        },
    )
}

fn decision() -> impl Strategy<Value = Decision> {
    let state = prop::collection::btree_map(text(), number(), 0..6);
    (pair(), prop::option::of(text()), state, text(), text(), at()).prop_map(
        |(pair, job, state, action, reason, at)| Decision {
            pair,
            job,
            state: BTreeMap::from_iter(state),
            action,
            reason,
            at,
        },
    )
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    let any = prop_oneof![
        sample().prop_map(Record::from),
        estimate().prop_map(Record::from),
        transfer().prop_map(Record::from),
        decision().prop_map(Record::from),
    ];
    prop::collection::vec(any, 1..20)
}

/// All of one kind, as JSON Lines and as CSV.
fn export<K: Kind>(history: &Blocking, lines: &mut String, tables: &mut Vec<String>) -> usize {
    let Page { records, next } = history.wait(history.history().page::<K>(&Query::default())).expect("read");
    assert_eq!(next, None);
    let mut table = csv::header::<K>() + "\n";
    for record in &records {
        table += &(csv::line(record) + "\n");
        let record: Record = record.clone().into();
        lines.push_str(&(serde_json::to_string(&record).expect("plain data") + "\n"));
    }
    tables.push(table);
    records.len()
}

fn export_all(history: &Blocking) -> (usize, String, Vec<String>) {
    let (mut lines, mut tables) = (String::new(), Vec::new());
    let records = export::<Sample>(history, &mut lines, &mut tables)
        + export::<Estimate>(history, &mut lines, &mut tables)
        + export::<Transfer>(history, &mut lines, &mut tables)
        + export::<Decision>(history, &mut lines, &mut tables);
    (records, lines, tables)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_export_imported_is_the_same(records in records()) {
        let dir = tempfile::tempdir().expect("a directory");
        let open = |name: &str| {
            Blocking::open(&format!("sqlite:{}", dir.path().join(name).display())).expect("opened")
        };
        let first = open("first.db");
        let kept = first.wait(first.history().record(&records)).expect("recorded");
        let (count, lines, tables) = export_all(&first);
        prop_assert_eq!(count as u64, kept);
        for (name, texts) in [("lines.db", vec![lines.clone()]), ("tables.db", tables)] {
            let again = open(name);
            for text in texts {
                let (records, bad) = import(text.as_bytes(), None, Sites::default());
                prop_assert_eq!(&bad, &vec![]);
                again.wait(again.history().record(&records)).expect("recorded");
                // What came from there is known there.
                prop_assert_eq!(first.wait(first.history().record(&records)), Ok(0));
            }
            // Records of one moment may change places.
            let sorted = |text: &str| {
                let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
                lines.sort();
                lines
            };
            prop_assert_eq!(sorted(&export_all(&again).1), sorted(&lines));
        }
    }

    #[test]
    fn garbage_is_counted_and_ends_nothing(
        garbage in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8),
        text in "[{}\",:\\[\\]a-z0-9=. \n\\\\]{0,400}",
    ) {
        let good = logged(4, 100, 1);
        let mut log: Vec<u8> = Vec::new();
        for piece in &garbage {
            log.extend(piece.iter().filter(|byte| **byte != b'\n'));
            log.push(b'\n');
            log.extend(good.as_bytes());
        }
        log.extend(text.as_bytes());
        log.push(b'\n');
        log.extend(good.as_bytes());
        let (records, _) = import(&log, Some(ImportFormat::Gridftp), Sites::default());
        prop_assert_eq!(records.len(), garbage.len() + 1);
        for format in [ImportFormat::Iperf3, ImportFormat::Jsonl, ImportFormat::Csv] {
            let (records, bad) = import(&log, Some(format), Sites::default());
            prop_assert!(records.is_empty() && !bad.is_empty());
        }
        let mut document = text.into_bytes();
        document.push(b'\n');
        document.extend(iperf3(CLIENT, END).bytes());
        let (records, _) = import(&document, Some(ImportFormat::Iperf3), Sites::default());
        prop_assert!(records.len() >= 2);
    }
}
