//! The queue's promises: batches whole or not at all, priorities, dependencies, pages, and one end for each job.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use proptest::prelude::*;
use tempfile::TempDir;
use testkit::postgres::Postgres;
use tidegate_service::job::{Dependency, Event, JobId, Request, State};
use tidegate_service::names::Names;
use tidegate_service::queue::{IdempotencyKey, Note, Queue, QueueError, SharedQueue};

/// Where the queue of a test is.
enum Place {
    File(TempDir),
    Server(#[expect(dead_code, reason = "it runs as long as this is there")] Arc<Postgres>, String),
}

impl Place {
    fn file() -> Self {
        Self::File(tempfile::tempdir().expect("a directory"))
    }

    /// A database of its own on a server that tests which run at the same time share.
    fn server(test: &str) -> Option<Self> {
        static SERVER: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
        let mut shared = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
        let server = match shared.upgrade() {
            Some(server) => server,
            None => match Postgres::start() {
                Ok(server) => Arc::new(server),
                Err(reason) => {
                    testkit::skip(test, &reason);
                    return None;
                }
            },
        };
        *shared = Arc::downgrade(&server);
        let url = server.fresh();
        Some(Self::Server(server, url))
    }

    async fn open(&self) -> Queue {
        match self {
            Self::File(directory) => Queue::open(&directory.path().join("state")).await,
            Self::Server(_, url) => {
                let shared = SharedQueue::open(url).await.expect("opened");
                match shared.try_take("here:1").await {
                    Ok(None) => shared.take("here:1").await,
                    taken => taken.map(|queue| queue.expect("taken")),
                }
            }
        }
        .expect("opened")
    }

    /// A number that the database itself answers with.
    async fn number(&self, question: &'static str) -> i64 {
        sqlx::any::install_default_drivers();
        let url = match self {
            Self::File(directory) => format!("sqlite://{}/state/queue.sqlite3", directory.path().display()),
            Self::Server(_, url) => url.clone(),
        };
        let pool = sqlx::AnyPool::connect(&url).await.expect("opened");
        let count = sqlx::query_scalar(question).fetch_one(&pool).await.expect("counted");
        pool.close().await;
        count
    }
}

/// Each of these on a file of SQLite and on a server of PostgreSQL.
macro_rules! on_both {
    ($($test:ident)*) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $test() {
                super::$test(&super::Place::file()).await;
            })*
        }
        mod postgres {
            $(#[tokio::test]
            async fn $test() {
                let Some(place) = super::Place::server(stringify!($test)) else { return };
                super::$test(&place).await;
            })*
        }
    };
}

on_both! {
    a_batch_under_a_key_is_taken_once_also_after_a_restart
    a_policy_is_kept_once_and_as_long_as_a_job_decides_by_it
    a_batch_with_a_wrong_job_is_refused_whole
    who_waits_is_released_by_success_and_fails_with_a_failure
    what_failed_is_tried_again_alone_or_with_all_that_failed_so
    the_next_is_the_most_urgent_and_then_the_oldest_of_each_pair
    pages_go_from_the_newest_on_without_gaps_or_doubles
    what_ran_goes_back_in_line_and_what_was_asked_of_it_is_done
}

fn named(name: &str, after: &[&str]) -> Request {
    Request {
        name: Some(name.to_owned()),
        after: after.iter().map(|name| Dependency::Name((*name).to_owned())).collect(),
        ..Request::transfer("/a", "tg://host-a/b")
    }
}

async fn happen(queue: &Queue, id: JobId, events: &[Event]) {
    for event in events {
        queue
            .change(id, *event, &Note::why("a test"), 5)
            .await
            .unwrap_or_else(|error| panic!("{event:?}: {error}"));
    }
}

async fn next_ids(queue: &Queue) -> Vec<JobId> {
    queue.next().await.expect("read").into_iter().map(|next| next.id).collect()
}

async fn state(queue: &Queue, id: JobId) -> State {
    queue.get(id).await.expect("read").expect("there").state
}

async fn a_batch_under_a_key_is_taken_once_also_after_a_restart(place: &Place) {
    let queue = place.open().await;
    let key: IdempotencyKey = "run 7".parse().expect("a key");
    let batch = [named("b", &["a"]), named("a", &[])];
    let first = queue.submit_once(Some(&key), &batch, 10).await.expect("taken");
    assert!(!first.repeated && first.ids[0] > first.ids[1], "{first:?}");
    // Several at once are one, too.
    let other: IdempotencyKey = "other".parse().expect("a key");
    let again = || queue.submit_once(Some(&other), &batch[1..], 11);
    let all = tokio::join!(again(), again(), again());
    let all = [all.0, all.1, all.2].map(|one| one.expect("taken"));
    assert_eq!(all.iter().filter(|one| !one.repeated).count(), 1, "{all:?}");
    assert!(all.iter().all(|one| one.ids == all[0].ids), "{all:?}");
    assert_eq!(queue.waiting(), 3);
    queue.close().await;
    drop(queue);
    let queue = place.open().await;
    let repeated = queue.submit_once(Some(&key), &batch, 12).await.expect("known");
    assert_eq!((repeated.ids.clone(), repeated.repeated, queue.waiting()), (first.ids.clone(), true, 3));
    // Something else under the same key is refused, and nothing of it is taken.
    for wrong in [&batch[..1], &[named("b", &[]), named("a", &[])]] {
        let error = queue.submit_once(Some(&key), wrong, 13).await.expect_err("another batch");
        assert_eq!(error, QueueError::Reused(key.clone()));
        assert_eq!(error.to_string().lines().count(), 1);
    }
    // What was refused leaves no key behind.
    let third: IdempotencyKey = "third".parse().expect("a key");
    assert!(queue.submit_once(Some(&third), &[named("x", &["nobody"])], 14).await.is_err());
    assert!(!queue.submit_once(Some(&third), &batch, 14).await.expect("taken").repeated);
    assert_eq!(queue.waiting(), 5);
    // A key is kept while one of its jobs is.
    for id in [first.ids[1], first.ids[0]] {
        happen(&queue, id, &[Event::Claimed, Event::Completed]).await;
    }
    queue.forget(5).await.expect("nothing is that old");
    assert!(queue.submit_once(Some(&key), &batch, 15).await.expect("known").repeated);
    queue.forget(1000).await.expect("forgotten");
    assert!(queue.submit_once(Some(&other), &batch[1..], 16).await.expect("known").repeated);
    assert!(!queue.submit_once(Some(&key), &batch, 17).await.expect("taken").repeated);
}

#[tokio::test]
async fn a_queue_of_the_first_version_is_taken_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let queue = Queue::open(&directory.path().join("state")).await.expect("opened");
    let ids = queue.submit(&[named("a", &[])], 1).await.expect("taken");
    queue.close().await;
    drop(queue);
    let file = directory.path().join("state/queue.sqlite3");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file);
    let pool = sqlx::SqlitePool::connect_with(options).await.expect("opened");
    let back = "DROP TABLE submission; DROP TABLE probe; ALTER TABLE job DROP COLUMN outage_since_ms; DROP INDEX job_policy;
        ALTER TABLE job DROP COLUMN policy; DROP TABLE policy; DROP TABLE tidegate_schema; PRAGMA user_version = 1";
    sqlx::raw_sql(back).execute(&pool).await.expect("as it was");
    pool.close().await;
    let queue = Queue::open(&directory.path().join("state")).await.expect("opened");
    assert_eq!(state(&queue, ids[0]).await, State::Queued);
    let key: IdempotencyKey = "k".parse().expect("a key");
    assert!(!queue.submit_once(Some(&key), &[named("b", &[])], 2).await.expect("taken").repeated);
    assert!(queue.submit_once(Some(&key), &[named("b", &[])], 2).await.expect("known").repeated);
}

async fn a_policy_is_kept_once_and_as_long_as_a_job_decides_by_it(place: &Place) {
    const POLICY: &[u8] = include_bytes!("../../../control/policies/universal.safetensors");
    let queue = place.open().await;
    let mut learned = Request::transfer("/a", "/b").with_policy(POLICY);
    learned.options = [("optimizer", "policy")].into();
    let ids = queue.submit(&[learned.clone(), learned, named("c", &[])], 1).await.expect("taken");
    assert_eq!(queue.policy(ids[0]).await.expect("read").as_deref(), Some(POLICY));
    assert_eq!(queue.policy(ids[2]).await, Ok(None));
    // A page of jobs has no policies in it.
    let page = queue.page(&[], None, 10).await.expect("read");
    assert!(page.iter().all(|job| job.request.policy.as_ref().is_none_or(|policy| policy.len() < 100)));
    let kept = async || place.number("SELECT count(*) FROM policy").await;
    assert_eq!(kept().await, 1);
    happen(&queue, ids[0], &[Event::Claimed, Event::Completed]).await;
    queue.forget(1000).await.expect("forgotten");
    assert_eq!(queue.policy(ids[1]).await.expect("read").as_deref(), Some(POLICY));
    happen(&queue, ids[1], &[Event::Claimed, Event::Completed]).await;
    queue.forget(1000).await.expect("forgotten");
    assert_eq!(kept().await, 0);
}

#[tokio::test]
async fn a_named_endpoint_counts_where_it_is_and_its_ticket_is_not_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let queue = Queue::open(&directory.path().join("state")).await.expect("opened");
    let queue = queue.with_names(Names::new(|name| match name {
        "dtn" | "same" => Ok("tg://TICKETsecret@dtn1:7117/".to_owned()),
        "other" => Ok("tg://TICKETsecret@dtn2:7117/".to_owned()),
        _ => Err(format!("no endpoint is called '{name}'")),
    }));
    let taken = [Request::transfer("dtn:/a", "/b"), Request::transfer("tg://T@dtn1:7117/x", "/b")];
    queue.submit(&taken, 1).await.expect("taken");
    // They share one path, and so its limit: there is one next between these sites.
    let next = queue.next().await.expect("read");
    assert_eq!(next.len(), 1, "{next:?}");
    assert_eq!(next[0].pair.to_string(), "tg://dtn1:7117 → local");
    assert_eq!(next[0].request.sources, ["dtn:/a"]);
    let mut both = Request::transfer("dtn:/a", "/b");
    both.sources.push("same:/c".to_owned());
    assert!(queue.submit(std::slice::from_ref(&both), 1).await.is_ok());
    both.sources.push("other:/c".to_owned());
    for (request, why) in [(both, "several sites"), (Request::transfer("/a", "nobody:/b"), "called 'nobody'")]
    {
        let error = queue.submit(&[request], 1).await.expect_err("refused").to_string();
        assert!(error.contains(why) && !error.contains("secret"), "{error}");
    }
    queue.close().await;
    for entry in std::fs::read_dir(directory.path().join("state")).expect("listed").flatten() {
        let bytes = std::fs::read(entry.path()).expect("read");
        assert!(!bytes.windows(6).any(|bytes| bytes == b"secret"), "{}", entry.path().display());
    }
}

#[tokio::test]
async fn a_job_is_kept_as_it_was_asked_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let queue = Queue::open(&directory.path().join("state")).await.expect("opened");
    let request = Request { priority: -3, retries: 2, ..Request::transfer("/a", "tg://FPR:secret@host/b") };
    let ids = queue.submit(std::slice::from_ref(&request), 42).await.expect("taken");
    let job = queue.get(ids[0]).await.expect("read").expect("there");
    assert_eq!((&job.request, job.state, job.submitted_ms, job.attempts), (&request, State::Queued, 42, 0));
    assert_eq!(queue.get(JobId::new(99).expect("a number")).await, Ok(None));
    // The file holds tickets.
    use std::os::unix::fs::PermissionsExt;
    for entry in std::fs::read_dir(directory.path().join("state")).expect("listed").flatten() {
        let mode = entry.metadata().expect("known").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", entry.path().display());
    }
    let other = Queue::open(&directory.path().join("state")).await.expect_err("in use");
    assert!(matches!(other, QueueError::Busy(_)), "{other}");
    queue.close().await;
    drop(queue);
    let queue = Queue::open(&directory.path().join("state")).await.expect("opened again");
    assert_eq!((queue.get(ids[0]).await.expect("read"), queue.waiting()), (Some(job), 1));
}

async fn a_batch_with_a_wrong_job_is_refused_whole(place: &Place) {
    let queue = place.open().await;
    let first = queue.submit(&[named("x", &[])], 1).await.expect("taken")[0];
    happen(&queue, first, &[Event::Cancel]).await;
    let with_elder = |id: u64| Request {
        after: vec![Dependency::Id(JobId::new(id).expect("a number"))],
        ..Request::transfer("/a", "/b")
    };
    for (batch, number, wanted) in [
        (vec![named("a", &[]), Request::transfer("a", "/b")], 2, "relative"),
        (vec![named("a", &[]), named("a", &[])], 2, "called \"a\""),
        (vec![named("a", &["b"])], 1, "no job of the batch"),
        (vec![named("a", &["a"])], 1, "a → a"),
        (
            vec![named("z", &["a"]), named("a", &["c"]), named("b", &["a"]), named("c", &["b"])],
            2,
            "a → c → b → a",
        ),
        (vec![with_elder(77)], 1, "does not exist"),
        (vec![named("a", &[]), with_elder(first.get())], 2, "cancelled"),
    ] {
        let error = queue.submit(&batch, 1).await.expect_err("refused");
        let QueueError::Refused { number: found, message } = &error else { panic!("{error}") };
        assert!(*found == number && message.contains(wanted), "{error}");
    }
    assert_eq!(queue.page(&[], None, 100).await.expect("read").len(), 1);
    assert_eq!(queue.waiting(), 0);
}

async fn who_waits_is_released_by_success_and_fails_with_a_failure(place: &Place) {
    let queue = place.open().await;
    // Named before the one it waits for.
    let batch = [named("last", &["a", "b"]), named("a", &[]), named("b", &["a"]), named("after", &["last"])];
    let ids = queue.submit(&batch, 1).await.expect("taken");
    let [last, a, b, after] = ids[..] else { panic!("{ids:?}") };
    assert!(a < b && b < last && last < after);
    assert_eq!(state(&queue, last).await, State::Blocked);
    assert_eq!(next_ids(&queue).await, [a]);
    // One that rests stays at rest when it is released, and need not wait when it is resumed.
    happen(&queue, b, &[Event::Pause]).await;
    happen(&queue, a, &[Event::Claimed]).await;
    let done = queue.change(a, Event::Completed, &Note::why("done"), 9).await.expect("done");
    assert_eq!((done.to, done.released), (State::Done, vec![]));
    happen(&queue, b, &[Event::Resume { blocked: true }]).await;
    assert_eq!(state(&queue, b).await, State::Queued);
    happen(&queue, last, &[Event::Pause, Event::Resume { blocked: false }]).await;
    assert_eq!(state(&queue, last).await, State::Blocked);
    happen(&queue, b, &[Event::Claimed]).await;
    let failed = queue.change(b, Event::GaveUp, &Note::why("no\nspace"), 10).await.expect("failed");
    assert_eq!(failed.doomed, [last, after]);
    let job = queue.get(after).await.expect("read").expect("there");
    assert_eq!((job.state, job.ended_ms), (State::Failed, Some(10)));
    assert_eq!(job.reason, format!("it waited for job {last}, which failed"));
    assert_eq!(queue.get(b).await.expect("read").expect("there").reason, "no space");
    assert_eq!(queue.waiting(), 0);
    // Nobody ends twice.
    let again = queue.change(b, Event::Completed, &Note::default(), 11).await.expect_err("refused");
    assert!(matches!(again, QueueError::Illegal(..)), "{again}");
    let elder = Request { after: vec![Dependency::Id(a)], ..Request::transfer("/a", "/b") };
    let id = queue.submit(&[elder], 12).await.expect("taken")[0];
    assert_eq!(state(&queue, id).await, State::Queued);
}

async fn what_failed_is_tried_again_alone_or_with_all_that_failed_so(place: &Place) {
    let queue = place.open().await;
    let batch =
        [named("a", &[]), named("b", &["a"]), named("c", &["a", "d"]), named("d", &[]), named("e", &[])];
    let ids = queue.submit(&batch, 1).await.expect("taken");
    for (id, reason) in [
        (ids[0], "h: nobody answers (given up after 1 day)"),
        (ids[3], "h: nobody answers (given up after 2 days)"),
        (ids[4], "h: nobody answers (as ever)"),
    ] {
        queue.change(id, Event::Claimed, &Note::default(), 2).await.expect("claimed");
        let note = Note { outage_since_ms: Some(2), ..Note::why(reason) };
        queue.change(id, Event::Broke, &note, 2).await.expect("broke");
        queue.change(id, Event::Due, &note, 2).await.expect("due");
        queue.change(id, Event::Claimed, &note, 2).await.expect("claimed");
        assert_eq!(queue.get(id).await.expect("read").expect("there").outage_since_ms, Some(2));
        queue.change(id, Event::GaveUp, &note, 2).await.expect("given up");
    }
    assert_eq!(queue.waiting(), 0);
    let error = queue.retry(ids[1], &Note::default(), 3).await.expect_err("what it waits for has failed");
    assert_eq!(error, QueueError::Held { id: ids[1], by: ids[0], state: State::Failed });
    let changed = queue.retry(ids[0], &Note::why("again"), 3).await.expect("waits again");
    assert_eq!(changed.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [ids[0], ids[1]], "c waits for d too");
    let job = queue.get(ids[0]).await.expect("read").expect("there");
    assert_eq!((job.state, job.failures, job.outage_since_ms, job.ended_ms), (State::Queued, 0, None, None));
    assert_eq!(state(&queue, ids[1]).await, State::Blocked);
    assert!(matches!(queue.retry(ids[0], &Note::default(), 3).await, Err(QueueError::Illegal(..))));
    // One that waits to be tried again need not be waited for, and waits already.
    happen(&queue, ids[0], &[Event::Claimed, Event::Broke]).await;
    let waiting = queue.waiting();
    let changed = queue.retry(ids[0], &Note::why("at once"), 3).await.expect("at once");
    assert_eq!((changed.len(), changed[0].1.from, changed[0].1.to), (1, State::Retrying, State::Queued));
    assert_eq!(queue.waiting(), waiting);
    // The same cause is the same whatever time was tried.
    let reason = "h: nobody answers (given up after 9 s)";
    let alike = queue.retry_alike(reason, (ids[1], None), &Note::default(), 4).await;
    let (alike, last) = alike.expect("wait again");
    assert_eq!(alike.into_iter().map(|(id, _)| id).collect::<Vec<_>>(), [ids[3], ids[2]]);
    assert_eq!(last, Some(ids[3]));
    assert_eq!((state(&queue, ids[4]).await, queue.waiting()), (State::Failed, 4));
    // Who has failed again since is not tried in a circle.
    happen(&queue, ids[3], &[Event::Claimed, Event::Broke]).await;
    let again = queue.retry_alike(reason, (ids[1], last), &Note::default(), 4).await;
    assert_eq!(again.expect("none"), (Vec::new(), None));
    queue.retry(ids[3], &Note::default(), 4).await.expect("at once");
    for id in [ids[0], ids[3]] {
        happen(&queue, id, &[Event::Claimed, Event::Completed]).await;
    }
    assert_eq!((state(&queue, ids[1]).await, state(&queue, ids[2]).await), (State::Queued, State::Queued));
}

async fn the_next_is_the_most_urgent_and_then_the_oldest_of_each_pair(place: &Place) {
    let queue = place.open().await;
    let to = |host: &str, priority| Request { priority, ..Request::transfer("/a", format!("tg://{host}/b")) };
    let batch = [to("x", 0), to("x", 5), to("y", 1), to("x", 5), to("y", 1), to("z", -1)];
    let ids = queue.submit(&batch, 1).await.expect("taken");
    let found = queue.next().await.expect("read");
    assert_eq!(found.iter().map(|next| next.id).collect::<Vec<_>>(), [ids[1], ids[2], ids[5]]);
    assert_eq!(found[0].pair.destination.as_str(), "tg://x");
    happen(&queue, ids[1], &[Event::Claimed]).await;
    happen(&queue, ids[2], &[Event::Claimed, Event::Broke]).await;
    assert_eq!(next_ids(&queue).await, [ids[3], ids[4], ids[5]]);
    // One that is to be tried again comes back when it is due, and in its turn.
    let note = Note { not_before_ms: Some(100), ..Note::why("lost") };
    happen(&queue, ids[4], &[Event::Claimed]).await;
    queue.change(ids[4], Event::Broke, &note, 50).await.expect("broke");
    assert_eq!(queue.release_due(99).await, Ok(Some(100)));
    assert_eq!(next_ids(&queue).await, [ids[3], ids[5]]);
    assert_eq!(queue.release_due(100).await, Ok(None));
    assert_eq!(next_ids(&queue).await, [ids[3], ids[4], ids[5]]);
    assert_eq!(queue.get(ids[4]).await.expect("read").expect("there").not_before_ms, None);
}

async fn pages_go_from_the_newest_on_without_gaps_or_doubles(place: &Place) {
    let queue = place.open().await;
    let batch: Vec<Request> = (0..250).map(|_| Request::transfer("/a", "tg://h/b")).collect();
    let ids = queue.submit(&batch, 1).await.expect("taken");
    for &id in ids.iter().step_by(3) {
        happen(&queue, id, &[Event::Cancel]).await;
    }
    for states in [vec![], vec![State::Queued], vec![State::Cancelled, State::Queued, State::Queued]] {
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let page = queue.page(&states, before, 70).await.expect("read");
            let Some(last) = page.last() else { break };
            before = Some(last.id);
            seen.extend(page.iter().map(|job| job.id));
        }
        let wanted = ids.iter().enumerate().rev().filter(|(i, _)| states != [State::Queued] || i % 3 > 0);
        assert_eq!(seen, wanted.map(|(_, id)| *id).collect::<Vec<_>>(), "{states:?}");
    }
    let counts = queue.counts().await.expect("read");
    assert_eq!((counts[&State::Cancelled], counts[&State::Queued], counts[&State::Done]), (84, 166, 0));
    assert_eq!(queue.waiting(), 166);
    assert_eq!(queue.forget(5).await, Ok(0));
    assert_eq!(queue.forget(6).await, Ok(84));
    assert_eq!(queue.page(&[], None, 1000).await.expect("read").len(), 166);
}

async fn what_ran_goes_back_in_line_and_what_was_asked_of_it_is_done(place: &Place) {
    let queue = place.open().await;
    let batch: Vec<Request> = (0..4).map(|_| Request::transfer("/a", "tg://h/b")).collect();
    let ids = queue.submit(&batch, 1).await.expect("taken");
    happen(&queue, ids[0], &[Event::Claimed]).await;
    happen(&queue, ids[1], &[Event::Claimed, Event::Pause]).await;
    happen(&queue, ids[2], &[Event::Claimed, Event::Cancel]).await;
    let wanted = vec![(ids[0], State::Queued), (ids[1], State::Paused), (ids[2], State::Cancelled)];
    assert_eq!(queue.recover(7).await, Ok(wanted));
    assert_eq!(queue.recover(8).await, Ok(vec![]));
    let job = queue.get(ids[0]).await.expect("read").expect("there");
    assert_eq!((job.attempts, &job.reason[..]), (1, "the service was restarted"));
    assert_eq!(queue.waiting(), 3);
}

#[tokio::test]
async fn of_those_who_share_a_queue_one_works_and_who_lost_it_changes_nothing() {
    let Some(place) = Place::server("of_those_who_share_a_queue_one_works_and_who_lost_it_changes_nothing")
    else {
        return;
    };
    let first = place.open().await;
    let ids = first.submit(&[named("a", &[]), named("b", &[])], 1).await.expect("taken");
    let second = tokio::spawn(async move { (place.open().await, place) });
    // Its time is renewed: nothing is taken from who works.
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    assert!(!second.is_finished());
    first.close().await;
    let (second, place) = second.await.expect("opened once the first was closed");
    assert_eq!(second.waiting(), 2);
    // As where it was stopped for longer than it held the queue.
    let over = "UPDATE queue_lease SET until_ms = 0 RETURNING 1::BIGINT";
    assert_eq!(place.number(over).await, 1);
    let third = place.open().await;
    happen(&third, ids[0], &[Event::Claimed]).await;
    let late = second.change(ids[0], Event::Completed, &Note::default(), 9).await.expect_err("too late");
    assert!(matches!(late, QueueError::Busy(_)) && !late.to_string().contains("sesame"), "{late}");
    assert!(matches!(second.submit(&[named("c", &[])], 9).await, Err(QueueError::Busy(_))));
    second.taken_over().await;
    second.close().await;
    // Whoever has lost it does not give it away.
    happen(&third, ids[0], &[Event::Completed]).await;
    assert_eq!((state(&third, ids[0]).await, third.waiting()), (State::Done, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn whatever_happens_numbers_add_up_and_each_job_ends_once(
        events in prop::collection::vec((0..12_usize, 0..10_usize), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let queue = Place::file().open().await;
            let mut batch: Vec<Request> = (0..8).map(|i| named(&format!("j{i}"), &[])).collect();
            for i in 8..12 {
                batch.push(named(&format!("j{i}"), &[&format!("j{}", i - 4), &format!("j{}", i - 8)]));
            }
            let ids = queue.submit(&batch, 1).await.expect("taken");
            let all = [Event::Due, Event::Claimed, Event::Completed, Event::Broke, Event::GaveUp, Event::Stopped,
                Event::Pause, Event::Resume { blocked: false }, Event::Cancel, Event::Claimed];
            let mut ended = std::collections::HashSet::new();
            for (job, event) in events {
                if let Ok(change) = queue.change(ids[job], all[event], &Note::why("a test"), 2).await {
                    if change.to.is_final() {
                        assert!(ended.insert(ids[job]));
                    }
                    for doomed in change.doomed {
                        assert!(ended.insert(doomed));
                    }
                }
            }
            let jobs = queue.page(&[], None, 100).await.expect("read");
            assert_eq!(jobs.iter().filter(|job| job.state.is_final()).count(), ended.len());
            assert_eq!(queue.waiting(), (12 - ended.len()) as u64);
            for job in &jobs {
                // Who is not held back by anybody does not wait.
                assert!(!(job.state == State::Blocked && job.waits_for == 0), "{job:?}");
                assert!(!(job.state == State::Queued && job.waits_for > 0), "{job:?}");
            }
        });
    }
}
