//! History on SQLite and on a real PostgreSQL server: the same of both.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use sqlx::Connection;
use testkit::postgres::{PASSWORD, Postgres, USER};
use testkit::skip;
use tidegate_contract::summary::Status;
use tidegate_control::{BitRate, ByteCount, PerStage};
use tidegate_service::history::{
    Basis, Beside, Circumstances, Conditions, Decision, Estimate, History, Method, Origin, Page, Point,
    Query, Record, Recorder, Retention, Sample, Selection, Timestamp, Transfer,
};
use tidegate_spec::pair::Pair;

fn pair(source: &str, destination: &str) -> Pair {
    Pair::of(source, destination).expect("a pair")
}

fn far() -> Pair {
    pair("/data", "gsiftp://dtn.example.org/x")
}

fn sample(streams: u32, mbps: u64, at: i64) -> Sample {
    Sample {
        pair: far(),
        method: Method::Gridftp,
        streams,
        throughput: BitRate::mbps(mbps),
        bytes: ByteCount::mib(25),
        duration: Duration::from_millis(1_234),
        circumstances: Circumstances::default(),
        at: Timestamp(at),
    }
}

fn estimate(streams: u32, at: i64) -> Estimate {
    Estimate {
        pair: far(),
        method: Method::Native,
        streams,
        throughput: BitRate::mbps(900),
        basis: Basis::Model {
            model: "full_second_order".into(),
            coefficients: vec![1e-19, -2.5e-17, 0.1 + 0.2],
        },
        samples: vec![
            Point { streams: 1, throughput: BitRate::mbps(100) },
            Point { streams: 2, throughput: BitRate::mbps(190) },
        ],
        cost_bytes: ByteCount::mib(75),
        cost: Duration::from_secs(4),
        circumstances: Circumstances::default(),
        at: Timestamp(at),
    }
}

fn transfer(at: i64) -> Transfer {
    Transfer {
        pair: far(),
        origin: Origin::Own,
        job: Some("job-7".into()),
        bytes: ByteCount::gib(10),
        files: 12,
        concurrency: PerStage::new(Some(4.25), Some(0.1 + 0.2), None),
        optimizer: Some("auto".into()),
        goodput: BitRate::mbps(812),
        duration: Duration::from_millis(105_776),
        loss: Some(0.000_31),
        rtt: Some(Duration::from_micros(10_250)),
        retransmits: Some(19),
        outcome: Status::Complete,
        reason: None,
        circumstances: Circumstances::default(),
        at: Timestamp(at),
    }
}

fn bare_transfer(at: i64) -> Transfer {
    Transfer {
        origin: Origin::GridftpLog,
        job: None,
        concurrency: PerStage::all(None),
        optimizer: None,
        loss: None,
        rtt: None,
        retransmits: None,
        outcome: Status::Failed,
        reason: Some("426 connection closed".into()),
        ..transfer(at)
    }
}

fn decision(at: i64) -> Decision {
    Decision {
        pair: far(),
        job: Some("job-7".into()),
        state: BTreeMap::from([("throughput_bps".to_owned(), 4e8), ("queued_jobs".to_owned(), 17.0)]),
        action: "streams 4 → 6".into(),
        reason: "throughput rose by 12 %".into(),
        at: Timestamp(at),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

fn on(url: &str, test: impl AsyncFn(History)) {
    runtime().block_on(async {
        let history = History::open(url).await.expect("opened");
        test(history.clone()).await;
        history.close().await;
    });
}

/// What must hold on SQLite, each as a test, and on PostgreSQL, all on one server.
macro_rules! on_both {
    ($($test:ident),* $(,)?) => {
        mod on_sqlite {
            $(#[test]
            fn $test() {
                let dir = tempfile::tempdir().expect("a directory");
                super::on(&format!("sqlite:{}", dir.path().join("history.db").display()), super::$test);
            })*
        }

        #[test]
        fn on_postgres() {
            let postgres = match Postgres::start() {
                Ok(postgres) => postgres,
                Err(reason) => return skip("on_postgres", &reason),
            };
            $(
                eprintln!("{} on PostgreSQL", stringify!($test));
                on(&postgres.fresh(), $test);
            )*
            a_newer_history_is_left_alone(&postgres.fresh());
            several_processes(&postgres.fresh());
        }
    };
}

#[tokio::test]
async fn a_history_of_the_first_version_is_taken_over() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("history.db");
    let url = format!("sqlite:{}", file.display());
    let history = History::open(&url).await.expect("opened");
    let old = [Record::from(sample(2, 190, 1)), estimate(4, 2).into(), transfer(3).into()];
    history.record(&old).await.expect("recorded");
    history.close().await;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file);
    let pool = sqlx::SqlitePool::connect_with(options).await.expect("opened");
    for table in ["samples", "estimates", "transfers"] {
        for column in ["conditions", "beside_jobs", "beside_bps"] {
            let drop = format!("ALTER TABLE {table} DROP COLUMN {column}");
            sqlx::raw_sql(sqlx::AssertSqlSafe(drop)).execute(&pool).await.expect("as it was");
        }
    }
    sqlx::raw_sql("UPDATE tidegate_schema SET version = 1").execute(&pool).await.expect("as it was");
    pool.close().await;
    let history = History::open(&url).await.expect("taken over");
    assert_eq!(history.record(&old).await, Ok(0), "what is kept is known again");
    assert_eq!(history.samples(&far(), Timestamp(0), true).await, Ok(vec![sample(2, 190, 1)]));
    history.close().await;
}

on_both!(
    what_is_recorded_comes_back,
    the_newest_estimate_answers_until_it_is_too_old,
    what_was_measured_beside_our_own_jobs_can_be_left_out,
    samples_become_points_to_fit,
    pages_follow_each_other_without_gap_or_double,
    pairs_are_listed_with_what_is_known_of_them,
    what_is_old_or_too_much_is_forgotten,
    no_secret_and_no_odd_number_is_kept,
    a_recorder_writes_what_it_is_given,
    writers_of_the_same_do_not_stop_each_other,
);

async fn what_is_recorded_comes_back(history: History) {
    let records: Vec<Record> = vec![
        sample(1, 100, 1_000).into(),
        estimate(4, 2_000).into(),
        Estimate { basis: Basis::Fallback { reason: "only two samples".into() }, ..estimate(2, 1_500) }
            .into(),
        // Numbers that are missing and numbers that are there take turns in one prepared statement.
        bare_transfer(3_000).into(),
        transfer(3_001).into(),
        decision(4_000).into(),
    ];
    assert_eq!(history.record(&records).await, Ok(6));
    assert_eq!(history.record(&[bare_transfer(3_002).into()]).await, Ok(1));
    assert_eq!(history.record(&[transfer(3_003).into()]).await, Ok(1));
    assert_eq!(history.record(&[bare_transfer(3_004).into()]).await, Ok(1));
    assert_eq!(history.record(&records).await, Ok(0), "the same again changes nothing");
    let all = Query::default();
    assert_eq!(history.page(&all).await, Ok(Page { records: vec![sample(1, 100, 1_000)], next: None }));
    let estimates = history.page::<Estimate>(&all).await.expect("read").records;
    assert_eq!(estimates[0], estimate(4, 2_000));
    assert_eq!(estimates[1].basis, Basis::Fallback { reason: "only two samples".into() });
    let transfers = history.page::<Transfer>(&all).await.expect("read").records;
    let expected =
        [bare_transfer(3_004), transfer(3_003), bare_transfer(3_002), transfer(3_001), bare_transfer(3_000)];
    assert_eq!(transfers, expected);
    assert_eq!(history.page::<Decision>(&all).await.expect("read").records, [decision(4_000)]);
    let of_job = Query { job: Some("job-7".into()), ..Query::default() };
    assert_eq!(history.page::<Transfer>(&of_job).await.expect("read").records.len(), 2);
    assert!(history.page::<Sample>(&of_job).await.expect("read").records.is_empty());
}

async fn the_newest_estimate_answers_until_it_is_too_old(history: History) {
    let other = Estimate { pair: pair("tg://a:1", "tg://b:2"), ..estimate(9, 9_000) };
    let records =
        [estimate(2, 1_000).into(), estimate(4, 3_000).into(), estimate(3, 2_000).into(), other.into()];
    history.record(&records).await.expect("recorded");
    let newest = async |pair: &Pair, since: i64| {
        let mut found = history.estimates(pair, Timestamp(since), true).await.expect("read").into_iter();
        found.next()
    };
    assert_eq!(newest(&far(), 0).await, Some(estimate(4, 3_000)));
    assert_eq!(newest(&far(), 3_000).await, Some(estimate(4, 3_000)));
    assert_eq!(newest(&far(), 3_001).await, None);
    let back = pair("gsiftp://dtn.example.org/", "local");
    assert_eq!(newest(&back, 0).await, None);
}

async fn what_was_measured_beside_our_own_jobs_can_be_left_out(history: History) {
    let conditions =
        Conditions { clear: true, buffer_bytes: Some(ByteCount::kib(128)), ..Conditions::default() };
    let beside = |jobs| Circumstances {
        conditions: Some(conditions.clone()),
        beside: Some(Beside { jobs, throughput: BitRate::mbps(u64::from(jobs) * 300) }),
    };
    let alone = Sample { circumstances: beside(0), ..sample(1, 100, 1) };
    let shared = Sample { circumstances: beside(2), ..sample(2, 40, 2) };
    // Nothing is known of what older versions kept.
    let old = sample(4, 300, 3);
    history
        .record(&[alone.clone().into(), shared.clone().into(), old.clone().into()])
        .await
        .expect("recorded");
    assert_eq!(history.samples(&far(), Timestamp(0), true).await, Ok(vec![old.clone(), alone.clone()]));
    assert_eq!(history.samples(&far(), Timestamp(0), false).await, Ok(vec![old, shared, alone]));
}

async fn samples_become_points_to_fit(history: History) {
    let known = [(1, 100, 1), (2, 150, 2), (2, 900, 3), (2, 160, 4), (4, 300, 5), (1, 7, 0)];
    let records: Vec<Record> = known.iter().map(|&(n, mbps, at)| sample(n, mbps, at).into()).collect();
    history.record(&records).await.expect("recorded");
    let points = history.points(&far(), Timestamp(1)).await.expect("read");
    let seen: Vec<_> = points.iter().map(|point| (point.streams, point.throughput.as_mbps())).collect();
    assert_eq!(seen, [(1, 100.0), (2, 160.0), (4, 300.0)]);
}

async fn pages_follow_each_other_without_gap_or_double(history: History) {
    // Many at the same moment, so that the order needs the key.
    let records: Vec<Record> =
        (0..1_234).map(|i| sample(1 + i % 16, u64::from(i), i64::from(i / 100)).into()).collect();
    assert_eq!(history.record(&records).await, Ok(1_234));
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let query = Query { limit: 100, after, ..Query::of(&far()) };
        let page = history.page::<Sample>(&query).await.expect("read");
        seen.extend(page.records);
        after = page.next.map(|cursor| cursor.to_string().parse().expect("a cursor"));
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 1_234);
    assert!(seen.is_sorted_by_key(|sample| std::cmp::Reverse(sample.at)));
    let mut rates: Vec<_> = seen.iter().map(|sample| sample.throughput.0).collect();
    rates.sort_unstable();
    rates.dedup();
    assert_eq!(rates.len(), 1_234);
    let one_end = Query { destination: Some(far().destination), ..Query::default() };
    assert_eq!(
        history.page::<Sample>(&one_end).await.expect("read").records.len(),
        1_000,
        "a page has a bound"
    );
}

async fn pairs_are_listed_with_what_is_known_of_them(history: History) {
    assert_eq!(history.pairs().await, Ok(Vec::new()));
    let near = pair("tg://a:1/x", "tg://b:2/y");
    let records = [
        sample(1, 1, 10).into(),
        sample(2, 2, 20).into(),
        transfer(40).into(),
        Estimate { pair: near.clone(), ..estimate(1, 30) }.into(),
        Decision { pair: near.clone(), ..decision(31) }.into(),
    ];
    history.record(&records).await.expect("recorded");
    let pairs = history.pairs().await.expect("read");
    let seen: Vec<_> = pairs
        .iter()
        .map(|known| {
            (&known.pair, [known.samples, known.estimates, known.transfers, known.decisions], known.last_at.0)
        })
        .collect();
    assert_eq!(seen, [(&far(), [2, 0, 1, 0], 40), (&near, [0, 1, 0, 1], 31)]);
}

async fn what_is_old_or_too_much_is_forgotten(history: History) {
    let near = pair("tg://a:1/x", "tg://b:2/y");
    let mut records: Vec<Record> = (0..50).map(|i| sample(1, i, i as i64 * 1_000).into()).collect();
    records.extend((0..3).map(|i| Record::from(Sample { pair: near.clone(), ..sample(1, i, 49_000) })));
    records.push(transfer(0).into());
    history.record(&records).await.expect("recorded");
    // The newest has the age 0: 30 s keep 31 of the 50, of which 10 stay.
    let retention = Retention { age: Duration::from_secs(30), rows_per_pair: 10 };
    assert_eq!(history.retain(&retention, Timestamp(49_000)).await, Ok(19 + 1 + 21));
    let left = history.page::<Sample>(&Query::of(&far())).await.expect("read").records;
    assert_eq!((left.len(), left[9].at), (10, Timestamp(40_000)));
    assert_eq!(history.page::<Sample>(&Query::of(&near)).await.expect("read").records.len(), 3);
    let of_near = Selection { source: Some(near.source.clone()), ..Selection::default() };
    assert_eq!(history.forget(&of_near).await, Ok(3));
    assert_eq!(history.forget(&Selection::default()).await, Ok(10));
    assert_eq!(history.pairs().await, Ok(Vec::new()));
}

async fn no_secret_and_no_odd_number_is_kept(history: History) {
    let odd = Transfer {
        bytes: ByteCount(u64::MAX),
        goodput: BitRate(u64::MAX),
        duration: Duration::MAX,
        rtt: Some(Duration::MAX),
        loss: Some(f64::NAN),
        concurrency: PerStage::new(Some(f64::INFINITY), Some(-1.0), Some(0.0)),
        reason: Some("get https://me:hush@h/x?token=hush\0\nfailed".into()),
        at: Timestamp(i64::MAX),
        ..transfer(0)
    };
    history.record(&[odd.into()]).await.expect("recorded");
    let kept = history.page::<Transfer>(&Query::default()).await.expect("read").records.remove(0);
    assert_eq!(kept.reason.as_deref(), Some("get https://h/x failed"));
    assert_eq!((kept.loss, kept.concurrency.into_array()), (None, [None, None, Some(0.0)]));
    assert_eq!((kept.bytes.0, kept.at), (i64::MAX as u64, Timestamp::LAST));
}

async fn a_recorder_writes_what_it_is_given(history: History) {
    let recorder = Recorder::start(history.clone());
    for i in 0..2_000 {
        recorder.record(decision(i));
    }
    assert!(recorder.flush(Duration::from_secs(30)).await);
    assert_eq!(recorder.lost(), 0);
    assert_eq!(history.pairs().await.expect("read")[0].decisions, 2_000);
}

async fn writers_of_the_same_do_not_stop_each_other(history: History) {
    let there: Vec<Record> = (0..1_000).map(|i| sample(1, i, i as i64).into()).collect();
    let back: Vec<Record> = there.iter().rev().cloned().collect();
    let writers = [&there, &back, &there, &back].map(|records| {
        let (history, records) = (history.clone(), records.clone());
        tokio::spawn(async move { history.record(&records).await })
    });
    let mut new = 0;
    for writer in writers {
        new += writer.await.expect("no panic").expect("recorded");
    }
    assert_eq!(new, 1_000);
}

#[test]
fn a_lost_server_costs_a_line_and_comes_back() {
    let mut postgres = match Postgres::start() {
        Ok(postgres) => postgres,
        Err(reason) => return skip("a_lost_server_costs_a_line_and_comes_back", &reason),
    };
    let runtime = runtime();
    let url = postgres.fresh();
    let (history, recorder) = runtime.block_on(async {
        let history = History::open(&url).await.expect("opened");
        history.record(&[sample(1, 1, 1).into()]).await.expect("recorded");
        (history.clone(), Recorder::start(history))
    });
    postgres.stop();
    runtime.block_on(async {
        let error = history.pairs().await.expect_err("nobody answers");
        assert!(error.is_temporary() && is_one_clear_line(&error.to_string()), "{error}");
        let error = History::open(&url).await.expect_err("nobody answers");
        assert!(error.to_string().contains("refused") && is_one_clear_line(&error.to_string()), "{error}");
        recorder.record(sample(2, 2, 2));
        assert!(!recorder.flush(Duration::from_millis(300)).await);
    });
    postgres.restart();
    runtime.block_on(async {
        assert!(recorder.flush(Duration::from_secs(60)).await);
        assert_eq!(history.pairs().await.expect("read")[0].samples, 2);
    });
}

/// One line, which names the place and no secret.
fn is_one_clear_line(text: &str) -> bool {
    !text.contains('\n') && text.contains("127.0.0.1:") && !text.contains(USER) && !text.contains("sesame")
}

#[test]
fn a_database_that_cannot_be_used_says_why() {
    let runtime = runtime();
    let dir = tempfile::tempdir().expect("a directory");
    let garbage = dir.path().join("garbage.db");
    std::fs::write(&garbage, "no database at all, and long enough to be read as one").expect("written");
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("written");
    // Takes connections, and never says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let silent = silent.local_addr().expect("its address");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let refused = listener.local_addr().expect("its address");
    drop(listener);
    for (url, what) in [
        (format!("sqlite:{}", garbage.display()), "not a database"),
        (format!("sqlite:{}/x/history.db", file.display()), "file/x/history.db"),
        (format!("sqlite:{}", dir.path().display()), "cannot be opened"),
        ("sqlite:".to_owned(), "names a file"),
        ("sqlite::memory:".to_owned(), "names a file"),
        ("history.db".to_owned(), "a database is"),
        (format!("mysql://{USER}:{PASSWORD}@h/x"), "a database is"),
        (format!("postgres://{USER}:sesame@127.0.0.1:99999/x"), "a database is"),
        (format!("postgres://{USER}:sesame@{refused}/x"), "refused"),
        (format!("postgres://{USER}:sesame@{silent}/x?sslmode=disable"), "within 5 s"),
    ] {
        let error = runtime.block_on(History::open(&url)).expect_err("it cannot be used").to_string();
        assert!(error.contains(what) && !error.contains('\n') && !error.contains("sesame"), "{url}: {error}");
    }
}

#[test]
fn the_file_is_for_its_owner_only() {
    let runtime = runtime();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("a b?#%é/history.db");
    // What a URL would take for a question is part of the name here, but for the one that sqlx knows.
    assert!(runtime.block_on(History::open(&format!("sqlite:{}", file.display()))).is_err());
    let file = dir.path().join("a b#%41é/state/history.db");
    runtime.block_on(async {
        let history = History::open(&format!("sqlite:{}", file.display())).await.expect("opened");
        history.record(&[sample(1, 1, 1).into()]).await.expect("recorded");
        let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().expect("a parent"))), (0o600, 0o700));
        assert_eq!(mode(&file.with_extension("db-wal")), 0o600);
        history.close().await;
    });
}

fn a_newer_history_is_left_alone(url: &str) {
    runtime().block_on(async {
        let history = History::open(url).await.expect("opened");
        let mut connection = sqlx::AnyConnection::connect(url).await.expect("opened");
        sqlx::query("UPDATE tidegate_schema SET version = 99")
            .execute(&mut connection)
            .await
            .expect("written");
        let error = History::open(url).await.expect_err("it is newer").to_string();
        assert!(
            error.contains("99") && error.contains("upgrade") && error.contains(history.place()),
            "{error}"
        );
        history.close().await;
    });
}

/// Not a test by itself: what the processes of the next one run.
#[test]
fn one_of_several_processes() {
    let Ok(url) = std::env::var("TIDEGATE_TEST_HISTORY") else { return };
    let runtime = runtime();
    runtime.block_on(async {
        let history = History::open(&url).await.expect("opened");
        let at = i64::from(std::process::id());
        assert_eq!(history.record(&[sample(1, 1, at).into()]).await, Ok(1));
        history.close().await;
    });
}

fn several_processes(url: &str) {
    let start = || {
        Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "history::one_of_several_processes", "--nocapture"])
            .env("TIDEGATE_TEST_HISTORY", url)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started")
    };
    let children: Vec<_> = (0..8).map(|_| start()).collect();
    for child in children {
        let ended = child.wait_with_output().expect("ended");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    let runtime = runtime();
    runtime.block_on(async {
        let history = History::open(url).await.expect("opened");
        assert_eq!(history.pairs().await.expect("read")[0].samples, 8);
        history.close().await;
    });
}

#[test]
fn several_processes_may_make_the_tables_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    several_processes(&format!("sqlite:{}", dir.path().join("history.db").display()));
}

#[test]
fn a_newer_file_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    a_newer_history_is_left_alone(&format!("sqlite:{}", dir.path().join("history.db").display()));
}
