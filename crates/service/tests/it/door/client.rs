//! A client that says exactly what a test wants said, on a real socket.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The longest wait for anything.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The status, or 0 if the connection was closed without one.
    pub status: u16,
    /// The head as it came.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// A header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends `bytes` and reads one answer, as long as its content-length says.
pub async fn raw(address: SocketAddr, bytes: &[u8]) -> Answer {
    let mut stream =
        timeout(PATIENCE, TcpStream::connect(address)).await.expect("in time").expect("connected");
    exchange(&mut stream, bytes).await
}

/// The same on a connection that is open.
pub async fn exchange(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), bytes: &[u8]) -> Answer {
    // A server may close before all is written; what it answered counts.
    let _ = timeout(PATIENCE, stream.write_all(bytes)).await.expect("written in time");
    let mut got = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(answer) = whole(&got) {
            return answer;
        }
        match timeout(PATIENCE, stream.read(&mut buffer)).await.expect("answered in time") {
            Ok(count @ 1..) => got.extend_from_slice(&buffer[..count]),
            _ => return Answer { status: 0, head: String::new(), body: got },
        }
    }
}

fn whole(got: &[u8]) -> Option<Answer> {
    let end = got.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&got[..end]).into_owned();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let mut answer = Answer { status, head, body: Vec::new() };
    let length: usize = answer.header("content-length").map_or(0, |text| text.parse().expect("a length"));
    let body = &got[end + 4..];
    (body.len() >= length).then(|| {
        answer.body = body[..length].to_vec();
        answer
    })
}

/// The bytes of a request.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: test\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() || method == "POST" {
        text.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    format!("{text}\r\n{body}").into_bytes()
}
