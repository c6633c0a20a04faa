//! S3 as a target: small files in one request each, large ones in parts; what an interrupted run left is
//! found and continued.

mod sums;

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;

use md5::{Digest, Md5};
use rusty_s3::Method;
use tidegate_control::ByteCount;
use tidegate_transfer::error::{Error, ErrorKind, Result, Retry};
use tidegate_transfer::path::RelPath;
use tidegate_transfer::sys::confined::Root;
use tidegate_transfer::sys::sync::Mutex;
use url::Url;

use self::sums::SumsSent;
use crate::checksum::Crc64;
use crate::foreign::io_words;
use crate::put::target::{
    Content, Md5Sum, PieceSums, Plan, Present, Stored, StoredPart, Target, UploadConnection, UploadFile,
    tag_of_parts,
};
use crate::put::unfinished::UnfinishedUploads;
use crate::record::Names;
use crate::remote::http::answer::modified;
use crate::remote::patience::Patience;
use crate::remote::request::{Payload, Requests};
use crate::remote::s3::S3Context;
use crate::remote::s3::answer::{self, Part};
use crate::remote::s3::calls::{S3Client, S3Failure, S3Request};
use crate::remote::s3::head;
use crate::remote::s3::list;
use crate::remote::s3::place::Object;
use crate::remote::settings::ServerSettings;
use crate::remote::{Refusal, Why};

/// Most uploads under way that are taken notice of.
const MAX_UPLOADS: usize = 10_000;

/// Most pages of them that are asked for, empty ones included.
const MAX_PAGES: usize = 100;

/// How much is read back at once.
const SIP: usize = 128 << 10;

/// A prefix, or with a single file an object, of an S3-compatible store.
pub struct S3Target {
    shared: Arc<S3Context>,
    place: Object,
    /// The one file's whole key.
    single: bool,
    part: ByteCount,
    under_way: Arc<UnderWay>,
}

/// What earlier runs have left.
struct UnderWay {
    ours: UnfinishedUploads,
    /// The server's list: ids by key.
    listed: Mutex<HashMap<String, Vec<String>>>,
    sums: SumsSent,
}

impl S3Target {
    /// The target at `place`: with `single` its key is that of the one file, else a prefix, which ends
    /// in a slash. `state` is the directory where uploads under way are remembered.
    pub fn new(
        settings: &ServerSettings,
        mut place: Object,
        single: bool,
        part: ByteCount,
        state: Option<&Root>,
    ) -> Result<Self> {
        let single = single && !place.key.is_empty() && !place.key.ends_with('/');
        if !single && !place.key.is_empty() && !place.key.ends_with('/') {
            place.key.push('/');
        }
        if place.version.is_some() {
            return Err(Error::new(ErrorKind::Usage, "a version cannot be written to: leave versionId out"));
        }
        let shared = Arc::new(S3Context::new(settings.s3.clone(), Requests::new(settings)));
        let signer = shared.signer()?;
        let server = signer.server(&place.bucket)?;
        let identity = format!("{server} {}", place.url()?);
        let under_way = UnderWay {
            ours: UnfinishedUploads::open(state, identity.as_bytes()),
            listed: Mutex::default(),
            sums: SumsSent::default(),
        };
        Ok(Self { shared, place, single, part, under_way: Arc::new(under_way) })
    }

    fn object(&self, path: &RelPath) -> Result<Object> {
        if self.single {
            return Ok(self.place.clone());
        }
        let name = std::str::from_utf8(path.as_bytes()).map_err(|_| {
            Error::new(ErrorKind::UnsafeName, format!("{path}: its name is no UTF-8, and keys of S3 are"))
        })?;
        let key = format!("{}{name}", self.place.key);
        if key.len() > 1024 {
            let why = format!("{path}: its key would have {} bytes, S3 takes 1024", key.len());
            return Err(Error::new(ErrorKind::UnsafeName, why));
        }
        Ok(self.place.with_key(key))
    }
}

impl Target for S3Target {
    fn connection(&self) -> Result<Box<dyn UploadConnection>> {
        Ok(Box::new(S3Connection {
            client: self.shared.client(&self.place.bucket)?,
            place: self.place.clone(),
            single: self.single,
            under_way: Arc::clone(&self.under_way),
        }))
    }

    fn server(&self) -> Result<Url> {
        self.shared.signer()?.server(&self.place.bucket)
    }

    fn plan(&self, path: &RelPath, size: u64) -> Result<(RelPath, Plan)> {
        self.object(path)?.url()?;
        Ok((path.clone(), Plan::new(size, self.part)))
    }

    fn names(&self, patience: Patience) -> Result<Names> {
        Ok(list::names(self.shared.client(&self.place.bucket)?, self.place.clone(), patience))
    }

    fn may_fold(&self) -> bool {
        false
    }

    fn shown(&self, path: &RelPath) -> String {
        let url = self.object(path).and_then(|object| object.url());
        url.map_or_else(|_| path.to_string(), |url| url.to_string())
    }

    fn identity(&self) -> Vec<u8> {
        let server = self.server().map_or_else(|_| String::new(), String::from);
        format!("{server} s3://{}/{}", self.place.bucket, self.place.key).into_bytes()
    }
}

struct S3Connection {
    client: S3Client,
    place: Object,
    single: bool,
    under_way: Arc<UnderWay>,
}

impl S3Connection {
    fn object(&self, file: &UploadFile) -> Object {
        match self.single {
            true => self.place.clone(),
            // Checked when the file was planned.
            false => self.beneath(&file.path),
        }
    }

    fn beneath(&self, path: &RelPath) -> Object {
        let name = String::from_utf8_lossy(path.as_bytes());
        self.place.with_key(format!("{}{name}", self.place.key))
    }

    /// Asks for the object's head.
    fn head(&self, object: &Object) -> Result<Option<Present>, S3Failure> {
        match self.client.call(&S3Request::new("look at", Method::Head, object), &[]) {
            Ok(reply) => {
                let present = Present {
                    bytes: reply.header("content-length").and_then(|length| length.parse().ok()),
                    tag: reply.tag().unwrap_or_default(),
                    tag_is_md5: head::has_md5_tags(&reply.headers),
                    modified: head::kept_time(&reply.headers).or_else(|| modified(&reply.headers)),
                    keeps_time: false,
                };
                reply.finish();
                Ok(Some(present))
            }
            Err(failed) if failed.refusal.why == Why::Missing => Ok(None),
            Err(failed) => Err(failed),
        }
    }

    /// The parts of the upload `id`, if they are parts of this file as we would cut it.
    fn fitting(&self, object: &Object, file: &UploadFile, id: &str) -> Result<Option<Vec<Part>>, S3Failure> {
        let parts = match self.client.parts(object, id) {
            Ok(parts) => parts,
            Err(failed) if failed.refusal.why == Why::Missing => return Ok(None),
            Err(failed) => return Err(failed),
        };
        let fits = |part: &Part| {
            let range = file.plan.range(part.number, file.size);
            (1..=file.plan.count).contains(&part.number) && part.bytes == range.end - range.start
        };
        Ok(parts.iter().all(fits).then_some(parts))
    }

    fn corrupt(&self, object: &Object, what: &str) -> S3Failure {
        let error = Error::new(ErrorKind::Corrupt, format!("{}: {what}", self.shown(object)));
        Refusal::of(Why::Senseless, error).into()
    }

    /// Completes the upload `id` of these parts, with the sum of all or without.
    fn put_together(
        &self,
        file: &UploadFile,
        object: &Object,
        id: &str,
        parts: &[(String, PieceSums)],
        with: bool,
    ) -> Result<(), S3Failure> {
        let what = "complete";
        let numbered = || (1..).zip(parts);
        let listed = numbered().map(|(number, (tag, sums))| (number, tag.as_str(), with.then_some(sums.crc)));
        let xml = answer::complete(listed);
        let mut headers = vec![("content-type".to_owned(), "application/xml".to_owned())];
        if with {
            let length = |number| file.plan.range(number, file.size);
            let all =
                numbered().map(|(number, (_, sums))| (sums.crc, length(number).end - length(number).start));
            sums::add_of_whole(&mut headers, Crc64::of_parts(all));
        }
        let query = [("uploadId", id)];
        let request = S3Request::new(what, Method::Post, object).query(&query).headers(&headers);
        let reply = self.client.call(&request, xml.as_bytes())?;
        // The answer begins before the work is done, so an error may come with status 200.
        let xml = self.client.document(what, reply)?;
        let (code, message) = answer::error(&xml);
        if code.is_empty() {
            return Ok(());
        }
        let why = format!("cannot {what} {}: {code}: {message}", self.shown(object));
        let (mut reason, mut kind) = crate::remote::s3::calls::meaning(400, &code);
        if code == "InvalidPart" {
            (reason, kind) = (Why::Senseless, ErrorKind::Corrupt);
        }
        Err(Refusal::of(reason, Error::new(kind, why)).into())
    }

    /// The upload `id` is no more.
    fn end(&self, object: &Object, id: &str) {
        self.under_way.ours.ended(&object.key);
        self.under_way.sums.end(id);
    }

    /// Holds what the server has against what was sent in `parts`, whose tag should be `expected`.
    fn confirm(
        &self,
        object: &Object,
        file: &UploadFile,
        expected: &str,
        parts: &[Md5Sum],
    ) -> Result<Stored, S3Failure> {
        let corrupt = |what: String| self.corrupt(object, &what);
        let Some(present) = self.head(object)? else {
            return Err(corrupt("the server has it no longer, just after it took it".to_owned()));
        };
        if present.bytes != Some(file.size) {
            let size = present.bytes.map_or_else(|| "no size".to_owned(), |bytes| bytes.to_string());
            return Err(corrupt(format!("{} bytes were sent, the server has {size}", file.size)));
        }
        if is_of_whole(&present.tag, expected) {
            self.read_back(object, file, parts)?;
            return Ok(Stored { tag: present.tag, verified: true });
        }
        if present.tag_is_md5 && is_md5(&present.tag) && present.tag != expected {
            let what = format!("the server's checksum is {}, {expected} was sent", present.tag);
            return Err(corrupt(what));
        }
        // Where tags are no MD5s, each part's Content-MD5 has been checked when it arrived.
        let verified = !present.tag_is_md5 || present.tag == expected;
        Ok(Stored { tag: present.tag, verified })
    }

    /// Reads an object, and compares each of its parts with what was sent.
    fn read_back(&self, object: &Object, file: &UploadFile, parts: &[Md5Sum]) -> Result<(), S3Failure> {
        let mut body =
            self.client.call(&S3Request::new("read back", Method::Get, object), &[])?.into_reader();
        for (number, md5) in (1..).zip(parts) {
            let range = file.plan.range(number, file.size);
            let sum = md5_of(&mut body.by_ref().take(range.end - range.start)).map_err(|error| {
                let what = format!("cannot read {} back: {}", self.shown(object), io_words(&error));
                Refusal::new(Why::Broken, what)
            })?;
            if sum != *md5 {
                return Err(self.corrupt(object, &format!("read back, part {number} is not what was sent")));
            }
        }
        Ok(())
    }

    fn shown(&self, object: &Object) -> String {
        object.url().map_or_else(|_| format!("s3://{}", object.bucket), |url| url.to_string())
    }
}

impl UploadConnection for S3Connection {
    fn survey(&mut self) -> Result<bool, Refusal> {
        let prefix = self.place.clone();
        let inhabited = match self.client.list(&prefix, 1, None) {
            Ok(page) => !page.items.is_empty(),
            // Whoever may write need not be allowed to list.
            Err(failed) if failed.code == "AccessDenied" => true,
            Err(failed) => return Err(failed.refusal),
        };
        let mut listed = HashMap::<String, Vec<String>>::new();
        let (mut from, mut count) = (None, 0);
        for _ in 0..MAX_PAGES {
            let page = match self.client.uploads(&prefix, from.as_ref()) {
                Ok(page) => page,
                Err(failed) if failed.refusal.why.retry() != Retry::Never => {
                    return Err(failed.refusal);
                }
                Err(failed) => {
                    tracing::debug!("uploads under way cannot be listed: {}", failed.refusal.error);
                    break;
                }
            };
            count += page.uploads.len();
            for upload in page.uploads {
                listed.entry(upload.key).or_default().push(upload.id);
            }
            if page.next.is_none() || page.next == from || count >= MAX_UPLOADS {
                break;
            }
            from = page.next;
        }
        *self.under_way.listed.lock() = listed;
        Ok(inhabited)
    }

    fn look(&mut self, file: &UploadFile) -> Result<Option<Present>, Refusal> {
        Ok(self.head(&self.object(file))?)
    }

    fn put(&mut self, file: &UploadFile, body: &mut dyn Content) -> Result<Stored, Refusal> {
        let object = self.object(file);
        let (PieceSums { md5, crc }, length) = (body.sums().unwrap_or_default(), body.length());
        let reply = self.under_way.sums.send(None, Some(body), |body, with| {
            let mut headers = about(file);
            let md5 = data_encoding::BASE64.encode(&md5);
            headers.push((head::MD5.to_owned(), md5.clone()));
            headers.push(("content-md5".to_owned(), md5));
            if with {
                sums::add(&mut headers, crc);
            }
            headers.sort();
            let body = body.filter(|_| length > 0);
            let payload = body.map_or(Payload::None, |body| Payload::Reader(body, length));
            self.client.once(&S3Request::new("put", Method::Put, &object).headers(&headers), payload)
        })?;
        let (tag, plain) = (reply.tag().unwrap_or_default(), head::has_md5_tags(&reply.headers));
        let other = sums::differs(&reply.headers, crc);
        reply.finish();
        if let Some(other) = other {
            let what =
                format!("{}: it arrived damaged: the server's CRC-64/NVME is {other}", self.shown(&object));
            return Err(damaged(what));
        }
        let expected = data_encoding::HEXLOWER.encode(&md5);
        if plain && tag == expected {
            return Ok(Stored { tag, verified: true });
        }
        self.confirm(&object, file, &expected, &[md5]).map_err(|failed| arrived_damaged(failed.refusal))
    }

    fn begin(&mut self, file: &UploadFile) -> Result<(String, Vec<Part>), Refusal> {
        let object = self.object(file);
        let key = object.key.as_str();
        let ours = self.under_way.ours.get(key);
        if let Some((id, version)) = &ours {
            let same_version = *version == file.fingerprint;
            let parts = if same_version { self.fitting(&object, file, id)? } else { None };
            if let Some(parts) = parts {
                self.under_way.sums.begin(id, true, &parts);
                return Ok((id.clone(), parts));
            }
            // Of another version of the source, cut otherwise, or gone.
            self.abort(file, id)?;
        }
        let others = self.under_way.listed.lock().remove(key).unwrap_or_default();
        for id in others.into_iter().filter(|id| ours.as_ref().is_none_or(|(ours, _)| ours != id)) {
            // Another host's, or ours from before its state was lost: each part is compared before it is
            // relied upon, and completing names each part by its tag, so nothing can be mixed.
            if let Some(parts) = self.fitting(&object, file, &id)?.filter(|parts| !parts.is_empty()) {
                self.under_way.ours.started(key, &id, file.fingerprint);
                self.under_way.sums.begin(&id, true, &parts);
                return Ok((id, parts));
            }
        }
        let what = "begin to put";
        let mut summed = false;
        let reply = self.under_way.sums.send(None, None, |_, with| {
            summed = with;
            let mut headers = about(file);
            headers.push((head::PART_SIZE.to_owned(), file.plan.part.to_string()));
            if with {
                sums::announce(&mut headers);
            }
            headers.sort();
            let query = [("uploads", "")];
            self.client
                .call(&S3Request::new(what, Method::Post, &object).query(&query).headers(&headers), &[])
        })?;
        let xml = self.client.document(what, reply)?;
        let id = answer::element(&xml, "UploadId").filter(|id| !id.is_empty()).ok_or_else(|| {
            Refusal::new(
                Why::Senseless,
                format!("{}: the server gave no id for an upload", self.shown(&object)),
            )
        })?;
        self.under_way.ours.started(key, &id, file.fingerprint);
        self.under_way.sums.begin(&id, summed, &[]);
        Ok((id, Vec::new()))
    }

    fn put_part(
        &mut self,
        file: &UploadFile,
        id: &str,
        number: u32,
        body: &mut dyn Content,
    ) -> Result<StoredPart, Refusal> {
        let object = self.object(file);
        let (PieceSums { md5, crc }, length) = (body.sums().unwrap_or_default(), body.length());
        let text = number.to_string();
        let query = [("partNumber", text.as_str()), ("uploadId", id)];
        let what = format!("put part {number} of");
        let reply = self.under_way.sums.send(Some(id), Some(body), |body, with| {
            let mut headers = vec![("content-md5".to_owned(), data_encoding::BASE64.encode(&md5))];
            if with {
                sums::add(&mut headers, crc);
            }
            headers.sort();
            let payload = body.map_or(Payload::None, |body| Payload::Reader(body, length));
            let request = S3Request::new(&what, Method::Put, &object).query(&query).headers(&headers);
            self.client.once(&request, payload)
        })?;
        let (tag, plain) = (reply.tag().unwrap_or_default(), head::has_md5_tags(&reply.headers));
        let other = sums::differs(&reply.headers, crc);
        reply.finish();
        if let Some(other) = other {
            let what = format!(
                "{}: part {number} arrived damaged: the server's CRC-64/NVME is {other}",
                self.shown(&object)
            );
            return Err(damaged(what));
        }
        let expected = data_encoding::HEXLOWER.encode(&md5);
        if tag.is_empty() || (plain && is_md5(&tag) && tag != expected) {
            let what = format!(
                "{}: part {number} arrived damaged: the server's checksum is {tag:?}, {expected} was sent",
                self.shown(&object)
            );
            return Err(damaged(what));
        }
        Ok(StoredPart::sent(tag))
    }

    fn complete(
        &mut self,
        file: &UploadFile,
        id: &str,
        parts: &[(String, PieceSums)],
    ) -> Result<Stored, Refusal> {
        let object = self.object(file);
        let expected = tag_of_parts(parts.iter().map(|(_, sums)| sums.md5));
        let completed = self
            .under_way
            .sums
            .send(Some(id), None, |_, with| self.put_together(file, &object, id, parts, with));
        match completed {
            Ok(()) => {}
            // An answer that was lost: the work may have been done.
            Err(failed) if failed.code == "NoSuchUpload" => {
                let is_ours = |tag: &str| tag == expected || is_of_whole(tag, &expected);
                let done = self
                    .head(&object)?
                    .is_some_and(|present| present.bytes == Some(file.size) && is_ours(&present.tag));
                if !done {
                    self.end(&object, id);
                    return Err(failed.refusal);
                }
            }
            Err(failed) => return Err(failed.refusal),
        }
        self.end(&object, id);
        let sums: Vec<Md5Sum> = parts.iter().map(|(_, sums)| sums.md5).collect();
        Ok(self.confirm(&object, file, &expected, &sums)?)
    }

    fn abort(&mut self, file: &UploadFile, id: &str) -> Result<(), Refusal> {
        let object = self.object(file);
        let query = [("uploadId", id)];
        match self.client.call(&S3Request::new("abort", Method::Delete, &object).query(&query), &[]) {
            Ok(reply) => reply.finish(),
            Err(failed) if failed.refusal.why == Why::Missing => {}
            Err(failed) => return Err(failed.refusal),
        }
        self.end(&object, id);
        Ok(())
    }

    fn remove(&mut self, path: &RelPath) -> Result<bool, Refusal> {
        match self.client.call(&S3Request::new("delete", Method::Delete, &self.beneath(path)), &[]) {
            Ok(reply) => reply.finish(),
            Err(failed) if failed.refusal.why == Why::Missing => {}
            Err(failed) => return Err(failed.refusal),
        }
        Ok(true)
    }
}

/// What is stored with an object: its time in the form that other tools use too.
fn about(file: &UploadFile) -> Vec<(String, String)> {
    vec![
        ("content-type".to_owned(), "application/octet-stream".to_owned()),
        (head::MTIME.to_owned(), head::time_text(file.mtime())),
    ]
}

/// Whether a tag looks like an MD5, or one of parts.
fn is_md5(tag: &str) -> bool {
    let hex = tag.split_once('-').map_or(tag, |(hex, _)| hex);
    hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Whether a tag may be the MD5 of all that was sent in parts, as some servers have it, which the parts' sums do not tell.
fn is_of_whole(tag: &str, expected: &str) -> bool {
    expected.contains('-') && !tag.contains('-') && is_md5(tag)
}

/// The MD5 of all that is left of `from`.
fn md5_of(from: &mut dyn Read) -> io::Result<Md5Sum> {
    let (mut sum, mut buffer) = (Md5::new(), vec![0; SIP]);
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(sum.finalize().into()),
            length => sum.update(&buffer[..length]),
        }
    }
}

/// A piece that is sent again.
fn damaged(what: String) -> Refusal {
    Refusal::of(Why::Broken, Error::new(ErrorKind::Corrupt, what))
}

fn arrived_damaged(mut refusal: Refusal) -> Refusal {
    if refusal.error.kind == ErrorKind::Corrupt {
        refusal.why = Why::Broken;
    }
    refusal
}
