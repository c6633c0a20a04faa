//! Estimates with a history, by a program that only claims to measure: a path of 100 Mbit/s a stream and
//! 400 Mbit/s in all, or whatever else it is made to say.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tidegate_control::throughput_model::ModelSelection;
use tidegate_control::throughput_model::sampling::Threshold;
use tidegate_control::{BitRate, ByteCount};
use tidegate_service::estimate::{
    Answer, EstimateError, EstimateOrigin, EstimateRequest, Estimator, Program, SamplingEvent,
};
use tidegate_service::history::{
    Beside, Circumstances, Conditions, History, Method, Query, Record, Sample, Timestamp,
};
use tidegate_service::job::{JobKind, Request};
use tidegate_service::sampler::SamplerKind;
use tidegate_service::scheduler::{Chooser, JobEstimator, Sizes};
use tidegate_spec::estimate::{DAY, EstimateSpec, HistorySpec, SampledTerms};
use tidegate_spec::pair::Pair;
use tidegate_spec::setup::Setup;
use tidegate_transfer::terms::DataPlane;

/// What a probe of `$n` streams prints whose rate has settled.
const PROBE: &str = r#"
n=$(echo "$told" | sed 's/.*fixed:\([0-9]*\).*/\1/')
r=$((n * 100000000))
[ $r -gt 400000000 ] && r=400000000
s="{\"read\":1,\"network\":$n,\"write\":1}"
t="{\"read\":$r,\"network\":$r,\"write\":$r}"
f='{"sender":1,"receiver":1}'
e="{\"t_ms\":100000,\"interval_ms\":100,\"concurrency\":$s,\"setpoint\":$s,\"throughput_bps\":$t"
e="$e,\"staging_free_bytes\":$f,\"staging_capacity_bytes\":$f,\"loss\":null,\"rtt_us\":null,\"utility\":null"
e="$e,\"notice\":null}"
steady="{\"throughput_bps\":$r,\"duration_ms\":600}"
echo "{\"duration_ms\":650,\"bytes\":1000000,\"steady\":$steady,\"epochs\":[$e,$e,$e,$e,$e,$e]}"
"#;

const DESTINATION: &str = "tg://ticket@dtn1.example.org:7117/x";

struct Place {
    directory: tempfile::TempDir,
    history: History,
}

impl Place {
    async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let url = format!("sqlite:{}", directory.path().join("history.db").display());
        Self { history: History::open(&url).await.expect("opened"), directory }
    }

    /// Answers by a program of that text.
    fn estimator(&self, script: &str) -> Estimator {
        Estimator::new(program(self.directory.path(), script), Some(self.history.clone()))
    }

    /// The samples kept of the path.
    async fn kept(&self) -> usize {
        self.history.page::<Sample>(&Query::of(&pair())).await.expect("read").records.len()
    }
}

fn program(directory: &Path, script: &str) -> Program {
    let path = directory.join("measure");
    // Written by another process: one of ours that is just being started would hold the file open, and what is
    // open for writing cannot be run.
    let mut writer = Command::new("sh");
    writer.args(["-c", "cat >\"$0\" && chmod 755 \"$0\""]).arg(&path).stdin(Stdio::piped());
    let mut writer = writer.spawn().expect("started");
    let text = format!("#!/bin/sh\ntold=$(cat)\n{script}");
    writer.stdin.take().expect("piped").write_all(text.as_bytes()).expect("written");
    assert!(writer.wait().expect("waited").success());
    Program { path, setup: Setup::default() }
}

fn pair() -> Pair {
    Pair::of("/data", DESTINATION).expect("a pair")
}

fn request(bytes: ByteCount) -> EstimateRequest {
    EstimateRequest::new("/data", DESTINATION, bytes)
}

fn changed(mut request: EstimateRequest, change: impl FnOnce(&mut EstimateSpec)) -> EstimateRequest {
    change(&mut request.spec);
    request
}

/// The same, to be answered from history if it can be.
fn of_history(request: EstimateRequest) -> EstimateRequest {
    changed(request, |spec| spec.sampling.history.use_history = true)
}

async fn ask(estimator: &Estimator, request: &EstimateRequest) -> Result<Answer, EstimateError> {
    estimator.estimate(request, &mut |_| {}).await
}

fn is_from_history(answer: &Answer) -> bool {
    matches!(answer.origin, EstimateOrigin::History { .. })
}

#[tokio::test]
async fn what_is_measured_is_kept_and_answers_as_long_as_it_is_young() {
    let place = Place::new().await;
    let estimator = place.estimator(PROBE);
    let mut events = Vec::new();
    let asked = request(ByteCount::gib(10));
    let answer = estimator.estimate(&asked, &mut |event| events.push(event)).await.expect("an answer");
    assert_eq!((answer.origin, answer.streams), (EstimateOrigin::Sampled, 4), "{answer:?}");
    assert_eq!(answer.samples.len(), 4, "1, 2, 4 and 8");
    assert_eq!(events.iter().filter(|event| matches!(event, SamplingEvent::Sampled(_))).count(), 4);
    assert_eq!(place.kept().await, 4);
    let again = of_history(request(ByteCount::gib(1)));
    let known = ask(&estimator, &again).await.expect("an answer");
    assert!(is_from_history(&known) && known.streams == 4 && known.cost_ms == 0, "{known:?}");
    assert_eq!(known.throughput_bps, answer.throughput_bps);
    // Another server that shares the history, with fewer streams allowed.
    let two = changed(again.clone(), |spec| spec.max_streams = 2);
    let known = ask(&place.estimator(PROBE), &two).await.expect("an answer");
    assert!(is_from_history(&known) && known.streams == 2, "{known:?}");
    assert_eq!(known.throughput_bps.map(|rate| rate.as_mbps().round()), Some(200.0));
    // Too old, or measured by something else.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let old = changed(again.clone(), |spec| spec.sampling.history.history_age = Duration::ZERO);
    assert_eq!(ask(&estimator, &old).await.expect("an answer").origin, EstimateOrigin::Sampled);
    assert_eq!(place.kept().await, 8);
}

#[tokio::test]
async fn samples_of_others_answer_before_anybody_has_asked() {
    let place = Place::new().await;
    let sample = |(streams, mbps): (u32, u64), age: u64| {
        Record::from(Sample {
            pair: pair(),
            method: Method::Iperf3,
            streams,
            throughput: BitRate::mbps(mbps),
            bytes: ByteCount::mib(10),
            duration: Duration::from_secs(1),
            circumstances: Circumstances::default(),
            at: Timestamp::now().before(Duration::from_secs(age)),
        })
    };
    let estimator = place.estimator("exit 1");
    let asked = of_history(request(ByteCount::gib(1)));
    place.history.record(&[sample((1, 50), 60), sample((2, 100), 60)]).await.expect("kept");
    assert!(matches!(ask(&estimator, &asked).await, Err(EstimateError::Unknown(_))), "two are too few");
    place.history.record(&[sample((4, 200), 60), sample((8, 210), 30)]).await.expect("kept");
    // What was read a moment ago holds for a second.
    let estimator = place.estimator("exit 1");
    let answer = ask(&estimator, &asked).await.expect("an answer");
    let EstimateOrigin::History { age_ms } = answer.origin else { panic!("{answer:?}") };
    assert!((30_000..60_000).contains(&age_ms) && (3..=8).contains(&answer.streams), "{answer:?}");
    // Not by what was asked for.
    let other = changed(asked, |spec| spec.sampling.sampler = Some(SamplerKind::Native));
    assert!(matches!(ask(&estimator, &other).await, Err(EstimateError::Unknown(_))));
}

#[tokio::test]
async fn two_who_ask_at_once_measure_once() {
    let place = Place::new().await;
    let estimator = place.estimator(&format!("sleep 0.1\n{PROBE}"));
    let (small, large) = (request(ByteCount::gib(10)), request(ByteCount::gib(20)));
    let (one, other) = tokio::join!(ask(&estimator, &small), ask(&estimator, &large));
    let (one, other) = (one.expect("an answer"), other.expect("an answer"));
    assert_eq!(one.origin, EstimateOrigin::Sampled);
    assert!(is_from_history(&other) && other.bytes == ByteCount::gib(20), "{other:?}");
    assert_eq!(place.kept().await, 4);
}

#[tokio::test]
async fn who_waits_for_a_path_sees_how_sampling_goes() {
    let place = Place::new().await;
    let estimator = place.estimator(&format!("sleep 0.1\n{PROBE}"));
    let (one, other) = (request(ByteCount::gib(10)), request(ByteCount::gib(20)));
    let mut heard = Vec::new();
    let mut hear = |event| heard.push(event);
    let (one, other) = tokio::join!(ask(&estimator, &one), estimator.estimate(&other, &mut hear));
    assert!(one.is_ok() && is_from_history(&other.expect("an answer")));
    assert_eq!(heard.first(), Some(&SamplingEvent::Waiting), "{heard:?}");
    let sampled = heard.iter().filter(|event| matches!(event, SamplingEvent::Sampled(_))).count();
    assert_eq!(sampled, 4, "{heard:?}");
}

#[tokio::test]
async fn samples_of_others_keep_nobody_from_an_answer_of_history() {
    let place = Place::new().await;
    let estimator = place.estimator("exec sleep 600");
    place.history.record(&known(&Circumstances::default(), Method::Native, 50)).await.expect("kept");
    // More than are sampled at the same time.
    let mut sampling: Vec<_> = (0..9)
        .map(|n| {
            let (estimator, to) = (estimator.clone(), format!("tg://ticket@dtn{}.example.org/x", n + 20));
            let asked = EstimateRequest::new("/data", to, ByteCount::gib(10));
            tokio::spawn(async move { ask(&estimator, &asked).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let asked = of_history(request(ByteCount::gib(10)));
    let answer = tokio::time::timeout(Duration::from_secs(60), ask(&estimator, &asked)).await;
    assert!(is_from_history(&answer.expect("it waits for none").expect("known")));
    assert!(sampling.iter().all(|one| !one.is_finished()));
    sampling.drain(..).for_each(|one| one.abort());
}

#[tokio::test]
async fn failures_are_one_line_or_an_older_answer() {
    let place = Place::new().await;
    let asked = request(ByteCount::gib(10));
    let scripts = [
        ("echo 'tidegate: the endpoint at dtn1:7117 refused: no' >&2; exit 1", "refused: no"),
        ("echo garbage", "cannot be read"),
        ("exec head -c 100000 /dev/urandom", "cannot be read"),
        ("kill -9 $$", "signal"),
    ];
    for (script, part) in scripts {
        let error = ask(&place.estimator(script), &asked).await.expect_err(script);
        assert!(matches!(&error, EstimateError::Unknown(why) if why.contains(part)), "{error:?}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
    let nothing = PROBE.replace("100000000))", "0))");
    let error = ask(&place.estimator(&nothing), &asked).await.expect_err("nothing moved");
    assert!(error.to_string().contains("nothing came through"), "{error}");
    assert_eq!(place.kept().await, 0);
    // What fails on the way ends sampling early, and says so.
    let until_two = format!("case \"$told\" in *fixed:4*) exit 1;; esac\n{PROBE}");
    let answer = ask(&place.estimator(&until_two), &asked).await.expect("an answer");
    assert!(answer.samples.len() == 2 && answer.notes[0].contains("ended early"), "{answer:?}");
    // And once something is known, that is told.
    let answer = ask(&place.estimator("exit 1"), &asked).await.expect("an answer");
    assert!(is_from_history(&answer) && answer.notes[0].contains("could not be measured"), "{answer:?}");
}

#[tokio::test]
async fn a_history_that_is_lost_holds_nobody_up() {
    let place = Place::new().await;
    let estimator = place.estimator(PROBE);
    place.history.close().await;
    let asked = of_history(request(ByteCount::gib(10)));
    let answer = ask(&estimator, &asked).await.expect("an answer");
    assert_eq!((answer.origin, answer.streams), (EstimateOrigin::Sampled, 4));
    assert!(answer.notes.iter().any(|note| note.contains("not remembered")), "{answer:?}");
}

#[tokio::test]
async fn giving_up_ends_the_program_and_frees_the_path() {
    let place = Place::new().await;
    let estimator = place.estimator("exec sleep 600");
    let asked = request(ByteCount::gib(10));
    let given_up = tokio::time::timeout(Duration::from_millis(300), ask(&estimator, &asked)).await;
    assert!(given_up.is_err());
    program(place.directory.path(), PROBE);
    assert_eq!(ask(&estimator, &asked).await.expect("an answer").streams, 4);
}

/// A path of which samples are known, as taken an hour ago.
fn known(circumstances: &Circumstances, method: Method, mbps: u64) -> Vec<Record> {
    known_between(&pair(), circumstances, method, mbps)
}

fn known_between(pair: &Pair, circumstances: &Circumstances, method: Method, mbps: u64) -> Vec<Record> {
    let sample = |streams: u32| {
        Record::from(Sample {
            pair: pair.clone(),
            method,
            streams,
            throughput: BitRate::mbps(mbps * u64::from(streams.min(4))),
            bytes: ByteCount::mib(10),
            duration: Duration::from_secs(1),
            circumstances: circumstances.clone(),
            at: Timestamp::now().before(Duration::from_secs(3600)),
        })
    };
    [1, 2, 4, 8].map(sample).to_vec()
}

fn rounded(answer: &Answer) -> Option<f64> {
    answer.throughput_bps.map(|rate| (rate.as_mbps() / 10.0).round() * 10.0)
}

#[tokio::test]
async fn a_rate_answers_for_the_conditions_it_was_measured_under() {
    let place = Place::new().await;
    let under = |conditions: Conditions| Circumstances {
        conditions: Some(conditions),
        beside: Some(Beside::default()),
    };
    let limited = Conditions {
        limits_bps: [("network".to_owned(), BitRate::mbps(20))].into(),
        ..Conditions::default()
    };
    let mut records = known(&under(Conditions { clear: true, ..Conditions::default() }), Method::Native, 90);
    records.extend(known(&under(limited.clone()), Method::Native, 20));
    // Nothing is said of these.
    records.extend(known(&Circumstances::default(), Method::Native, 50));
    place.history.record(&records).await.expect("kept");
    let estimator = place.estimator("exit 1");
    let asked = |terms| of_history(changed(request(ByteCount::gib(1)), |spec| spec.terms = terms));
    let clear =
        ask(&estimator, &asked(SampledTerms { data_plane: DataPlane::Clear, ..SampledTerms::default() }))
            .await
            .expect("known");
    assert_eq!((rounded(&clear), clear.notes.len()), (Some(360.0), 0), "{clear:?}");
    let limit = SampledTerms { limit_network: Some(BitRate::mbps(20)), ..SampledTerms::default() };
    let slow = ask(&estimator, &asked(limit.clone())).await.expect("known");
    assert_eq!((rounded(&slow), slow.notes.len()), (Some(80.0), 0), "{slow:?}");
    let loose = ask(&estimator, &asked(SampledTerms::default())).await.expect("known");
    assert_eq!(rounded(&loose), Some(200.0), "{loose:?}");
    assert!(loose.notes.iter().any(|note| note.contains("nothing is known of data plane")), "{loose:?}");
    // Who keeps to another limit is not answered by what is said of none.
    let other = SampledTerms { limit_network: Some(BitRate::mbps(30)), ..limit };
    assert!(matches!(ask(&estimator, &asked(other)).await, Err(EstimateError::Unknown(_))));
    // What is measured now is kept under its conditions, and no loose one is taken any more.
    let estimator = place.estimator(PROBE);
    let measured = ask(&estimator, &request(ByteCount::gib(10))).await.expect("measured");
    let known = ask(&estimator, &asked(SampledTerms::default())).await.expect("known");
    assert!(is_from_history(&known) && known.throughput_bps == measured.throughput_bps, "{known:?}");
    assert_eq!(known.notes, measured.notes);
}

#[tokio::test]
async fn a_sample_at_another_mtu_is_no_answer() {
    let place = Place::new().await;
    let to = "tg://ticket@127.0.0.1:7117/x";
    let between = Pair::of("/data", to).expect("a pair");
    let text = std::fs::read_to_string("/sys/class/net/lo/mtu").expect("a loopback");
    // No packet of IPv4 is larger.
    let now = ByteCount(text.trim().parse().map(|mtu: u64| mtu.min(65_535)).expect("a number"));
    let at = |mtu_bytes: Option<ByteCount>, mbps| {
        let conditions = Some(Conditions { clear: true, mtu_bytes, ..Conditions::default() });
        let beside = Some(Beside::default());
        known_between(&between, &Circumstances { conditions, beside }, Method::Native, mbps)
    };
    let terms = SampledTerms { data_plane: DataPlane::Clear, ..SampledTerms::default() };
    let new = || EstimateRequest::new("/data", to, ByteCount::gib(10));
    let asked = of_history(changed(new(), |spec| spec.terms = terms.clone()));
    let answer = |script: &'static str| {
        let (estimator, asked) = (place.estimator(script), &asked);
        async move { ask(&estimator, asked).await }
    };
    place.history.record(&at(Some(ByteCount(now.0 / 2)), 90)).await.expect("kept");
    let other = answer("exit 1").await;
    assert!(matches!(other, Err(EstimateError::Unknown(_))), "another MTU is another path: {other:?}");
    // What older versions kept says nothing of it.
    place.history.record(&at(None, 50)).await.expect("kept");
    let old = answer("exit 1").await.expect("known");
    assert!(is_from_history(&old) && rounded(&old) == Some(200.0), "{old:?}");
    assert_eq!(old.notes, ["nothing is known of the path MTU when it was measured"]);
    // Under other conditions besides not even that answers.
    let tls = of_history(new());
    assert!(matches!(ask(&place.estimator("exit 1"), &tls).await, Err(EstimateError::Unknown(_))));
    place.history.record(&at(Some(now), 70)).await.expect("kept");
    let same = answer("exit 1").await.expect("known");
    assert_eq!((rounded(&same), same.notes.len()), (Some(280.0), 0), "{same:?}");
    // What is measured now is kept under the MTU of now.
    let measured =
        ask(&place.estimator(PROBE), &changed(new(), |spec| spec.terms = terms)).await.expect("measured");
    assert_eq!(measured.origin, EstimateOrigin::Sampled);
    let kept = place.history.samples(&between, Timestamp::now().before(Duration::from_secs(60)), true).await;
    let kept = kept.expect("read");
    let mtu = |sample: &Sample| sample.circumstances.conditions.as_ref().and_then(|all| all.mtu_bytes);
    assert!(kept.len() == 4 && kept.iter().all(|sample| mtu(sample) == Some(now)), "{kept:?}");
}

#[tokio::test]
async fn the_models_that_are_asked_for_answer() {
    let place = Place::new().await;
    let asked = |model: ModelSelection| {
        changed(request(ByteCount::gib(10)), |spec| spec.sampling.model = Some(model))
    };
    let ours = ask(&place.estimator(PROBE), &asked(ModelSelection::default())).await.expect("measured");
    // A link with a knee is no curve of EOS's two: the nearer one has its peak beyond.
    let published = ask(&place.estimator(PROBE), &asked(ModelSelection::Published)).await.expect("measured");
    assert_eq!((ours.streams, published.streams), (4, 5), "{ours:?} {published:?}");
    assert_eq!(published.model.map(|model| model.name()), Some("full_second_order"));
    assert_eq!(published.samples.len(), ours.samples.len(), "sampled alike");
    // What was measured for one answers all: history keeps samples, and models are asked anew.
    let estimator = place.estimator("exit 1");
    for model in ModelSelection::ALL {
        let known = of_history(asked(model));
        let known = ask(&estimator, &known).await.expect("known");
        assert!(is_from_history(&known), "{known:?}");
        match (model, known.model) {
            (ModelSelection::Averaged, _) => assert_eq!(known.streams, ours.streams),
            (ModelSelection::Published, _) => assert_eq!(known.streams, published.streams),
            (one, Some(model)) => assert_eq!(model.name(), one.name(), "{known:?}"),
            // Where it does not fit, that is said.
            (one, None) => {
                assert_eq!(one, ModelSelection::DynamicOrder, "{known:?}");
                assert!(known.notes[0].starts_with("dynamic_order does not fit: "), "{known:?}");
            }
        }
    }
}

#[tokio::test]
async fn what_was_measured_beside_our_own_jobs_is_no_capacity() {
    let place = Place::new().await;
    let estimator = place.estimator(&format!("sleep 0.1\n{PROBE}"));
    let mut job = estimator.traffic().join(&pair());
    job.has_moved(ByteCount::mib(64));
    let asked = of_history(request(ByteCount::gib(10)));
    // Two who ask at once share what is measured, since both would measure beside the same job.
    let (one, two) = tokio::join!(ask(&estimator, &asked), ask(&estimator, &asked));
    let (one, two) = (one.expect("an answer"), two.expect("an answer"));
    let (one, two) = if is_from_history(&one) { (two, one) } else { (one, two) };
    assert_eq!((one.origin, &one.notes), (EstimateOrigin::Sampled, &two.notes), "{two:?}");
    assert_eq!(one.beside.map(|beside| beside.jobs), Some(1), "{one:?}");
    assert!(one.notes.iter().any(|note| note.contains("beside 1 job")), "{one:?}");
    assert!(is_from_history(&two), "{two:?}");
    let kept = place.history.samples(&pair(), Timestamp(0), false).await.expect("read");
    assert!(kept.iter().all(|sample| sample.circumstances.beside.is_some_and(|beside| beside.is_shared())));
    drop(job);
    // Alone on the path nobody takes it for what the path holds.
    let alone = ask(&estimator, &asked).await.expect("measured");
    assert_eq!((alone.origin, alone.beside), (EstimateOrigin::Sampled, Some(Beside::default())), "{alone:?}");
    assert!(is_from_history(&ask(&estimator, &asked).await.expect("known")));
}

#[tokio::test]
async fn old_logs_answer_whoever_accepts_their_age_even_where_nothing_samples() {
    let place = Place::new().await;
    let years = |n: u64| Duration::from_secs(n * 366 * 86_400);
    let pair = Pair::of("https://mirror.example.org/x", "/data").expect("a pair");
    let old =
        known(&Circumstances::default(), Method::Transfers, 50).into_iter().map(|record| match record {
            Record::Sample(sample) => {
                Record::from(Sample { pair: pair.clone(), at: Timestamp::now().before(years(3)), ..sample })
            }
            other => other,
        });
    let mut records: Vec<Record> = old.collect();
    // One sample that was too little for an estimate does not hide them.
    let one = known(&Circumstances::default(), Method::Native, 7).remove(0);
    let Record::Sample(one) = one else { panic!("{one:?}") };
    records.push(Record::from(Sample { pair: pair.clone(), ..one }));
    place.history.record(&records).await.expect("kept");
    let estimator = place.estimator("exit 1");
    let asked = |age: Duration| {
        let asked = EstimateRequest::new("https://mirror.example.org/x", "/data", ByteCount::gib(1));
        changed(asked, |spec| {
            spec.sampling.history = HistorySpec { use_history: true, history_age: age };
        })
    };
    let error = ask(&estimator, &asked(years(2))).await.expect_err("too old");
    assert!(matches!(error, EstimateError::Unknown(_)), "{error:?}");
    let answer = ask(&estimator, &asked(years(4))).await.expect("known");
    assert!(is_from_history(&answer) && answer.streams > 1 && rounded(&answer) == Some(200.0), "{answer:?}");
}

#[tokio::test]
async fn of_a_server_that_files_are_got_from_those_are_read() {
    let place = Place::new().await;
    // 10 MB/s a connection up to four, of the very file, told on standard input.
    let script = r#"case $told in '{"ranges":{"urls":["'*'://archive.example.org/x"],'*) ;; *) exit 1;; esac
        n=$(echo "$told" | sed 's/.*"connections":\([0-9]*\).*/\1/'); [ "$n" -gt 4 ] && n=4
        echo "{\"bytes\":1,\"time_us\":1,\"counted_bytes\":${n}0000000,\"counted_us\":1000000,\"end\":\"enough\"}""#;
    let estimator = place.estimator(script);
    for scheme in ["ftp", "https", "s3"] {
        let source = format!("{scheme}://archive.example.org/x");
        let asked = EstimateRequest::new(&source, "/data", ByteCount::gib(100));
        let answer = ask(&estimator, &asked).await.expect("sampled");
        assert_eq!((answer.sampler, answer.streams), (Some(SamplerKind::Ranges), 4), "{answer:?}");
        // It is known by its method, and of a public archive's server no more is asked than it bears.
        let known = of_history(changed(asked, |spec| spec.sampling.sampler = Some(SamplerKind::Ranges)));
        assert!(is_from_history(&ask(&estimator, &known).await.expect("known")));
    }
    let rate = [("optimizer", "fixed"), ("limit_rate", "80Mbit/s")];
    let request =
        Request { options: rate.into(), ..Request::transfer("https://archive.example.org/x", "/data") };
    let request = Request { bytes: Some(ByteCount::gib(100)), ..request };
    let chosen = Chooser::new(estimator, sizes()).estimate(Arc::new(request), 32).await.expect("sampled");
    assert_eq!(chosen.streams, 4);
}

/// By programs that are not there.
fn sizes() -> Sizes {
    Sizes { program: Program { path: "none".into(), setup: Setup::default() }, globus: "none".into() }
}

/// A job from here to the endpoint, of so much that sampling would pay.
fn job(change: impl FnOnce(&mut Request)) -> Arc<Request> {
    let mut request = Request::transfer("/data", DESTINATION);
    request.bytes = Some(ByteCount::gib(10));
    change(&mut request);
    Arc::new(request)
}

#[tokio::test]
async fn a_job_that_adapts_is_not_sampled_unless_it_says_how() {
    let place = Place::new().await;
    let chooser = Chooser::new(place.estimator(PROBE), sizes());
    let rule = |name: &str| job(|job| job.options = [("optimizer", name)].into());
    for request in
        [job(|_| {}), rule("aimd"), rule("coupled:gradient:repaired"), job(|job| job.use_history = true)]
    {
        let why = chooser.estimate(request, 32).await.expect_err("its rule finds out");
        assert!(why.contains("not sampled") && why.lines().count() == 1, "{why}");
    }
    assert_eq!(place.kept().await, 0, "nothing was moved to find out");
    // Who says how, or cannot adapt, or only asks.
    let asked: [fn(&mut Request); 7] = [
        |job| job.sampler = Some(SamplerKind::Native),
        |job| job.sample_ms = Some(400),
        |job| job.always_sample = true,
        |job| job.threshold = Some(Threshold::Relative(0.1)),
        |job| job.model = ModelSelection::Published,
        |job| job.options = [("optimizer", "fixed")].into(),
        |job| job.kind = JobKind::Estimation,
    ];
    for (n, change) in asked.into_iter().enumerate() {
        let estimated = chooser.estimate(job(change), 32).await.expect("an estimate");
        assert!((4..=5).contains(&estimated.streams), "{estimated:?}");
        assert_eq!(place.kept().await, 4 * (n + 1));
    }
    // What is known is begun with, where the job takes it.
    let known = chooser.estimate(job(|job| job.use_history = true), 32).await.expect("known");
    assert_eq!(known.streams, 4);
    assert_eq!(place.kept().await, 28, "and nothing is measured");
}

#[tokio::test]
async fn what_is_older_than_is_taken_answers_nobody_and_is_told_of() {
    let place = Place::new().await;
    let age = Duration::from_secs(1093 * 86_400);
    let aged = |record| match record {
        Record::Sample(sample) => Record::from(Sample { at: Timestamp::now().before(age), ..sample }),
        other => other,
    };
    let old: Vec<Record> =
        known(&Circumstances::default(), Method::Native, 50).into_iter().map(aged).collect();
    place.history.record(&old).await.expect("kept");
    let estimator = place.estimator("exit 1");
    let told = |text: &str| {
        assert!(text.contains("from 1093 days ago") && text.contains("--use-history=1094d"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    };
    // It cannot be measured, or is not worth it: with and without history asked for.
    for use_history in [false, true] {
        let asked =
            changed(request(ByteCount::gib(10)), |spec| spec.sampling.history.use_history = use_history);
        told(&ask(&estimator, &asked).await.expect_err("too old").to_string());
        let small =
            ask(&estimator, &EstimateRequest { bytes: ByteCount(1000), ..asked }).await.expect("an answer");
        assert_eq!((small.origin, small.throughput_bps), (EstimateOrigin::NotSampled, None), "{small:?}");
        told(&small.notes[0]);
    }
    // Who accepts its age is answered, and told of it.
    let chooser = Chooser::new(estimator.clone(), sizes());
    let taken = |days: u64| job(|job| (job.use_history, job.history_age_s) = (true, Some(days * 86_400)));
    told(&chooser.estimate(taken(1000), 32).await.expect_err("too old"));
    let estimated = chooser.estimate(taken(1100), 32).await.expect("known");
    assert!(estimated.reason.contains("from history of 1093 days ago"), "{estimated:?}");
    let asked = changed(request(ByteCount(1000)), |spec| spec.sampling.history.history_age = DAY * 1100);
    assert!(is_from_history(&ask(&estimator, &asked).await.expect("known")));
}

#[tokio::test]
async fn an_estimation_that_says_no_size_asks_its_source() {
    let place = Place::new().await;
    let chooser = Chooser::new(place.estimator(PROBE), sizes());
    let file = place.directory.path().join("data");
    std::fs::File::create(&file).and_then(|file| file.set_len(10 << 30)).expect("made");
    let asked = |source: &str| {
        let mut request = Request::transfer(source, DESTINATION);
        request.kind = JobKind::Estimation;
        Arc::new(request)
    };
    let estimated = chooser.estimate(asked(file.to_str().expect("text")), 32).await.expect("an estimate");
    assert_eq!((estimated.streams, &estimated.answer["bytes"]), (4, &(10_u64 << 30).into()));
    assert!(estimated.reason.contains("10 GiB by the files' sizes"), "{}", estimated.reason);
    let why = chooser.estimate(asked("/no/such/file"), 32).await.expect_err("nobody says");
    assert!(why.contains("does not tell how much it is: say it by bytes"), "{why}");
}
