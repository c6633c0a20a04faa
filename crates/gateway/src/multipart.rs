//! Objects that are put in parts, which lie beneath `.tidegate` until all are there. Where all but the last are of one size, as
//! clients have it, each is written to its place in the object at once, and nothing is copied at the end. What is under way is
//! known to this process alone: after a restart clients are told that there is no such upload, and begin anew.

mod completion;

pub(crate) use completion::Completion;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use data_encoding::HEXLOWER;
use tidegate_fetch::checksum::{Algorithm, Hashers};
use tidegate_transfer::endpoint::access::Access;
use tidegate_transfer::manifest::{Entry, Kind, MAX_SIZE, Timestamp};
use tidegate_transfer::path::{RelPath, join};
use tidegate_transfer::quota::Held;
use tidegate_transfer::spec::TransferId;
use tidegate_transfer::store::apart::Apart;
use tidegate_transfer::store::file_sink::FileSink;
use tidegate_transfer::store::{Sink, SinkFile};
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::terms::Purpose;
use tidegate_transfer::transfer::route::random_run;

use crate::checksums::Verified;
use crate::limit::Share;
use crate::receive::Taker;
use crate::refusal::{Answer, Refusal};
use crate::upload::{Place, directory_of};

/// The largest number of a part, as S3 has it.
const MAX_PARTS: u32 = 10_000;

/// How long an upload stays of which nothing comes.
const EXPIRY: Duration = Duration::from_secs(3600);

/// Bytes that a part takes in memory, at most about.
const PART: usize = 512;

/// All that is under way.
#[derive(Default)]
pub struct Uploads(Mutex<HashMap<String, Arc<Multipart>>>);

/// One upload.
pub(crate) struct Multipart {
    /// Whose it is.
    access: Access,
    /// What it counts in, with what it holds of that.
    share: Arc<Share>,
    _held: (Held, Held),
    path: Vec<u8>,
    sink: FileSink,
    /// The object, as far as it has come.
    whole: Entry,
    content: Arc<dyn SinkFile>,
    state: Mutex<State>,
    /// When somebody asked for something of it last.
    used: Mutex<Instant>,
}

/// What has come of it.
struct State {
    /// The size of each part but the last, once one has begun.
    unit: Option<u64>,
    /// The numbers of those whose place in the object is taken.
    placed: BTreeSet<u32>,
    /// By their numbers.
    parts: BTreeMap<u32, Part>,
    stage: Stage,
    /// What all this takes in memory.
    memory: Held,
}

/// How far an upload has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Parts come.
    #[default]
    Open,
    /// The object is being made: none is taken.
    Completing,
    /// The object has its name: nothing may be written to it any more.
    Over,
}

/// A part that has arrived.
struct Part {
    tag: String,
    size: u64,
    sums: Verified,
    lies: Lies,
}

/// Where a part lies.
#[derive(Clone, Debug)]
enum Lies {
    /// In the object, from this offset on.
    Whole(u64),
    /// In a file of its own.
    Alone(Entry),
}

impl Uploads {
    /// Begins to put the object at `path`; answers with the upload's name.
    pub fn begin(
        &self,
        access: &Access,
        share: Arc<Share>,
        path: &[u8],
        modified: Timestamp,
    ) -> Answer<String> {
        let Place { reached, rest, mode, .. } = Place::find(access, path)?;
        self.sweep();
        let held = share.upload()?;
        let (parts, memory) = (BTreeMap::new(), share.memory(PART)?);
        let state = State { unit: None, placed: BTreeSet::new(), parts, stage: Stage::Open, memory };
        let id: TransferId = random_run();
        // The part files lie beside the object, on its file system.
        let (parent, name) = rest.split();
        let directory = [parent, b"/"].concat();
        let sink = FileSink::new((&reached.base, &directory), false, &id, Purpose::Copy, Apart::default())?
            .found_by(directory_of(access, path));
        let kind = Kind::File { size: 0, fingerprint: id };
        let whole = Entry::new(RelPath::new(name)?, kind, mode, modified);
        let content = match sink.open(&whole, false) {
            Ok(content) => Arc::from(content),
            Err(error) => {
                sink.clean_up();
                return Err(error.into());
            }
        };
        let id = HEXLOWER.encode(&id);
        let upload = Multipart {
            access: access.clone(),
            share,
            _held: held,
            path: path.to_vec(),
            sink,
            whole,
            content,
            state: Mutex::new(state),
            used: Mutex::new(Instant::now()),
        };
        self.0.lock().insert(id.clone(), Arc::new(upload));
        Ok(id)
    }

    /// Forgets what nobody has asked for anything of for long, or may not any more.
    pub fn sweep(&self) {
        let stays = |upload: &Arc<Multipart>| {
            let used = upload.used.lock().elapsed();
            Arc::strong_count(upload) > 1 || (used < EXPIRY && upload.access.check_valid().is_ok())
        };
        let gone: Vec<_> = {
            let mut known = self.0.lock();
            known.extract_if(|_, upload| !stays(upload)).collect()
        };
        // Files are removed while others may go on.
        drop(gone);
    }

    /// The upload `id` to `path`, if it is of the same token.
    pub fn find(&self, access: &Access, path: &[u8], id: &str) -> Answer<Arc<Multipart>> {
        let known = self.0.lock();
        let is_it = |upload: &&Arc<Multipart>| upload.access.name() == access.name() && upload.path == path;
        let found = known.get(id).filter(is_it).ok_or_else(unknown)?;
        *found.used.lock() = Instant::now();
        Ok(Arc::clone(found))
    }

    /// Forgets an upload, whose parts go once nobody works on it.
    pub fn end(&self, id: &str) {
        let gone = self.0.lock().remove(id);
        drop(gone);
    }
}

fn unknown() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "there is no such upload: begin it anew").called("NoSuchUpload")
}

impl Drop for Multipart {
    fn drop(&mut self) {
        self.sink.clean_up();
    }
}

impl State {
    fn goes_on(&self) -> Answer<()> {
        match self.stage {
            Stage::Open => Ok(()),
            Stage::Completing => {
                let why = "the upload is being completed: come again in a moment";
                Err(Refusal::new(StatusCode::CONFLICT, why).called("OperationAborted"))
            }
            Stage::Over => Err(unknown()),
        }
    }

    /// Where in the object part `number` of `size` bytes goes, if that can be told and nothing is there.
    fn place(&mut self, number: u32, size: u64) -> Option<u64> {
        let unit = *self.unit.get_or_insert(size);
        let offset = unit.checked_mul(u64::from(number - 1)).filter(|offset| offset + size <= MAX_SIZE)?;
        let fits = size == unit || (size < unit && number > 1);
        (fits && self.placed.insert(number)).then_some(offset)
    }
}

/// A part on its way.
pub(crate) struct Receiving {
    upload: Arc<Multipart>,
    number: u32,
    /// Where it is written; nothing, once it is whole.
    to: Option<(Lies, Arc<dyn SinkFile>)>,
    md5: Hashers,
    written: u64,
}

impl Receiving {
    /// Begins part `number` of `upload`, of `size` bytes if that is known.
    pub fn begin(upload: Arc<Multipart>, number: &str, size: Option<u64>) -> Answer<Self> {
        let number = number.parse().ok().filter(|number| (1..=MAX_PARTS).contains(number));
        let number: u32 = number.ok_or_else(|| {
            Refusal::senseless("a part's number is from 1 to 10000").called("InvalidArgument")
        })?;
        let offset = {
            let mut state = upload.state.lock();
            state.goes_on()?;
            size.and_then(|size| state.place(number, size))
        };
        let to = match offset {
            Some(offset) => (Lies::Whole(offset), Arc::clone(&upload.content)),
            None => {
                // No two that are sent have one file, whatever their number.
                let name = format!("part {number} {}", HEXLOWER.encode(&random_run()));
                let kind = Kind::File { size: 0, fingerprint: [0; 16] };
                let path = join(b"", name.as_bytes())?;
                let entry = Entry::new(path, kind, 0o600, Timestamp::default());
                let file = Arc::from(upload.sink.open(&entry, false)?);
                (Lies::Alone(entry), file)
            }
        };
        Ok(Self { upload, number, to: Some(to), md5: Hashers::new([Algorithm::Md5]), written: 0 })
    }

    /// It is whole, and has these `sums`: answers with its tag, which is its MD5 in quotes.
    pub fn finish(mut self, sums: Verified) -> Answer<String> {
        let md5 = std::mem::take(&mut self.md5).finish().hex(Algorithm::Md5).unwrap_or_default();
        let tag = format!("\"{md5}\"");
        let mut state = self.upload.state.lock();
        state.goes_on()?;
        let needs = (state.parts.len() + 2) * PART;
        if !state.memory.resize(needs) {
            return Err(self.upload.share.memory(PART).err().unwrap_or_else(unknown));
        }
        *self.upload.used.lock() = Instant::now();
        let Some((lies, _)) = self.to.take() else { return Ok(tag) };
        let part = Part { tag: tag.clone(), size: self.written, sums, lies };
        let before = state.parts.insert(self.number, part);
        drop(state);
        if let Some(before) = before {
            self.upload.give_up(self.number, &before.lies);
        }
        Ok(tag)
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        if let Some((lies, _)) = self.to.take() {
            self.upload.give_up(self.number, &lies);
        }
    }
}

impl Taker for Receiving {
    fn take(&mut self, bytes: &[u8]) -> Answer<()> {
        self.md5.update(bytes);
        if let Some((lies, file)) = &self.to {
            let begin = match lies {
                Lies::Whole(offset) => *offset,
                Lies::Alone(_) => 0,
            };
            file.write_at(begin + self.written, bytes)?;
        }
        self.written += bytes.len() as u64;
        Ok(())
    }
}

impl Multipart {
    /// What lies there is of no part any more.
    fn give_up(&self, number: u32, lies: &Lies) {
        match lies {
            Lies::Whole(_) => {
                self.state.lock().placed.remove(&number);
            }
            Lies::Alone(entry) => self.sink.discard(entry),
        }
    }
}
