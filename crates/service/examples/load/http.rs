//! As much of HTTP as asking the same thing over an open connection takes.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Url;

/// A connection that is not made, or a request that is not answered, by then has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Longest body that is read of an answer.
const LONGEST: usize = 16 << 20;

/// A request, as often as it is sent: a POST if it has a body.
pub fn request(url: &Url, token: Option<&str>, body: Option<&str>) -> String {
    let query = url.query().map_or_else(String::new, |query| format!("?{query}"));
    let method = if body.is_some() { "POST" } else { "GET" };
    let mut text = format!(
        "{method} {}{query} HTTP/1.1\r\nHost: {}\r\n",
        url.path(),
        url.host_str().unwrap_or_default()
    );
    if let Some(token) = token {
        text.push_str(&format!("Authorization: Bearer {token}\r\n"));
    }
    let body = body.unwrap_or_default();
    if !body.is_empty() {
        text.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    format!("{text}\r\n{body}")
}

/// An open connection.
pub type Line = BufReader<TcpStream>;

/// One request and its whole answer: status and body.
pub async fn ask(line: &mut Line, request: &str) -> io::Result<(u16, Vec<u8>)> {
    line.get_mut().write_all(request.as_bytes()).await?;
    let garbled = || io::Error::new(io::ErrorKind::InvalidData, "an answer that is no HTTP");
    let mut text = String::new();
    line.read_line(&mut text).await?;
    let status = text.split(' ').nth(1).and_then(|word| word.trim().parse().ok()).ok_or_else(garbled)?;
    let mut length = 0_usize;
    loop {
        text.clear();
        if line.read_line(&mut text).await? == 0 {
            return Err(garbled());
        }
        let header = text.trim_end();
        if header.is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok().filter(|&length| length <= LONGEST).ok_or_else(garbled)?;
        }
    }
    let mut body = vec![0; length];
    line.read_exact(&mut body).await?;
    Ok((status, body))
}

/// A new connection.
pub async fn connect(address: SocketAddr) -> io::Result<Line> {
    let made = timeout(PATIENCE, TcpStream::connect(address)).await;
    let stream = made.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}
