//! One worker's way there: a file or a part of one at a time.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::path::RelPath;

use super::file::RemoteFile;
use super::{MAX_MADE, Place, Shared};
use crate::put::target::{
    Content, Md5Sum, PieceSums, Present, Stored, StoredPart, UploadConnection, UploadFile,
};
use crate::remote::s3::answer::Part;
use crate::remote::sftp::SftpLine;
use crate::remote::sftp::attributes::{Attributes, FileKind};
use crate::remote::sftp::path::within;
use crate::remote::sftp::reply::Status;
use crate::remote::sftp::request::{Opening, Request};
use crate::remote::sftp::session::Session;
use crate::remote::sftp::trouble::SftpTrouble;
use crate::remote::{Refusal, Why, shown};

/// The ids of uploads that were begun by this run and by an earlier one.
const NEW: &str = "new";
const OLD: &str = "old";

/// One worker's way there.
pub(super) struct SftpConnection {
    line: SftpLine,
    shared: Arc<Shared>,
}

impl SftpConnection {
    pub const fn new(line: SftpLine, shared: Arc<Shared>) -> Self {
        Self { line, shared }
    }

    /// Does `work` in a session; what goes wrong is told of the file that goes to `place`.
    fn with<T>(
        &self,
        place: &Place,
        work: impl FnMut(&mut Session) -> Result<T, SftpTrouble>,
    ) -> Result<T, Refusal> {
        self.line.with(&self.shared.base, work).map_err(|trouble| refusal(trouble, place))
    }

    /// The same with content, which is taken from its beginning each time.
    fn with_content<T>(
        &self,
        place: &Place,
        body: &mut dyn Content,
        mut work: impl FnMut(&mut Session, &mut dyn Content) -> Result<T, SftpTrouble>,
    ) -> Result<T, Refusal> {
        let mut begun = false;
        self.with(place, |session| {
            if std::mem::replace(&mut begun, true) && !body.rewind() {
                return Err(SftpTrouble::Refused(Refusal::new(Why::Broken, "the session of ssh ended")));
            }
            work(session, body)
        })
    }

    /// Has the directory at `path` be there.
    fn make(&self, session: &mut Session, path: &[u8]) -> Result<(), SftpTrouble> {
        if matches!(path, b"/" | b"." | b"") || self.shared.made.lock().contains(path) {
            return Ok(());
        }
        if !made(session, path)? {
            let slash = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            self.make(session, &path[..slash])?;
            if !made(session, path)? {
                return Err(SftpTrouble::Status(Status { code: Status::DENIED, words: String::new() }));
            }
        }
        let mut known = self.shared.made.lock();
        if known.len() < MAX_MADE {
            known.insert(path.to_vec());
        }
        Ok(())
    }

    /// Writes `body` at `start` into the unfinished file, and reads it back.
    fn write(
        &self,
        file: &mut RemoteFile<'_>,
        start: u64,
        body: &mut dyn Content,
        place: &Place,
    ) -> Result<PieceSums, SftpTrouble> {
        let length = body.length();
        let written = file.write(start, body)?;
        let Some(sums) = body.sums().filter(|_| written == length) else {
            return Err(SftpTrouble::Refused(Refusal::new(
                Why::Broken,
                format!("{}: it was cut off", shown(&place.url)),
            )));
        };
        if self.shared.reads_back && !self.is_there(file, start..start + length, sums.md5, place)? {
            let what = format!("{}: read back, it is not what was sent", shown(&place.url));
            let error = Error::new(ErrorKind::Corrupt, what);
            return Err(SftpTrouble::Refused(Refusal::of(Why::Broken, error)));
        }
        Ok(sums)
    }

    /// Whether what was written is there, by what is read through the same opening of the file, or else through another: some
    /// servers read nothing by one that writes.
    fn is_there(
        &self,
        file: &mut RemoteFile<'_>,
        range: Range<u64>,
        md5: Md5Sum,
        place: &Place,
    ) -> Result<bool, SftpTrouble> {
        if !self.shared.reads_anew.load(Relaxed) {
            match file.sum(range.clone()) {
                Ok(sum) if sum == md5 => return Ok(true),
                Ok(_) | Err(SftpTrouble::Status(_)) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        let is_there = file.sum_anew(&place.part, range)? == md5;
        self.shared.reads_anew.fetch_or(is_there, Relaxed);
        Ok(is_there)
    }

    /// Whether the server leaves what is in an unfinished file, into which nothing was written, when it is opened to be
    /// written.
    fn keeps(&self, session: &mut Session, place: &Place) -> Result<bool, SftpTrouble> {
        if self.shared.keeps.load(Relaxed) {
            return Ok(true);
        }
        let mut there = RemoteFile::open(session, &place.part, Opening::Write)?;
        there.write(0, &mut &[0][..])?;
        there.close()?;
        let mut there = RemoteFile::open(session, &place.part, Opening::Write)?;
        let keeps = there.attributes()?.size == Some(1);
        there.leave()?;
        self.shared.keeps.store(keeps, Relaxed);
        Ok(keeps)
    }

    /// Has the unfinished file, which is whole, be what the source is, on the disk, and of the file's name.
    fn finish(
        &self,
        mut there: RemoteFile<'_>,
        file: &UploadFile,
        place: &Place,
    ) -> Result<Attributes, SftpTrouble> {
        let mode = Some(file.listed.entry.mode & 0o777);
        let modified = u32::try_from(file.mtime().seconds).ok();
        if !there.set(Attributes { size: None, mode, modified })? {
            self.tell_once(
                &self.shared.told_of_attributes,
                "keeps no modes and times of files: others are there",
            );
        }
        there.sync()?;
        let attributes = there.attributes()?;
        there.close()?;
        if attributes.size != Some(file.size) {
            let what = format!("{}: the server has another size than was sent", shown(&place.url));
            let error = Error::new(ErrorKind::Corrupt, what);
            return Err(SftpTrouble::Refused(Refusal::of(Why::Broken, error)));
        }
        Ok(attributes)
    }

    /// Gives an unfinished file its name.
    fn rename(&self, session: &mut Session, place: &Place) -> Result<(), SftpTrouble> {
        if session.abilities.posix_rename {
            return session.done(&Request::PosixRename(&place.part, &place.path));
        }
        match session.done(&Request::Rename(&place.part, &place.path)) {
            Err(trouble) if trouble.is(Status::FAILURE) => self.replace(session, place, trouble),
            done => done,
        }
    }

    /// Gives it the name that something else may bear, which is set aside meanwhile, and comes back if that fails.
    fn replace(&self, session: &mut Session, place: &Place, refused: SftpTrouble) -> Result<(), SftpTrouble> {
        let aside = [&place.part[..], b".old"].concat();
        match session.done(&Request::Rename(&place.path, &aside)) {
            // Nothing bears the name: it was refused for another reason.
            Err(trouble) if trouble.is(Status::NO_SUCH_FILE) => return Err(refused),
            done => done?,
        }
        self.tell_once(
            &self.shared.told_of_renames,
            "cannot replace a file at once: the old one is set aside until the new one has its name",
        );
        if let Err(trouble) = session.done(&Request::Rename(&place.part, &place.path)) {
            session.done(&Request::Rename(&aside, &place.path))?;
            return Err(trouble);
        }
        session.done(&Request::Remove(&aside))
    }

    fn tell_once(&self, told: &AtomicBool, what: &str) {
        if !told.swap(true, Relaxed) {
            tracing::warn!("the server of {} {what}", shown(&self.shared.base));
        }
    }

    fn stored(&self, attributes: &Attributes) -> Stored {
        Stored { tag: tag(attributes), verified: self.shared.reads_back }
    }

    /// Whether the part in `range` is there by an earlier run.
    fn has(
        &self,
        session: &mut Session,
        place: &Place,
        range: &Range<u64>,
        md5: Md5Sum,
    ) -> Result<bool, SftpTrouble> {
        let mut there = RemoteFile::open(session, &place.part, Opening::Read)?;
        let has = there.is_begun(range)? && there.sum(range.clone())? == md5;
        there.leave()?;
        Ok(has)
    }
}

/// Makes a directory, if it is not there; `false` if there is none to make it in.
fn made(session: &mut Session, path: &[u8]) -> Result<bool, SftpTrouble> {
    let replies = session.all(&[Request::MakeDirectory(path), Request::Stat(path)])?;
    let Ok([made, seen]) = <[_; 2]>::try_from(replies) else { return Ok(false) };
    match seen.attributes() {
        Ok(seen) if seen.kind() == FileKind::Directory => Ok(true),
        Ok(_) => {
            let words = "a file lies where a directory is needed".to_owned();
            Err(SftpTrouble::Status(Status { code: u32::MAX, words }))
        }
        // What forbids it is told by who was to make it.
        Err(trouble) if trouble.is(Status::NO_SUCH_FILE) => match made.done() {
            Err(made) if made.is(Status::NO_SUCH_FILE) => Ok(false),
            Err(made) => Err(made),
            Ok(()) => Err(trouble),
        },
        Err(trouble) => Err(trouble),
    }
}

/// What stands for a version of a file there.
fn tag(attributes: &Attributes) -> String {
    match (attributes.size, attributes.modified) {
        (Some(size), Some(modified)) => format!("{size:x}-{modified:x}"),
        _ => String::new(),
    }
}

/// What is told of a file that could not be written.
fn refusal(trouble: SftpTrouble, place: &Place) -> Refusal {
    let (kind, why) = match &trouble {
        trouble if trouble.is(Status::FAILURE) => (
            ErrorKind::Io,
            "its server says no more than that it failed: is there room, and is a quota used up?",
        ),
        trouble if trouble.is(Status::DENIED) => {
            (ErrorKind::Denied, "we may not write there: name another directory, or have its owner allow it")
        }
        _ => return trouble.refusal("write", &place.url),
    };
    Refusal::of(Why::Denied, Error::new(kind, format!("cannot write {}: {why}", shown(&place.url))))
}

impl UploadConnection for SftpConnection {
    fn survey(&mut self) -> Result<bool, Refusal> {
        let shared = Arc::clone(&self.shared);
        let seen = self.line.with(&shared.base, |session| {
            let mut kind = |path: &[u8]| match session.attributes(&Request::Stat(path)) {
                Ok(seen) => Ok(Some(seen.kind())),
                Err(trouble) if trouble.is(Status::NO_SUCH_FILE) => Ok(None),
                Err(trouble) => Err(trouble),
            };
            let directory = kind(&shared.directory)?;
            let single = match &shared.single {
                Some(name) if directory.is_some() => kind(&within(&shared.directory, name))?,
                _ => None,
            };
            Ok((directory, single))
        });
        let (directory, single) = seen.map_err(|trouble| trouble.refusal("look at", &shared.base))?;
        match directory {
            None => Ok(false),
            Some(FileKind::Directory) => {
                shared.goes_within.store(single == Some(FileKind::Directory), Relaxed);
                Ok(true)
            }
            Some(_) => {
                let what = format!("{}: a file lies there, and no directory", shown(&shared.base));
                Err(Refusal::of(Why::Senseless, Error::new(ErrorKind::UnsafeName, what)))
            }
        }
    }

    fn look(&mut self, file: &UploadFile) -> Result<Option<Present>, Refusal> {
        let place = self.shared.place(file);
        let compares = self.shared.compares;
        let seen = self.line.with(&self.shared.base, |session| {
            let seen = match session.attributes(&Request::Lstat(&place.path)) {
                Ok(seen) => seen,
                Err(trouble) if trouble.is(Status::NO_SUCH_FILE) => return Ok(None),
                Err(trouble) => return Err(trouble),
            };
            if !compares || seen.kind() != FileKind::Regular || seen.size != Some(file.size) {
                return Ok(Some((seen, None)));
            }
            let mut there = RemoteFile::open(session, &place.path, Opening::Read)?;
            let sum = there.sum(0..file.size)?;
            there.leave()?;
            Ok(Some((seen, Some(sum))))
        });
        let Some((seen, sum)) = seen.map_err(|trouble| trouble.refusal("look at", &place.url))? else {
            return Ok(None);
        };
        match seen.kind() {
            FileKind::Regular | FileKind::Untold => {}
            // It is replaced.
            FileKind::Link => return Ok(Some(Present { modified: seen.time(), ..Present::default() })),
            FileKind::Directory | FileKind::Other => {
                let what = format!("{}: what has this name there is no file", shown(&place.url));
                return Err(Refusal::of(Why::Senseless, Error::new(ErrorKind::UnsafeName, what)));
            }
        }
        let bytes = seen.size;
        Ok(Some(match sum {
            Some(sum) => {
                let tag = data_encoding::HEXLOWER.encode(&sum);
                Present { bytes, tag, tag_is_md5: true, modified: seen.time(), keeps_time: true }
            }
            None => {
                let tag = tag(&seen);
                Present { bytes, tag, tag_is_md5: false, modified: seen.time(), keeps_time: true }
            }
        }))
    }

    fn put(&mut self, file: &UploadFile, body: &mut dyn Content) -> Result<Stored, Refusal> {
        let place = self.shared.place(file);
        let put = self.with_content(&place, body, |session, body| {
            self.make(session, &place.above)?;
            let mut there = RemoteFile::open(session, &place.part, Opening::Write)?;
            self.write(&mut there, 0, body, &place)?;
            let attributes = self.finish(there, file, &place)?;
            self.rename(session, &place)?;
            Ok(attributes)
        });
        if let Err(refusal) = &put
            && refusal.why != Why::Unreachable
        {
            let _ = self.abort(file, NEW);
        }
        put.map(|attributes| self.stored(&attributes))
    }

    fn begin(&mut self, file: &UploadFile) -> Result<(String, Vec<Part>), Refusal> {
        let place = self.shared.place(file);
        let size = self.with(&place, |session| {
            self.make(session, &place.above)?;
            let mut there = RemoteFile::open(session, &place.part, Opening::Write)?;
            let size = there.attributes()?.size;
            there.leave()?;
            if size == Some(0) && !self.keeps(session, &place)? {
                let _ = session.done(&Request::Remove(&place.part));
                let why = "its server empties a file that is opened to be written, and this one goes in parts: `tidegate put --part-size` with its size sends it as one";
                let what = format!("cannot write {}: {why}", shown(&place.url));
                return Err(SftpTrouble::Refused(Refusal::of(Why::Denied, Error::new(ErrorKind::Usage, what))));
            }
            Ok(size)
        })?;
        let id = if size.is_some_and(|size| size > 0) { OLD } else { NEW };
        Ok((id.to_owned(), Vec::new()))
    }

    fn put_part(
        &mut self,
        file: &UploadFile,
        id: &str,
        number: u32,
        body: &mut dyn Content,
    ) -> Result<StoredPart, Refusal> {
        let place = self.shared.place(file);
        let range = file.plan.range(number, file.size);
        let tag = |sums: PieceSums| data_encoding::HEXLOWER.encode(&sums.md5);
        if let Some(sums) = body.sums().filter(|_| id == OLD)
            && self.with(&place, |session| self.has(session, &place, &range, sums.md5))?
        {
            return Ok(StoredPart { tag: tag(sums), was_there: true });
        }
        let sums = self.with_content(&place, body, |session, body| {
            let mut there = RemoteFile::open(session, &place.part, Opening::Write)?;
            let sums = self.write(&mut there, range.start, body, &place)?;
            there.close()?;
            Ok(sums)
        })?;
        Ok(StoredPart { tag: tag(sums), was_there: false })
    }

    fn complete(&mut self, file: &UploadFile, _: &str, _: &[(String, PieceSums)]) -> Result<Stored, Refusal> {
        let place = self.shared.place(file);
        let attributes = self.with(&place, |session| {
            match RemoteFile::open(session, &place.part, Opening::Read) {
                Ok(there) => {
                    let attributes = self.finish(there, file, &place)?;
                    self.rename(session, &place)?;
                    Ok(attributes)
                }
                // It may have its name, and the answer was lost.
                Err(trouble) if trouble.is(Status::NO_SUCH_FILE) => {
                    let seen = session.attributes(&Request::Lstat(&place.path))?;
                    match seen.size == Some(file.size)
                        && seen.modified.map(i64::from) == Some(file.mtime().seconds)
                    {
                        true => Ok(seen),
                        false => Err(trouble),
                    }
                }
                Err(trouble) => Err(trouble),
            }
        })?;
        Ok(self.stored(&attributes))
    }

    fn abort(&mut self, file: &UploadFile, _: &str) -> Result<(), Refusal> {
        let place = self.shared.place(file);
        self.with(&place, |session| match session.done(&Request::Remove(&place.part)) {
            Err(trouble) if trouble.is(Status::NO_SUCH_FILE) => Ok(()),
            done => done,
        })
    }

    fn remove(&mut self, path: &RelPath) -> Result<bool, Refusal> {
        let (there, url) =
            (within(&self.shared.directory, path.as_bytes()), self.shared.url(path.as_bytes()));
        let removed =
            self.line.with(&self.shared.base, |session| match session.done(&Request::Remove(&there)) {
                Err(trouble) if trouble.is(Status::NO_SUCH_FILE) => Ok(true),
                done => done.map(|()| true),
            });
        removed.map_err(|trouble| trouble.refusal("delete", &url))
    }

    fn remove_directory(&mut self, path: &RelPath) -> Result<bool, Refusal> {
        let (there, url) =
            (within(&self.shared.directory, path.as_bytes()), self.shared.url(path.as_bytes()));
        let removed = self.line.with(&self.shared.base, |session| {
            match session.done(&Request::RemoveDirectory(&there)) {
                Ok(()) => Ok(true),
                // Something is in it: the protocol has no word of its own for that.
                Err(SftpTrouble::Status(_)) => Ok(false),
                Err(trouble) => Err(trouble),
            }
        });
        removed.map_err(|trouble| trouble.refusal("delete", &url))
    }
}
