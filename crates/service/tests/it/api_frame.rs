//! The service's door on real sockets: who is let in, what is refused, and that nothing brings it down.

use crate::door;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::door::client::{PATIENCE, exchange, raw, request};
use tidegate_control::Rng;
use tidegate_service::api::{Api, Config, TlsFiles, token_of};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A service in this process.
struct Running {
    address: SocketAddr,
    token: String,
    link: String,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

fn config(state: &Path) -> Config {
    Config { listen: SocketAddr::from(([127, 0, 0, 1], 0)), tls: None, clear: false, state: state.to_owned() }
}

async fn start(config: &Config) -> Running {
    let api = door::api(config).await;
    let address = api.url().split("://").nth(1).expect("a URL").parse().expect("an address");
    let token = token_of(&config.state).expect("read").expect("made");
    let link = api.sign_in_link();
    let (stop, stopped) = oneshot::channel();
    let serving = tokio::spawn(api.serve(async {
        let _ = stopped.await;
    }));
    Running { address, token, link, stop, serving }
}

impl Running {
    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> door::client::Answer {
        raw(self.address, &request("GET", path, headers, "")).await
    }

    async fn stop(self) {
        let _ = self.stop.send(());
        timeout(PATIENCE, self.serving).await.expect("it stops").expect("without a panic");
    }
}

#[tokio::test]
async fn only_the_loopback_is_served_without_tls() {
    let scratch = tempfile::tempdir().expect("a directory");
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let mut open = Config { listen: listen.parse().expect("an address"), ..config(scratch.path()) };
        let error = Api::listen(&open).expect_err("refused").to_string();
        assert!(error.contains("--tls-cert") && !error.contains('\n'), "{error}");
        open.clear = true;
        // A host without IPv6 cannot listen there at all.
        if let Err(error) = Api::listen(&open) {
            assert!(error.to_string().contains("cannot listen"), "{error}");
        }
    }
    let first = Api::listen(&config(scratch.path())).expect("listens");
    let taken = Config { listen: first.address(), ..config(scratch.path()) };
    let error = Api::listen(&taken).expect_err("refused").to_string();
    assert!(error.contains("--listen"), "{error}");
}

#[tokio::test]
async fn a_request_needs_the_token() {
    let scratch = tempfile::tempdir().expect("a directory");
    let service = start(&config(scratch.path())).await;
    let (good, long) = (service.bearer(), format!("Bearer {}", "x".repeat(20_000)));
    let wrong = format!("Bearer {}", service.token.chars().rev().collect::<String>());
    let cases = [None, Some("Bearer"), Some("Bearer "), Some("Basic YTpi"), Some(&*wrong), Some(&*long)];
    for given in cases {
        let headers: Vec<(&str, &str)> = given.map(|given| ("authorization", given)).into_iter().collect();
        for path in ["/metrics", "/api/v1/jobs", "/api/v1/history/pairs"] {
            let answer = service.get(path, &headers).await;
            assert_eq!(answer.status, 401, "{path} {given:?}");
            assert_eq!(answer.header("content-type"), Some("application/problem+json"));
            assert!(answer.header("www-authenticate").is_some_and(|value| value.starts_with("Bearer")));
            let problem = answer.json();
            assert!(problem["advice"].as_str().is_some_and(|advice| advice.contains("Bearer")), "{problem}");
            assert!(!answer.text().contains(&service.token));
        }
    }
    let answer = service.get("/metrics", &[("authorization", &good)]).await;
    assert_eq!(answer.status, 200);
    assert!(
        answer.text().contains("tidegate_http_requests_total{route=\"/metrics\",code=\"4xx\"} 6\n"),
        "{answer:?}"
    );
    for path in ["/healthz", "/readyz", "/api/v1/openapi.json", "/assets/app.js"] {
        assert_eq!(service.get(path, &[]).await.status, 200, "{path}");
    }
    let answer = service.get("/nowhere", &[]).await;
    assert_eq!((answer.status, answer.json()["status"].as_u64()), (404, Some(404)));
    let answer = raw(service.address, &request("DELETE", "/healthz", &[], "")).await;
    assert_eq!((answer.status, answer.header("content-type")), (405, Some("application/problem+json")));
    service.stop().await;
}

/// Whom the document says that a path answers, it does, and nobody else.
#[tokio::test]
async fn what_is_said_of_tokens_is_so() {
    let scratch = tempfile::tempdir().expect("a directory");
    let service = start(&config(scratch.path())).await;
    let document = service.get("/api/v1/openapi.json", &[]).await.json();
    let mut guarded = 0;
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, said) in item.as_object().expect("an item") {
            let is_open = said.get("security").is_some_and(|ways| ways.as_array().is_some_and(Vec::is_empty));
            let path = path.replace("{id}", "1").replace("{name}", "app.js");
            let headers = [("content-type", "application/json")];
            let answer = raw(service.address, &request(&method.to_uppercase(), &path, &headers, "{}")).await;
            assert_eq!(answer.status == 401, !is_open, "{method} {path}: {answer:?}");
            guarded += usize::from(!is_open);
        }
    }
    assert!(guarded > 15, "{guarded}");
    service.stop().await;
}

#[tokio::test]
async fn a_browser_signs_in_by_the_link_and_only_our_page_changes_something() {
    let scratch = tempfile::tempdir().expect("a directory");
    let service = start(&config(scratch.path())).await;
    let answer = service.get("/", &[]).await;
    assert_eq!((answer.status, answer.header("location")), (303, Some("/login")));
    assert!(service.get("/login", &[]).await.text().contains("<form"));
    assert_eq!(service.get("/login?code=nonsense", &[]).await.status, 401);
    let path = service.link.split_once("/login").map(|(_, query)| format!("/login{query}")).expect("a link");
    let answer = service.get(&path, &[]).await;
    assert_eq!(answer.status, 200);
    let cookie = answer.header("set-cookie").expect("a cookie").to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(&service.token) && !cookie.contains("Secure"), "{cookie}");
    let pair = cookie.split(';').next().expect("a pair");
    let page = service.get("/", &[("cookie", pair)]).await;
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(service.get("/api/v1/history/pairs", &[("cookie", pair)]).await.status, 200);
    let other = [("cookie", pair), ("sec-fetch-site", "cross-site")];
    assert_eq!(service.get("/api/v1/history/pairs", &other).await.status, 403);
    let post = async |headers: Vec<(&'static str, String)>| {
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        raw(service.address, &request("POST", "/api/v1/jobs/1/cancel", &headers, "")).await
    };
    let cookie = || ("cookie", pair.to_owned());
    assert_eq!(post(vec![cookie()]).await.status, 403);
    assert_eq!(post(vec![cookie(), ("origin", "http://evil.example".to_owned())]).await.status, 403);
    // Nothing is forbidden any more: there is no such job.
    assert_eq!(post(vec![cookie(), ("origin", "http://test".to_owned())]).await.status, 404);
    assert_eq!(post(vec![("authorization", service.bearer())]).await.status, 404);
    // The form takes the token too.
    let body = format!("token={}", service.token);
    let form = ("content-type", "application/x-www-form-urlencoded");
    let origin = ("origin", "http://test");
    let answer = raw(service.address, &request("POST", "/login", &[form, origin], &body)).await;
    assert!(answer.status == 200 && answer.header("set-cookie").is_some_and(|value| value.starts_with(pair)));
    assert_eq!(raw(service.address, &request("POST", "/login", &[form], &body)).await.status, 403);
    let answer = raw(service.address, &request("POST", "/login", &[form, origin], "token=no")).await;
    assert!(answer.status == 401 && answer.text().contains("not the token"));
    let answer = raw(service.address, &request("POST", "/logout", &[origin], "")).await;
    assert!(answer.header("set-cookie").is_some_and(|value| value.contains("Max-Age=0")));
    service.stop().await;
}

#[tokio::test]
async fn tls_is_spoken_where_it_is_asked_for() {
    let scratch = tempfile::tempdir().expect("a directory");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("made");
    let files = TlsFiles { cert: scratch.path().join("cert.pem"), key: scratch.path().join("key.pem") };
    std::fs::write(&files.cert, made.cert.pem()).expect("written");
    std::fs::write(&files.key, made.signing_key.serialize_pem()).expect("written");
    let swapped = TlsFiles { cert: files.key.clone(), key: files.cert.clone() };
    let bad = Config { tls: Some(swapped), ..config(scratch.path()) };
    let error = Api::listen(&bad).expect_err("refused").to_string();
    assert!(error.contains("PEM") && !error.contains('\n'), "{error}");

    let service = start(&Config { tls: Some(files), ..config(scratch.path()) }).await;
    assert!(service.link.starts_with("https://"), "{}", service.link);
    // Somebody who speaks no TLS, and somebody who says nothing.
    let _silent = TcpStream::connect(service.address).await.expect("connected");
    assert_eq!(service.get("/healthz", &[]).await.status, 0);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(service.address).await.expect("connected");
    let name = "localhost".try_into().expect("a name");
    let mut stream =
        tokio_rustls::TlsConnector::from(Arc::new(client)).connect(name, stream).await.expect("TLS");
    let answer = exchange(&mut stream, &request("GET", "/healthz", &[], "")).await;
    assert_eq!(answer.status, 200);
    let path = service.link.split_once("/login").map(|(_, query)| format!("/login{query}")).expect("a link");
    let answer = exchange(&mut stream, &request("GET", &path, &[], "")).await;
    assert!(answer.header("set-cookie").is_some_and(|cookie| cookie.contains("; Secure")), "{answer:?}");
    service.stop().await;
}

#[tokio::test]
async fn ten_thousand_malformed_requests_leave_it_up() {
    let scratch = tempfile::tempdir().expect("a directory");
    let service = Arc::new(start(&config(scratch.path())).await);
    let seed = std::env::var("TIDEGATE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x7e57_0005);
    println!("seed {seed}");
    let mut tasks = Vec::new();
    for part in 0..20_u64 {
        let service = Arc::clone(&service);
        tasks.push(tokio::spawn(async move {
            let mut random = Rng::new(seed ^ (part << 32));
            for _ in 0..500 {
                let bytes = malformed(&mut random, &service.bearer());
                let mut stream = TcpStream::connect(service.address).await.expect("connected");
                let _ = stream.write_all(&bytes).await;
                let _ = stream.shutdown().await;
                let answer = exchange(&mut stream, b"").await;
                assert!(answer.status < 500, "{:?} gave {answer:?}", String::from_utf8_lossy(&bytes));
            }
        }));
    }
    for task in tasks {
        timeout(PATIENCE * 4, task).await.expect("in time").expect("no server error");
    }
    let bearer = service.bearer();
    let answer = service.get("/metrics", &[("authorization", &bearer)]).await;
    assert_eq!(answer.status, 200);
    let text = answer.text();
    assert!(!text.contains("code=\"2xx\"} 10000"), "{text}");
    Arc::try_unwrap(service).ok().expect("nobody else has it").stop().await;
}

/// A request that is wrong in one way or many.
fn malformed(random: &mut Rng, bearer: &str) -> Vec<u8> {
    let paths =
        ["/api/v1/jobs", "/api/v1/estimates", "/login", "/api/v1/jobs/1/cancel", "/api/v1/history/pairs"];
    let bodies = [
        "{",
        "[]",
        "[[]]",
        "{\"source\":1}",
        "null",
        "\u{0}",
        "[{\"source\":\"/a\",\"destination\":\"gopher://x\"}]",
        "{\"source\":\"/a\",\"destination\":\"/b\",\"bytes\":-1}",
        "{\"source\":\"/a\",\"destination\":\"/b\",\"bytes\":1e400}",
        "{\"source\":\"a\",\"destination\":\"tg://h/\",\"bytes\":1}",
        "{\"job\":[{}]}",
        "token=%ff%00",
    ];
    let kinds = [
        "application/json",
        "text/plain",
        "application/toml",
        "application/x-classad",
        "",
        "application/x-www-form-urlencoded",
    ];
    let mut below = |bound: usize| random.below(bound as u64) as usize;
    let body = bodies[below(bodies.len())];
    let headers = [("authorization", bearer), ("content-type", kinds[below(kinds.len())])];
    let path = paths[below(paths.len())];
    let mut bytes = request(["POST", "GET", "PUT", "\u{7f}"][below(4)], path, &headers, body);
    match below(8) {
        // As it is: well-formed HTTP whose body makes no sense.
        0 => {}
        // Cut off.
        1 => bytes.truncate(below(bytes.len())),
        // Some bytes are others.
        2 | 3 => {
            for _ in 0..=below(8) {
                let at = below(bytes.len());
                bytes[at] = below(256) as u8;
            }
        }
        // Nothing but noise.
        4 => bytes = (0..below(300)).map(|_| below(256) as u8).collect(),
        // Too many headers, or one that is too long.
        5 => {
            let many = "x: y\r\n".repeat(below(300));
            let long = format!("y: {}\r\n", "z".repeat(below(70_000)));
            let at = bytes.windows(2).position(|window| window == b"\r\n").expect("a line") + 2;
            bytes.splice(at..at, [many, long].concat().into_bytes());
        }
        // Lengths that contradict each other.
        6 => {
            let at = bytes.windows(2).position(|window| window == b"\r\n").expect("a line") + 2;
            let lies = ["content-length: 5\r\n", "content-length: -1\r\n", "transfer-encoding: chunked\r\n"];
            bytes.splice(at..at, lies[below(3)].bytes());
        }
        // Another version.
        _ => {
            let text =
                String::from_utf8_lossy(&bytes).replacen("HTTP/1.1", ["HTTP/9.9", "HTTP/2", ""][below(3)], 1);
            bytes = text.into_bytes();
        }
    }
    bytes
}

#[tokio::test]
async fn slow_and_large_requests_cost_nobody_else() {
    let scratch = tempfile::tempdir().expect("a directory");
    let service = start(&config(scratch.path())).await;
    let bearer = service.bearer();
    let mut slow = Vec::new();
    for i in 0..300 {
        let mut stream = TcpStream::connect(service.address).await.expect("connected");
        let bytes = request("POST", "/api/v1/jobs", &[("authorization", &bearer)], "{}");
        stream.write_all(&bytes[..1 + i % (bytes.len() - 1)]).await.expect("written");
        slow.push(stream);
    }
    assert_eq!(service.get("/healthz", &[]).await.status, 200);
    let kind = ("content-type", "application/json");
    let big = format!("[\"{}\"]", "x".repeat(17 << 20));
    let answer =
        raw(service.address, &request("POST", "/api/v1/jobs", &[("authorization", &bearer), kind], &big))
            .await;
    // Refused by its length, or cut off while it was sent.
    assert!(answer.status == 413 || answer.status == 0, "{answer:?}");
    let answer = raw(service.address, &request("POST", "/api/v1/jobs", &[kind], &big)).await;
    assert!(answer.status == 401 || answer.status == 0, "{answer:?}");
    assert_eq!(service.get("/healthz", &[]).await.status, 200);
    drop(slow);
    service.stop().await;
}

#[tokio::test]
async fn it_stops_while_connections_idle() {
    let scratch = tempfile::tempdir().expect("a directory");
    let service = start(&config(scratch.path())).await;
    let mut idle = TcpStream::connect(service.address).await.expect("connected");
    assert_eq!(exchange(&mut idle, &request("GET", "/healthz", &[], "")).await.status, 200);
    let address = service.address;
    let began = tokio::time::Instant::now();
    service.stop().await;
    assert!(began.elapsed() < Duration::from_secs(9), "idle connections are not waited for");
    assert!(TcpStream::connect(address).await.is_err());
    // The next one has the port at once.
    let other = tempfile::tempdir().expect("a directory");
    let again = start(&Config { listen: address, ..config(other.path()) }).await;
    assert_eq!(again.address, address);
    again.stop().await;
}
