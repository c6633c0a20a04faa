//! Jobs of many hosts over HTTP: what movers are given and told, who moves what, and what becomes of a database in trouble.

use crate::door;
use crate::door::asked::Asked;
use serde_json::{Value, json};
use sqlx::Connection;

const OURS: &str = env!("CARGO_PKG_VERSION");

/// Begins a job of many hosts, with shards of one file each; answers with its movers' token.
async fn begun(service: &Asked, shards: u64, pool: Option<Value>) -> String {
    let mut request = json!({"sources": ["/data/"], "destination": "dtn:/in/"});
    if let Some(pool) = pool {
        request["pool"] = pool;
    }
    let begun = service.post("/api/v1/spreads", &request).await;
    assert_eq!(begun.status, 201, "{begun:?}");
    let begun = begun.json();
    let shards: Vec<_> = (0..shards)
        .map(|at| {
            let name = data_encoding::BASE64.encode(format!("{at}\0").as_bytes());
            json!({"source": 0, "files": 1, "bytes": 64 << 20, "names": name})
        })
        .collect();
    let path = format!("/api/v1/spreads/{}/shards", begun["id"]);
    let listed = service.post(&path, &json!({"shards": shards, "all": true})).await;
    assert_eq!(listed.status, 200, "{listed:?}");
    begun["token"].as_str().expect("a token").to_owned()
}

fn claim(mover: &str, host: &str) -> Value {
    json!({"mover": mover, "version": OURS, "host": host})
}

fn pool() -> Value {
    let endpoint = |name: &str, weight: u32| json!({"name": format!("{name}:/archive"), "address": format!("tg://T@{name}/archive"), "weight": weight});
    json!({"name": "dtn", "endpoints": [endpoint("dtn1", 1), endpoint("dtn2", 1)]})
}

/// An error's detail, which is one line.
fn detail(answer: &door::client::Answer, status: u16) -> String {
    let detail = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
    assert!(answer.status == status && !detail.is_empty() && !detail.contains('\n'), "{answer:?}");
    detail
}

#[tokio::test]
async fn whoever_may_not_move_is_told_why_in_one_line() {
    let service = Asked::start().await;
    let token = begun(&service, 2, None).await;
    let asked = async |token: &str, body: &Value| service.post_as(token, "/api/v1/mover/claim", body).await;
    let other = asked(&token, &json!({"mover": "m", "version": "0.0.1"})).await;
    assert_eq!(detail(&other, 400), format!("the mover is of version 0.0.1, and the service of {OURS}"));
    assert_eq!(other.json()["advice"], "install the same version on all hosts");
    assert!(detail(&asked("0123", &claim("m", "h")).await, 401).contains("opens no run"));
    assert!(detail(&asked(&token, &claim("", "h")).await, 400).contains("a mover's name"));
    assert!(detail(&asked(&token, &claim("m", &"h".repeat(201))).await, 400).contains("its host's"));
    // The token of one run says nothing of another's leases.
    let lease = asked(&token, &claim("m", "h")).await.json()["lease"].clone();
    let stranger = begun(&service, 1, None).await;
    let renewed = service.post_as(&stranger, "/api/v1/mover/renew", &json!({"lease": lease})).await;
    assert!(detail(&renewed, 409).contains("is over"));
    assert_eq!(service.post_as(&token, "/api/v1/mover/renew", &json!({"lease": lease})).await.status, 200);
    // No answer tells a time of day: movers' clocks may be an hour off.
    let told = service.post_as(&token, "/api/v1/mover/renew", &json!({"lease": lease})).await.json();
    assert_eq!(told, json!({"term_ms": 60_000}));
}

#[tokio::test]
async fn pools_that_make_no_sense_are_refused() {
    let service = Asked::start().await;
    let refused = async |pool: Value, destination: &str| {
        let request = json!({"sources": ["/data/"], "destination": destination, "pool": pool});
        detail(&service.post("/api/v1/spreads", &request).await, 400)
    };
    assert!(refused(json!({"name": "dtn", "endpoints": []}), "dtn:/").await.contains("1 to 256 endpoints"));
    assert!(refused(pool(), "other:/").await.contains("nothing is moved to or from the pool dtn"));
    let mut weightless = pool();
    weightless["endpoints"][0]["weight"] = json!(0);
    assert!(refused(weightless, "dtn:/").await.contains("begin with 1"));
    assert_eq!(service.get("/api/v1/jobs").await["jobs"], json!([]), "nothing was taken");
}

#[tokio::test]
async fn movers_are_told_of_by_host_and_endpoint() {
    let service = Asked::start().await;
    let token = begun(&service, 8, Some(pool())).await;
    for (mover, host, bps) in [("a", "node1", 8_000_000), ("b", "node1", 16_000_000), ("c", "node\"2", 800)] {
        let lease = service.post_as(&token, "/api/v1/mover/claim", &claim(mover, host)).await.json();
        assert_eq!(lease["work"]["pool"], pool(), "movers are told where the endpoints are");
        let seen = json!({"lease": lease["lease"], "streams": 3, "throughput_bps": bps, "bytes": 1000});
        assert_eq!(service.post_as(&token, "/api/v1/mover/renew", &seen).await.status, 200);
    }
    assert_eq!(service.get("/api/v1/jobs/1").await["actions"], json!(["cancel"]), "it is not held up");
    let standing = service.get("/api/v1/spreads/1").await;
    let rows: Vec<_> = standing["movers"].as_array().expect("movers").iter().collect();
    let row = |at: usize| [&rows[at]["name"], &rows[at]["host"], &rows[at]["endpoint"]];
    assert_eq!(row(0), ["a", "node1", "dtn1:/archive"]);
    assert_eq!(row(1), ["b", "node1", "dtn2:/archive"]);
    assert_eq!((&rows[0]["leases"], &rows[0]["streams"]), (&json!(1), &json!(3)));
    assert!(rows.iter().all(|row| row["silent_ms"].as_u64().is_some_and(|silent| silent < 60_000)));
    let events = service.events("/api/v1/jobs/1/epochs").await;
    let told = events.iter().find(|(name, _)| name == "spread").expect("who moves is told live");
    assert_eq!(told.1["movers"].as_array().map(Vec::len), Some(3));
    let shown = service.get("/api/v1/jobs/1").await;
    assert!(shown["spread"]["movers"].is_array() && !shown.to_string().contains("tg://"), "{shown}");
    let metrics = service.ask("GET", "/metrics", "", "").await.text();
    for wanted in [
        "tidegate_movers{host=\"node1\"} 2\n",
        "tidegate_movers{host=\"node\\\"2\"} 1\n",
        "tidegate_mover_network_streams{host=\"node1\"} 6\n",
        "tidegate_mover_throughput_bytes_per_second{host=\"node1\"} 3000000\n",
        "tidegate_mover_silence_seconds{host=\"node1\"} ",
    ] {
        assert!(metrics.contains(wanted), "{wanted} in\n{metrics}");
    }
}

#[tokio::test]
async fn a_database_that_takes_nothing_loses_nothing() {
    let service = Asked::start().await;
    let token = begun(&service, 4, None).await;
    let lease = service.post_as(&token, "/api/v1/mover/claim", &claim("m", "h")).await.json();
    let url = format!("sqlite:{}", service.file("fleet.sqlite3").display());
    let mut beside = sqlx::SqliteConnection::connect(&url).await.expect("opened");
    let renewal = json!({"lease": lease["lease"]});
    let ids = lease["shards"].as_array().expect("shards").iter().map(|shard| json!({"id": shard["id"]}));
    let report = json!({"lease": lease["lease"], "shards": ids.collect::<Vec<_>>()});
    let asked = [("claim", claim("n", "h")), ("renew", renewal.clone()), ("finish", report.clone())];
    for why in ["database or disk is full", "attempt to write a readonly database"] {
        for change in ["INSERT", "UPDATE", "DELETE"] {
            let trigger = format!(
                "CREATE TRIGGER no_{change} BEFORE {change} ON fleet_lease BEGIN SELECT RAISE(ABORT, '{why}'); END"
            );
            sqlx::raw_sql(sqlx::AssertSqlSafe(trigger)).execute(&mut beside).await.expect("made");
        }
        for (what, body) in &asked {
            let answer = service.post_as(&token, &format!("/api/v1/mover/{what}"), body).await;
            // 503: whoever asks tries again.
            assert!(detail(&answer, 503).contains(why), "{what}: {answer:?}");
        }
        for change in ["INSERT", "UPDATE", "DELETE"] {
            let drop = format!("DROP TRIGGER no_{change}");
            sqlx::raw_sql(sqlx::AssertSqlSafe(drop)).execute(&mut beside).await.expect("dropped");
        }
        assert_eq!(
            service.post_as(&token, "/api/v1/mover/renew", &renewal).await.status,
            200,
            "it is held still"
        );
    }
    assert_eq!(service.post_as(&token, "/api/v1/mover/finish", &report).await.status, 200);
    let standing = service.get("/api/v1/spreads/1").await;
    assert_eq!(standing["done_files"], json!(lease["shards"].as_array().map(Vec::len)), "{standing}");
    let rest = service.post_as(&token, "/api/v1/mover/claim", &claim("n", "h")).await.json();
    assert_eq!(rest["answer"], "lease", "what is left waits");
}
