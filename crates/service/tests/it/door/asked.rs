//! A service that tests ask over HTTP.

use std::net::SocketAddr;

use serde_json::Value;
use tidegate_service::api::{Config, token_of};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client::{Answer, PATIENCE, raw, request};
use super::described::Described;

/// A service that is asked with its token.
pub struct Asked {
    /// Where it listens.
    pub address: SocketAddr,
    /// What shows its token, as a header.
    pub bearer: String,
    state: tempfile::TempDir,
    described: Described,
}

impl Asked {
    /// Starts one.
    pub async fn start() -> Self {
        let state = tempfile::tempdir().expect("a directory");
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = Config { listen, tls: None, clear: false, state: state.path().to_owned() };
        let api = super::api(&config).await;
        let address = api.url().split("://").nth(1).expect("a URL").parse().expect("an address");
        let token = token_of(state.path()).expect("read").expect("made");
        tokio::spawn(api.serve(std::future::pending()));
        let document = raw(address, &request("GET", "/api/v1/openapi.json", &[], "")).await.json();
        Self { address, bearer: format!("Bearer {token}"), state, described: Described::new(document) }
    }

    /// Asks it anything. What it answers as JSON must be what its document says.
    pub async fn ask(&self, method: &str, path: &str, kind: &str, body: &str) -> Answer {
        self.ask_as(&self.bearer, method, path, kind, body).await
    }

    async fn ask_as(&self, bearer: &str, method: &str, path: &str, kind: &str, body: &str) -> Answer {
        let headers = [("authorization", bearer), ("content-type", kind)];
        let answer = raw(self.address, &request(method, path, &headers, body)).await;
        if answer.header("content-type").is_some_and(|kind| kind.contains("json")) {
            self.described.hold(method, path, body, answer.status, &answer.json());
        }
        answer
    }

    /// What GET answers, which must not fail.
    pub async fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, "", "").await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// Posts JSON.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, "application/json", &body.to_string()).await
    }

    /// Waits until a job is in a state.
    pub async fn until(&self, id: u64, state: &str) -> Value {
        let path = format!("/api/v1/jobs/{id}");
        let waiting = async {
            loop {
                let job = self.get(&path).await;
                if job["state"] == state {
                    return job;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("job {id} never was {state}"))
    }

    /// The events of a stream until its end: names and data.
    pub async fn events(&self, path: &str) -> Vec<(String, Value)> {
        let stream = TcpStream::connect(self.address).await.expect("connected");
        let mut stream = BufReader::new(stream);
        let bytes = request("GET", path, &[("authorization", &self.bearer), ("connection", "close")], "");
        stream.write_all(&bytes).await.expect("written");
        let (mut lines, mut events, mut name) = (stream.lines(), Vec::new(), String::new());
        while let Ok(Some(line)) = timeout(PATIENCE, lines.next_line()).await.expect("in time") {
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                events.push((name.clone(), serde_json::from_str(data).expect("JSON")));
            }
        }
        events
    }

    /// A file of its state.
    pub fn file(&self, name: &str) -> std::path::PathBuf {
        self.state.path().join(name)
    }

    /// Posts as whoever shows `token`.
    pub async fn post_as(&self, token: &str, path: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {token}");
        self.ask_as(&bearer, "POST", path, "application/json", &body.to_string()).await
    }
}
