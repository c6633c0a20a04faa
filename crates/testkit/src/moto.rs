//! An S3 server on loopback: moto, which keeps everything in memory.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;

use super::server::Program;
use super::{Server, program};

/// Why a test that needs it cannot run.
pub const NO_MOTO: &str = "moto_server is not installed (PyPI: moto[server])";

/// What looks like a signature, which is enough for moto.
const SIGNATURE: &str = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20260101/us-east-1/s3/aws4_request, \
                         SignedHeaders=host, Signature=0";

struct InMemory;

impl Program for InMemory {
    fn command(&self, dir: &Path, ports: &[u16]) -> Command {
        let mut command = Command::new(program("moto_server").expect("it was there a moment ago"));
        command.args(["-H", "127.0.0.1", "-p", &ports[0].to_string()]);
        // A server that is killed leaves nothing behind.
        command.env("TMPDIR", dir).env("MOTO_S3_DEFAULT_MAX_KEYS", "1000");
        command
    }
}

/// A moto with one bucket, `bucket`.
pub struct Moto(Server<InMemory>);

/// An answer, read to its end.
pub struct Reply {
    pub status: u16,
    head: String,
    pub body: Vec<u8>,
}

impl Moto {
    /// Starts it; `None` if it is not installed.
    pub fn start() -> Option<Self> {
        program("moto_server")?;
        let moto = Self(Server::start(InMemory));
        assert!(moto.ask("PUT", "bucket", b"").is_ok());
        Some(moto)
    }

    /// Its endpoint.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.0.port())
    }

    /// A request; `path` as it is sent.
    pub fn ask(&self, method: &str, path: &str, body: &[u8]) -> Reply {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.0.port())).expect("it listens");
        let head = format!(
            "{method} /{path} HTTP/1.0\r\nHost: 127.0.0.1:{}\r\nAuthorization: {SIGNATURE}\r\nContent-Length: {}\r\n\r\n",
            self.0.port(),
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).expect("it hears");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        Reply { status, head, body: answer[end + 4..].to_vec() }
    }

    /// Stores an object.
    pub fn put(&self, key: &str, data: &[u8]) {
        let reply = self.ask("PUT", &path_of(key), data);
        assert!(reply.is_ok(), "{}", reply.status);
    }

    /// What an object holds; `None` if it is not there.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let reply = self.ask("GET", &path_of(key), b"");
        (reply.status != 404).then_some(reply.body)
    }

    /// Its list of uploads under way, as XML.
    pub fn uploads(&self) -> String {
        self.ask("GET", "bucket?uploads", b"").text()
    }

    /// Keys of the bucket, sorted, at most a thousand.
    pub fn keys(&self) -> Vec<String> {
        let xml = self.ask("GET", "bucket?list-type=2&encoding-type=url", b"").text();
        let key = |rest: &str| decoded(rest.split_once("</Key>").expect("its end").0);
        xml.split("<Key>").skip(1).map(key).collect()
    }
}

impl Reply {
    /// Whether the server did what was asked.
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A field of the head.
    pub fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.into_iter().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// The path of `key`, as it is sent.
fn path_of(key: &str) -> String {
    let mut path = "bucket/".to_owned();
    for byte in key.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                path.push(char::from(byte));
            }
            _ => write!(path, "%{byte:02X}").expect("written"),
        }
    }
    path
}

/// A key of a listing: `+` is a blank, and `%` comes before two digits.
fn decoded(key: &str) -> String {
    let bytes = url::form_urlencoded::parse(key.as_bytes()).next();
    bytes.map(|(name, _)| name.into_owned()).unwrap_or_default()
}
