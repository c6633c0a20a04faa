//! An S3 server on loopback: moto, which keeps everything in memory.

use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate_fetch::remote::request::{HttpClient, Payload, Reply, Requests};
use tidegate_fetch::remote::s3::place::{Object, Signer};
use tidegate_fetch::remote::s3_credentials::Credentials;
use tidegate_fetch::remote::s3_settings::{S3Settings, endpoint};
use tidegate_fetch::remote::servers::ServerSettings;
use url::Url;

use super::{Running, free_port, program};

/// Why a test that needs it cannot run.
pub const NO_MOTO: &str = "moto_server is not installed (PyPI: moto[server])";

/// A moto with one bucket, `bucket`.
pub struct Moto {
    _running: Running,
    _dir: tempfile::TempDir,
    port: u16,
    client: HttpClient,
}

impl Moto {
    /// Starts it; `None` if it is not installed.
    pub fn start() -> Option<Self> {
        let server = program("moto_server")?;
        let dir = tempfile::tempdir().expect("a directory");
        for attempt in 0.. {
            let port = free_port();
            let mut command = Command::new(&server);
            command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
            // A server that is killed leaves nothing behind.
            command.env("TMPDIR", dir.path()).env("MOTO_S3_DEFAULT_MAX_KEYS", "1000");
            match Running::start(&mut command, port, &dir.path().join("log")) {
                Ok(running) => {
                    let url = Url::parse(&format!("http://127.0.0.1:{port}/")).expect("a URL");
                    let client = Requests::new(&ServerSettings::default()).client(&url).expect("a client");
                    let moto = Self { _running: running, _dir: dir, port, client };
                    assert!(moto.ask("PUT", "bucket", b"").is_ok());
                    return Some(moto);
                }
                Err(error) if attempt < 5 && error.contains("in use") => {}
                Err(error) => panic!("{error}"),
            }
        }
        None
    }

    /// Its endpoint.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A request with what looks like a signature, which is enough for moto.
    pub fn ask(&self, method: &str, path: &str, body: &[u8]) -> Reply {
        let url = Url::parse(&format!("{}/{path}", self.endpoint())).expect("a URL");
        let payload = if body.is_empty() { Payload::None } else { Payload::Bytes(body) };
        let scope = "AKIAIOSFODNN7EXAMPLE/20260101/us-east-1/s3/aws4_request";
        let words = format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0");
        let headers = [("authorization".to_owned(), words)];
        self.client.send(method, &url, &headers, payload).expect("an answer")
    }

    /// Stores an object.
    pub fn put(&self, key: &str, data: &[u8]) {
        let object = Object { bucket: "bucket".to_owned(), key: key.to_owned(), version: None };
        let path = object.url().expect("a URL").as_str().trim_start_matches("s3://").to_owned();
        let reply = self.ask("PUT", &path, data);
        assert!(reply.is_ok(), "{}", reply.status);
        reply.finish();
    }

    /// What an object holds; `None` if it is not there.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        use std::io::Read;
        let object = Object { bucket: "bucket".to_owned(), key: key.to_owned(), version: None };
        let path = object.url().expect("a URL").as_str().trim_start_matches("s3://").to_owned();
        let reply = self.ask("GET", &path, b"");
        if reply.status == 404 {
            return None;
        }
        let mut data = Vec::new();
        reply.into_reader().read_to_end(&mut data).expect("read");
        Some(data)
    }

    /// Its list of uploads under way, as XML.
    pub fn uploads(&self) -> String {
        self.ask("GET", "bucket?uploads", b"").text(1 << 20).expect("text")
    }

    /// Keys of the bucket, sorted, at most a thousand.
    pub fn keys(&self) -> Vec<String> {
        let xml = self.ask("GET", "bucket?list-type=2&encoding-type=url", b"").text(1 << 24).expect("text");
        let page = tidegate_fetch::remote::s3::answer::objects(&xml).expect("a page");
        page.items.into_iter().map(|item| item.key).collect()
    }

    /// Settings for it, with keys that sign.
    pub fn settings(&self) -> ServerSettings {
        settings(&self.endpoint(), true)
    }
}

/// Settings for the S3 server at `url`.
pub fn settings(url: &str, signed: bool) -> ServerSettings {
    let credentials = signed.then(|| Credentials {
        key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
        token: None,
    });
    let s3 = S3Settings { endpoint: endpoint(url).ok(), credentials, ..S3Settings::default() };
    ServerSettings { timeout: std::time::Duration::from_secs(20), s3: Some(s3), ..ServerSettings::default() }
}

/// The object `key` in `bucket`.
pub fn object(key: &str) -> Object {
    Object { bucket: "bucket".to_owned(), key: key.to_owned(), version: None }
}

/// Its URL.
pub fn url(key: &str) -> Url {
    object(key).url().expect("a URL")
}

/// Who signs with `settings`.
pub fn signer(settings: &ServerSettings) -> Signer {
    Signer::new(settings.s3.clone().unwrap_or_default())
}

/// The path of `file` in `root`, as a key.
pub fn key_of(root: &Path, file: &Path) -> Option<String> {
    let inner: PathBuf = file.strip_prefix(root).ok()?.to_owned();
    inner.to_str().map(str::to_owned)
}
