//! Jobs, estimates and history over HTTP: what is answered, page by page and live, and what is refused.

use crate::door;
use crate::door::asked::Asked;
use crate::door::client::{PATIENCE, raw, request};
use serde_json::{Value, json};
use tidegate_transfer::wire::ticket::{Claims, Ticket};
use tokio::time::timeout;

/// A ticket of no endpoint that there is.
fn ticket() -> String {
    Ticket { fingerprint: [1; 32], key: [2; 32], claims: Claims::FULL.encode() }.encode()
}

fn transfer(i: u64) -> Value {
    let destination = format!("tg://{}@dtn.example.org:7117/in", ticket());
    json!({"source": format!("/data/{i}"), "destination": destination, "optimization": false})
}

#[tokio::test]
async fn jobs_are_taken_listed_followed_and_cancelled() {
    let service = Asked::start().await;
    let answer = service.post("/api/v1/jobs", &transfer(1)).await;
    assert_eq!((answer.status, answer.json()), (201, json!({"ids": [1]})));
    let events = service.events("/api/v1/jobs/1/epochs").await;
    let (last, before) = events.split_last().expect("events");
    assert_eq!((last.0.as_str(), last.1["state"].as_str()), ("end", Some("done")));
    let epochs: Vec<u64> = before
        .iter()
        .filter(|(name, _)| name == "epoch")
        .filter_map(|(_, epoch)| epoch["t_ms"].as_u64())
        .collect();
    assert_eq!(epochs, (1..=door::EPOCHS).map(|i| i * 100).collect::<Vec<_>>());
    let job = service.get("/api/v1/jobs/1").await;
    assert_eq!((job["actions"].clone(), job["summary"]["verified"].clone()), (json!([]), json!(true)));
    assert!(job["decisions"].is_array() && !job.to_string().contains(&ticket()), "{job}");

    // Half a ticket is noticed before anything is taken.
    let half = json!({"source": "/a", "destination": format!("tg://{}@h/b", &ticket()[..60])});
    let answer = service.post("/api/v1/jobs", &json!([transfer(2), half])).await;
    let told = answer.json().to_string();
    assert!(
        answer.status == 400 && told.contains("job 2 of the batch") && told.contains("damaged"),
        "{told}"
    );
    assert!(!told.contains(&ticket()[..60]), "{told}");

    // A batch of each kind; more of them than may run at a time.
    let batch: Vec<Value> = (0..40).map(transfer).collect();
    assert_eq!(service.post("/api/v1/jobs", &json!(batch)).await.status, 201);
    let toml = "[[job]]\nname = \"a\"\nsource = \"/a\"\ndestination = \"tg://h/b\"\npriority = -9\n\
                [[job]]\nsource = \"/a\"\ndestination = \"tg://h/b\"\nafter = [\"a\"]\npriority = -9\n";
    let answer = service.ask("POST", "/api/v1/jobs", "application/toml", toml).await;
    assert_eq!((answer.status, answer.json()), (201, json!({"ids": [42, 43]})));
    let ad = "[ dap_type = transfer; src_url = \"file:///a\"; dest_url = \"gsiftp://h/b\"; ]";
    let answer = service.ask("POST", "/api/v1/jobs", "application/x-classad; charset=utf-8", ad).await;
    assert_eq!((answer.status, answer.json()), (201, json!({"ids": [44]})));
    assert_eq!(service.get("/api/v1/jobs/43").await["state"], "blocked");

    let mut seen = Vec::new();
    let mut path = "/api/v1/jobs?limit=13".to_owned();
    loop {
        let page = service.get(&path).await;
        seen.extend(page["jobs"].as_array().expect("jobs").iter().filter_map(|job| job["id"].as_u64()));
        assert_eq!(
            page["counts"].as_object().expect("counts").values().filter_map(Value::as_u64).sum::<u64>(),
            44
        );
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/jobs?limit=13&cursor={next}");
    }
    assert_eq!(seen, (1..=44).rev().collect::<Vec<_>>());
    let blocked = service.get("/api/v1/jobs?state=blocked").await;
    assert_eq!(blocked["jobs"].as_array().map(Vec::len), Some(1));

    let cancelled = service.post("/api/v1/jobs/42/cancel", &Value::Null).await;
    assert!(cancelled.status == 200 && cancelled.json()["id"] == 42, "{cancelled:?}");
    service.until(42, "cancelled").await;
    // What waited for it cannot be done any more.
    let doomed = service.until(43, "failed").await;
    assert!(doomed["reason"].as_str().is_some_and(|why| why.contains("42")), "{doomed}");
    let again = service.post("/api/v1/jobs/42/cancel", &Value::Null).await;
    assert!(
        again.status == 409 && again.json()["detail"].as_str().is_some_and(|why| why.contains("cancelled"))
    );
    let paused = service.post("/api/v1/jobs/41/pause", &Value::Null).await;
    assert_eq!(paused.status, 200, "{paused:?}");
    service.until(41, "paused").await;
    assert_eq!(service.post("/api/v1/jobs/41/resume", &Value::Null).await.status, 200);
    // Jobs are counted for a tenth of the time: on a busy machine the last count may be a while old.
    let counted = async {
        let wanted = "tidegate_jobs{state=\"cancelled\"} 1\n";
        while !service.ask("GET", "/metrics", "", "").await.text().contains(wanted) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, counted).await.expect("the cancelled job is counted");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_nothing_of_it_is_taken() {
    let service = Asked::start().await;
    let bad = json!({"source": "/a", "destination": "gopher://h/x"});
    for (path, kind, body, status, wanted) in [
        ("/api/v1/jobs", "application/json", "{", 400, "line 1"),
        ("/api/v1/jobs", "application/json", "[]", 400, "no job"),
        ("/api/v1/jobs", "text/plain", "{}", 415, "content-type"),
        ("/api/v1/jobs", "application/toml", "source = 1", 400, "line 1"),
        ("/api/v1/jobs", "application/x-classad", "[ a = ", 400, "line 1"),
        ("/api/v1/jobs", "application/json", &json!([transfer(1), bad]).to_string(), 400, "gopher"),
        (
            "/api/v1/jobs",
            "application/json",
            "[{\"source\":\"/a\",\"destination\":\"/b\",\"after\":[99]}]",
            400,
            "99",
        ),
        (
            "/api/v1/estimates",
            "application/json",
            "{\"source\":\"/a\"}",
            422,
            "cannot be read: missing field",
        ),
        ("/api/v1/estimates", "application/json", "{", 400, "the body is no JSON"),
        (
            "/api/v1/estimates",
            "application/json",
            "{\"source\":\"/a\",\"destination\":\"/b\",\"bytes\":1}",
            400,
            "sampler",
        ),
        (
            "/api/v1/estimates",
            "application/json",
            "{\"source\":\"/a\",\"destination\":\"tg://b/c\",\"bytes\":1,\"model\":\"newton\"}",
            422,
            "dynamic_order",
        ),
        (
            "/api/v1/jobs",
            "application/json",
            "{\"source\":\"/a\",\"destination\":\"tg://b/c\",\"model\":\"newton\"}",
            400,
            "dynamic_order",
        ),
        ("/api/v1/estimates", "text/plain", "{}", 415, "Content-Type"),
        ("/api/v1/jobs/9/cancel", "", "", 404, "no job 9"),
        ("/api/v1/jobs/x/cancel", "", "", 400, "number"),
    ] {
        let answer = service.ask("POST", path, kind, body).await;
        assert_eq!(answer.status, status, "{path} {body}: {answer:?}");
        let problem = answer.json();
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(wanted) && !detail.contains('\n'), "{path} {body}: {problem}");
        assert!(problem["advice"].as_str().is_some_and(|advice| !advice.is_empty()), "{problem}");
    }
    for (path, wanted) in [
        ("/api/v1/jobs?state=x", "state"),
        ("/api/v1/jobs?cursor=x", "number"),
        ("/api/v1/jobs?limit=-1", "the query cannot be read: limit"),
        ("/api/v1/jobs?page=3", "page"),
        ("/api/v1/jobs/0", "number"),
        ("/api/v1/history/samples?cursor=x", "cursor"),
        ("/api/v1/history/samples?source=http://", "host"),
    ] {
        let answer = service.ask("GET", path, "", "").await;
        assert_eq!(answer.status, 400, "{path}: {answer:?}");
        assert!(answer.text().contains(wanted), "{path}: {}", answer.text());
    }
    assert_eq!(service.get("/api/v1/jobs").await["jobs"], json!([]));
    let answer = service.ask("GET", "/api/v1/jobs/9/epochs", "", "").await;
    assert_eq!(answer.status, 404);
}

#[tokio::test]
async fn sizes_of_nothing_and_of_ten_petabytes_are_answered() {
    let service = Asked::start().await;
    let ask = |bytes: u64| json!({"source": "/a", "destination": "tg://127.0.0.1:1/b", "bytes": bytes, "use_history": true});
    let nothing = service.post("/api/v1/estimates", &ask(0)).await;
    assert_eq!((nothing.status, nothing.json()["time_ms"].clone()), (200, json!(0)), "{nothing:?}");
    // Nobody is there, and there is no program to find out with: a clear error, and the service stays.
    let much = service.post("/api/v1/estimates", &ask(10_000_000_000_000_000)).await;
    assert!(much.status == 502 && much.json()["advice"].is_string(), "{much:?}");
    for kind in ["samples", "estimates", "transfers", "decisions"] {
        let page =
            service.get(&format!("/api/v1/history/{kind}?source=/a&destination=tg://h/&limit=5")).await;
        assert_eq!(page, json!({"records": [], "next": null}), "{kind}");
    }
    assert_eq!(service.get("/api/v1/history/pairs").await["pairs"], json!([]));
    assert_eq!(service.get("/api/v1/endpoints").await["endpoints"], json!([]));
}

#[tokio::test]
async fn a_batch_under_a_key_is_answered_as_the_first_time() {
    let service = Asked::start().await;
    let under = async |key: &[&str], body: &Value| {
        let mut headers = vec![("authorization", &*service.bearer), ("content-type", "application/json")];
        headers.extend(key.iter().map(|key| ("idempotency-key", *key)));
        raw(service.address, &request("POST", "/api/v1/jobs", &headers, &body.to_string())).await
    };
    let batch = json!([transfer(1), transfer(2)]);
    let first = under(&["run-7"], &batch).await;
    assert_eq!((first.status, first.json()), (201, json!({"ids": [1, 2]})));
    let again = under(&["run-7"], &batch).await;
    assert_eq!((again.status, again.json()), (200, json!({"ids": [1, 2], "repeated": true})));
    let other = under(&["run-7"], &json!([transfer(3)])).await;
    assert_eq!((other.status, other.header("content-type")), (409, Some("application/problem+json")));
    let detail = other.json()["detail"].as_str().expect("a detail").to_owned();
    assert!(detail.contains("run-7") && detail.lines().count() == 1, "{detail}");
    for wrong in [&[""][..], &["a", "b"], &["\u{e9}"], &[&"x".repeat(256)]] {
        assert_eq!(under(wrong, &batch).await.status, 400, "{wrong:?}");
    }
    assert_eq!(under(&["run-8"], &batch).await.json(), json!({"ids": [3, 4]}));
    assert_eq!(service.get("/api/v1/jobs").await["jobs"].as_array().map(Vec::len), Some(4));
}

#[tokio::test]
async fn what_a_job_may_not_carry_is_refused_however_it_is_sent() {
    let service = Asked::start().await;
    let refused = async |kind: &str, body: &str, wanted: &str| {
        let answer = service.ask("POST", "/api/v1/jobs", kind, body).await;
        let said = answer.json();
        let detail = said["detail"].as_str().unwrap_or_default();
        assert!(answer.status == 400 && detail.contains(wanted) && !detail.contains('\n'), "{body}: {said}");
    };
    for (source, destination, option, value, wanted) in [
        // Files of the service's host: a policy travels as content, and nothing else is read or written for a job.
        ("/a", "tg://h/b", "policy", "/etc/shadow", "by `tidegate copy`"),
        ("/a", "tg://h/b", "tls_key", "/etc/shadow", "tls"),
        ("/a", "tg://h/b", "epochs", "/etc/cron.d/x", "epochs"),
        ("SRR390728", "/b", "ca", "/etc/shadow", "by `tidegate get`"),
        ("https://h/x", "/b", "outdir", "/etc", "outdir"),
        ("/a", "s3://b/c", "state", "/etc", "by `tidegate put`"),
        // What is another command's, or nobody's.
        ("https://h/x", "/b", "format", "sra", "no option"),
        ("/a", "tg://h/b", "part_size", "8MiB", "part"),
        ("gsiftp://g/a", "gsiftp://h/b", "staging", "8MiB", "by globus-url-copy"),
        ("/a", "tg://h/b", "teleport", "yes", "teleport"),
        ("/a", "tg://h/b", "staging", "lots", "staging"),
    ] {
        let job = json!({ "source": source, "destination": destination, "options": { option: value } });
        refused("application/json", &job.to_string(), wanted).await;
        let toml =
            format!("source = {source:?}\ndestination = {destination:?}\noptions.{option} = {value:?}\n");
        refused("application/toml", &toml, wanted).await;
        let typed = format!("--{}={value}", option.replace('_', "-"));
        let ad = format!(
            "[ dap_type = transfer; src_url = {source:?}; dest_url = {destination:?}; arguments = {typed:?}; ]"
        );
        refused("application/x-classad", &ad, wanted).await;
    }
    for (policy, wanted) in [("/etc/shadow", "base64"), ("/etc/passwdd", "its policy: ")] {
        let mut job =
            json!({ "source": "/a", "destination": "tg://h/b", "options": { "optimizer": "policy" } });
        job["policy"] = policy.into();
        refused("application/json", &job.to_string(), wanted).await;
    }
    assert_eq!(service.get("/api/v1/jobs").await["jobs"], json!([]));
}
