//! How large the parts are in which an object came: then a sum that S3 has made of theirs can be made again.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rusty_s3::Method;
use ureq::http::HeaderMap;

use super::answer;
use super::calls::{S3Client, S3Request};
use super::head::{self, ASKS_SUMS, Composite};
use super::place::Object;
use crate::checksum::{Algorithm, PartSizes, SumOfParts};
use crate::remote::Version;

/// Most pages of a list of parts that are asked for; each has up to a thousand.
const MAX_PAGES: usize = 12;

/// What all workers know of how servers tell parts.
#[derive(Debug, Default)]
pub(crate) struct PartsTold {
    /// The server does not list them.
    no_list: AtomicBool,
    /// Somebody was told that a sum of parts proves nothing here.
    said: AtomicBool,
}

/// An object whose parts are asked for.
pub(crate) struct PartsAsk<'a> {
    /// Who asks.
    pub client: &'a S3Client,
    /// Of which object.
    pub object: &'a Object,
    /// Header lines that are signed.
    pub signed: &'a [(String, String)],
    /// What is known of it.
    pub told: &'a PartsTold,
}

impl PartsAsk<'_> {
    /// Adds to `version` the sum that S3 has made of the sums of its parts, if `heads` say one and the parts are known.
    pub(crate) fn add_sum(&self, heads: &HeaderMap, version: &mut Version) {
        let Some(bytes) = version.bytes else { return };
        let kept = head::sum_of_parts(heads);
        let by_tag = head::tag_of_parts(heads, &self.object.bucket);
        let Some(composite) = kept.or(by_tag) else { return };
        let Composite { algorithm, sum, count } = composite;
        if let Some(sizes) = self.sizes(heads, bytes, count, algorithm) {
            version.checksums.add_of_parts(SumOfParts { algorithm, sizes, sum });
        } else if algorithm != Algorithm::Md5 && !self.told.said.swap(true, Relaxed) {
            let place = self.object.url().map_or_else(|_| self.object.bucket.clone(), String::from);
            tracing::warn!(
                "{place}: its server keeps a sum of its parts' sums, but does not say how large they are, so nothing is held to that sum",
            );
        }
    }

    fn sizes(&self, heads: &HeaderMap, bytes: u64, count: u64, algorithm: Algorithm) -> Option<PartSizes> {
        if count == 1 {
            return Some(PartSizes::told([bytes]));
        }
        let kept = head::part_size(heads).map(|size| PartSizes::even(bytes, size));
        if let Some(kept) = kept.filter(|sizes| sizes.count() == count) {
            return Some(kept);
        }
        // Parts are listed of objects that have such a sum.
        let listed = (algorithm != Algorithm::Md5).then(|| self.listed()).flatten();
        let listed = listed.map(PartSizes::told);
        listed
            .filter(|sizes| sizes.count() == count && sizes.total() == bytes)
            .or_else(|| self.sizes_of_ends(bytes, count))
    }

    /// The sizes of all parts, as the server lists them.
    fn listed(&self) -> Option<Vec<u64>> {
        if self.told.no_list.load(Relaxed) {
            return None;
        }
        let mut sizes = Vec::new();
        let mut behind = 0_u32;
        for _ in 0..MAX_PAGES {
            let mut headers: Vec<_> =
                self.signed.iter().filter(|(name, _)| name != ASKS_SUMS.0).cloned().collect();
            headers.push(("x-amz-object-attributes".to_owned(), "ObjectParts".to_owned()));
            if behind > 0 {
                headers.push(("x-amz-part-number-marker".to_owned(), behind.to_string()));
            }
            headers.sort();
            let what = "ask for the parts of";
            let query = [("attributes", "")];
            let request = S3Request::new(what, Method::Get, self.object).query(&query).headers(&headers);
            let answer = self.client.call(&request, &[]).and_then(|reply| self.client.document(what, reply));
            let page = match answer {
                Ok(xml) => answer::attributes(&xml),
                Err(failed) => {
                    tracing::debug!("parts are not listed: {}", failed.refusal.error);
                    None
                }
            };
            let Some((parts, next)) = page else {
                self.told.no_list.store(true, Relaxed);
                return None;
            };
            sizes.extend(parts.iter().map(|part| part.bytes));
            match next {
                None => return Some(sizes),
                Some(next) if next > behind && !parts.is_empty() => behind = next,
                Some(_) => return None,
            }
        }
        None
    }

    /// The sizes of the first part and the last, which tell those of three. More are supposed to be of one size.
    fn sizes_of_ends(&self, bytes: u64, count: u64) -> Option<PartSizes> {
        let first = self.size_of(bytes, 1, count)?;
        if count == 2 {
            return Some(PartSizes::told([first, bytes.checked_sub(first)?]));
        }
        let last = self.size_of(bytes, count, count)?;
        let between = bytes.checked_sub(first)?.checked_sub(last)?;
        if count == 3 {
            return Some(PartSizes::told([first, between, last]));
        }
        let sizes = PartSizes::supposed(bytes, first);
        (sizes.count() == count && first.checked_mul(count - 2) == Some(between)).then_some(sizes)
    }

    fn size_of(&self, bytes: u64, number: u64, count: u64) -> Option<u64> {
        let number = number.to_string();
        let query = [("partNumber", number.as_str())];
        let request = S3Request::new("look at a part of", Method::Head, self.object);
        let reply = match self.client.call(&request.query(&query).headers(self.signed), &[]) {
            Ok(reply) => reply,
            Err(failed) => {
                tracing::debug!("a part's size is not known: {}", failed.refusal.error);
                return None;
            }
        };
        let number = |name: &str| reply.header(name).and_then(|value| value.parse::<u64>().ok());
        let size = number("content-length").filter(|&size| size < bytes);
        let is_told = number("x-amz-mp-parts-count") == Some(count);
        reply.finish();
        size.filter(|_| is_told)
    }
}
