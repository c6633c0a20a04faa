//! The checksums that go with what is put: CRC-64/NVME, which S3 holds each piece to, and keeps of the whole. Servers that
//! refuse them are served without, which one refusal teaches for the whole run.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use data_encoding::BASE64;
use tidegate_transfer::sys::sync::Mutex;
use ureq::http::HeaderMap;

use crate::put::target::Content;
use crate::remote::Why;
use crate::remote::http::answer::text;
use crate::remote::s3::answer::Part;
use crate::remote::s3::calls::S3Failure;

/// The sum of a piece, or of the whole.
const CRC: &str = "x-amz-checksum-crc64nvme";

/// What all connections know of the server's sums.
#[derive(Debug, Default)]
pub(crate) struct SumsSent {
    refused: AtomicBool,
    /// Uploads in parts that were begun without: at most as many as files are under way.
    without: Mutex<HashSet<String>>,
}

impl SumsSent {
    /// Whether the upload `id` has sums, or with none whether a request of its own has.
    pub(crate) fn go_with(&self, id: Option<&str>) -> bool {
        let without = |id: &str| self.without.lock().contains(id);
        !self.refused.load(Relaxed) && !id.is_some_and(without)
    }

    /// The upload `id` begins, or goes on with these parts, which came `with` sums or without.
    pub fn begin(&self, id: &str, with: bool, parts: &[Part]) {
        if !with || parts.iter().any(|part| !part.has_crc) {
            self.without.lock().insert(id.to_owned());
        }
    }

    /// The upload `id` has ended.
    pub fn end(&self, id: &str) {
        self.without.lock().remove(id);
    }

    /// Sends a request with sums, as the upload `id` has them; if that is refused once more without, from which may follow that
    /// this server takes none.
    pub fn send<T>(
        &self,
        id: Option<&str>,
        mut body: Option<&mut dyn Content>,
        mut send: impl FnMut(Option<&mut dyn Content>, bool) -> Result<T, S3Failure>,
    ) -> Result<T, S3Failure> {
        let with = self.go_with(id);
        let failed = match send(body.as_mut().map(|body| &mut **body as &mut dyn Content), with) {
            Err(failed) if with && failed.refusal.why == Why::Senseless => failed,
            answer => return answer,
        };
        if !body.as_mut().is_none_or(|body| body.rewind()) {
            return Err(failed);
        }
        let answer = send(body, false);
        if answer.is_ok() && !self.refused.swap(true, Relaxed) {
            tracing::debug!("the server takes no CRC-64/NVME: {}", failed.refusal.error);
        }
        answer
    }
}

/// Adds the sum of a piece.
pub(crate) fn add(headers: &mut Vec<(String, String)>, crc: u64) {
    headers.push((CRC.to_owned(), BASE64.encode(&crc.to_be_bytes())));
    headers.push(("x-amz-sdk-checksum-algorithm".to_owned(), "CRC64NVME".to_owned()));
}

/// Adds the sum of a whole that came in parts.
pub(crate) fn add_of_whole(headers: &mut Vec<(String, String)>, crc: u64) {
    headers.push((CRC.to_owned(), BASE64.encode(&crc.to_be_bytes())));
    headers.push(("x-amz-checksum-type".to_owned(), "FULL_OBJECT".to_owned()));
}

/// Announces such sums, for an upload in parts.
pub(crate) fn announce(headers: &mut Vec<(String, String)>) {
    headers.push(("x-amz-checksum-algorithm".to_owned(), "CRC64NVME".to_owned()));
    headers.push(("x-amz-checksum-type".to_owned(), "FULL_OBJECT".to_owned()));
}

/// What an answer says that the sum of a piece is, where that is another one.
pub fn differs(headers: &HeaderMap, crc: u64) -> Option<String> {
    let said = text(headers, CRC).filter(|said| !said.contains('-'))?;
    (said.trim() != BASE64.encode(&crc.to_be_bytes())).then(|| said.trim().to_owned())
}
