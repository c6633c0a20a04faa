//! Objects that are put in parts: each a file beneath `.tidegate` until all are there, and then one object. What is under
//! way is known to this process alone: after a restart clients are told that there is no such upload, and begin anew.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use data_encoding::HEXLOWER;
use quick_xml::Reader;
use quick_xml::events::Event;
use tidegate_fetch::checksum::{Algorithm, Hashers};
use tidegate_transfer::endpoint::access::{Access, Right};
use tidegate_transfer::manifest::{BLOCK, Entry, Kind, Timestamp};
use tidegate_transfer::path::{RelPath, join};
use tidegate_transfer::spec::TransferId;
use tidegate_transfer::store::file_sink::FileSink;
use tidegate_transfer::store::{Sink, SinkFile};
use tidegate_transfer::terms::Purpose;
use tidegate_transfer::transfer::route::random_run;

use crate::receive::Taker;
use crate::refusal::{Answer, Refusal};
use crate::upload::{Parents, Upload};
use crate::validators::Validators;

/// Most uploads under way.
const MAX_UPLOADS: usize = 256;

/// The largest number of a part, as S3 has it.
const MAX_PARTS: u32 = 10_000;

/// How long an upload may be under way.
const EXPIRY: Duration = Duration::from_secs(7 * 24 * 3600);

/// Bytes that are copied at a time.
const COPIED: u64 = 8 * BLOCK;

/// All that is under way.
#[derive(Default)]
pub struct Uploads(Mutex<HashMap<String, Arc<Multipart>>>);

/// One upload.
pub struct Multipart {
    /// Whose it is.
    owner: String,
    path: Vec<u8>,
    sink: FileSink,
    parts: Mutex<BTreeMap<u32, Part>>,
    modified: Timestamp,
    began: Instant,
}

/// A part that has arrived.
struct Part {
    tag: String,
    entry: Entry,
}

impl Uploads {
    /// Begins to put the object at `path`; answers with the upload's name.
    pub fn begin(&self, access: &Access, path: &[u8], modified: Timestamp) -> Answer<String> {
        let reached = access.reach(path, Right::Write)?;
        let place = RelPath::new(reached.rest)?;
        if reached.base.dir(place.as_bytes()).is_ok() {
            return Err(Refusal::new(StatusCode::CONFLICT, "a directory bears that name"));
        }
        let mut known = self.0.lock().expect("not poisoned");
        known.retain(|_, upload| upload.began.elapsed() < EXPIRY);
        if known.len() >= MAX_UPLOADS {
            let why = "too many uploads are under way: end some";
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
        }
        let id: TransferId = random_run();
        // The part files lie beside the object, on its file system.
        let directory = [place.split().0, b"/"].concat();
        let sink = FileSink::new((&reached.base, &directory), false, &id, Purpose::Copy, &[])?;
        let id = HEXLOWER.encode(&id);
        let (owner, path) = (access.name().to_owned(), path.to_vec());
        let upload =
            Multipart { owner, path, sink, parts: Mutex::default(), modified, began: Instant::now() };
        known.insert(id.clone(), Arc::new(upload));
        Ok(id)
    }

    /// The upload `id` to `path`, if it is of the same token.
    pub fn find(&self, access: &Access, path: &[u8], id: &str) -> Answer<Arc<Multipart>> {
        let known = self.0.lock().expect("not poisoned");
        let found = known.get(id).filter(|upload| upload.owner == access.name() && upload.path == path);
        found.map(Arc::clone).ok_or_else(|| {
            Refusal::new(StatusCode::NOT_FOUND, "there is no such upload: begin it anew")
                .called("NoSuchUpload")
        })
    }

    /// Forgets an upload, whose parts go once nobody works on it.
    pub fn end(&self, id: &str) {
        self.0.lock().expect("not poisoned").remove(id);
    }
}

impl Drop for Multipart {
    fn drop(&mut self) {
        self.sink.clean_up();
    }
}

/// A part on its way.
pub struct Receiving {
    upload: Arc<Multipart>,
    number: u32,
    file: Option<Box<dyn SinkFile>>,
    entry: Entry,
    md5: Hashers,
    written: u64,
}

impl Receiving {
    /// Begins part `number` of `upload`.
    pub fn begin(upload: Arc<Multipart>, number: &str) -> Answer<Self> {
        let number = number.parse().ok().filter(|number| (1..=MAX_PARTS).contains(number));
        let number: u32 = number.ok_or_else(|| {
            Refusal::senseless("a part's number is from 1 to 10000").called("InvalidArgument")
        })?;
        // No two that are sent have one file, whatever their number.
        let name = format!("part {number} {}", HEXLOWER.encode(&random_run()));
        let kind = Kind::File { size: 0, fingerprint: [0; 16] };
        let entry =
            Entry { path: join(b"", name.as_bytes())?, kind, mode: 0o600, mtime: Timestamp::default() };
        let file = Some(upload.sink.open(&entry, false)?);
        Ok(Self { upload, number, file, entry, md5: Hashers::new([Algorithm::Md5]), written: 0 })
    }

    /// It is whole: answers with its tag, which is its MD5 in quotes.
    pub fn finish(mut self) -> String {
        let md5 = std::mem::take(&mut self.md5).finish().hex(Algorithm::Md5).unwrap_or_default();
        let tag = format!("\"{md5}\"");
        self.file = None;
        let kind = Kind::File { size: self.written, fingerprint: [0; 16] };
        let entry = Entry { kind, ..self.entry.clone() };
        let part = Part { tag: tag.clone(), entry };
        let before = self.upload.parts.lock().expect("not poisoned").insert(self.number, part);
        // Dropping this discards what is in `entry`.
        if let Some(before) = before {
            self.entry = before.entry;
        } else {
            self.entry.path = join(b"", b"none").expect("a name");
        }
        tag
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.upload.sink.discard(&self.entry);
    }
}

impl Taker for Receiving {
    fn take(&mut self, bytes: &[u8]) -> Answer<()> {
        self.md5.update(bytes);
        if let Some(file) = &self.file {
            file.write_at(self.written, bytes)?;
        }
        self.written += bytes.len() as u64;
        Ok(())
    }
}

impl Multipart {
    /// Makes the object of the parts that `document` lists.
    pub fn complete(&self, access: &Access, document: &str) -> Answer<Option<Validators>> {
        let listed = listed(document)?;
        let parts = self.parts.lock().expect("not poisoned");
        let mut entries = Vec::new();
        let mut before = 0;
        for (number, tag) in &listed {
            if *number <= before {
                return Err(Refusal::senseless("parts are listed in their order").called("InvalidPartOrder"));
            }
            before = *number;
            let part = parts.get(number).filter(|part| part.tag.trim_matches('"') == tag.trim_matches('"'));
            let part = part.ok_or_else(|| {
                Refusal::senseless(format!("part {number} is not what is listed")).called("InvalidPart")
            })?;
            entries.push(&part.entry);
        }
        if entries.is_empty() {
            return Err(Refusal::senseless("no part is listed").called("MalformedXML"));
        }
        let size = entries.iter().map(|entry| entry.size()).sum();
        let mut whole = Upload::begin(access, &self.path, Some(size), Parents::Make)?;
        let mut buffer = vec![0; COPIED as usize];
        for entry in entries {
            let part = self.sink.open(entry, true)?;
            let mut at = 0;
            while at < entry.size() {
                let length = (entry.size() - at).min(COPIED) as usize;
                part.read_at(at, &mut buffer[..length])?;
                whole.write(&buffer[..length])?;
                at += length as u64;
            }
        }
        Ok(whole.finish(access, self.modified)?)
    }
}

/// The numbers and tags that a document lists.
fn listed(document: &str) -> Answer<Vec<(u32, String)>> {
    let malformed = || Refusal::senseless("the list of parts cannot be read").called("MalformedXML");
    let (mut reader, mut parts, mut element) = (Reader::from_str(document), Vec::new(), String::new());
    let (mut number, mut tag) = (None, String::new());
    loop {
        match reader.read_event().map_err(|_| malformed())? {
            Event::Start(start) => {
                start.local_name().as_ref().clone_into(&mut element);
                if element == "Part" {
                    (number, tag) = (None, String::new());
                }
            }
            Event::Text(text) => match &element[..] {
                "PartNumber" => number = Some(text.trim().parse().map_err(|_| malformed())?),
                "ETag" => tag.push_str(text.trim()),
                _ => {}
            },
            Event::End(end) => {
                element.clear();
                if end.local_name().as_ref() == "Part" {
                    parts.push((number.take().ok_or_else(malformed)?, std::mem::take(&mut tag)));
                }
            }
            Event::Eof => return Ok(parts),
            _ => {}
        }
        if parts.len() > MAX_PARTS as usize {
            return Err(malformed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_parts_are_read_with_quotes_in_any_form() {
        let document = "<CompleteMultipartUpload xmlns=\"x\"><Part><PartNumber>1</PartNumber><ETag>&quot;a&quot;</ETag></Part>\
             <Part><ETag>\"b\"</ETag><PartNumber> 2 </PartNumber></Part></CompleteMultipartUpload>";
        let parts: Vec<_> = listed(document)
            .expect("read")
            .into_iter()
            .map(|(n, tag)| (n, tag.trim_matches('"').to_owned()))
            .collect();
        assert_eq!(parts, [(1, "a".to_owned()), (2, "b".to_owned())]);
        for bad in
            ["<Part></Part>", "<Part><PartNumber>x</PartNumber></Part>", "<Part><PartNumber>1</Part>", "<"]
        {
            assert!(listed(bad).is_err(), "{bad}");
        }
        assert!(listed("").expect("read").is_empty());
    }
}
