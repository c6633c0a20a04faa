//! A session of requests about files: each is held against the ticket, done, and answered, in their order.

use std::time::Duration;

use tidegate_control::ByteCount;

use crate::endpoint::rights::{may_delete, may_read, may_use, may_write};
use crate::endpoint::served::scope;
use crate::endpoint::{Endpoint, SessionContext};
use crate::error::{Error, ErrorKind, Result};
use crate::quota::Share;
use crate::store::browse::{self, OpenFile};
use crate::store::edit;
use crate::store::mark;
use crate::store::naming::Replaced;
use crate::sys::clock::Instant;
use crate::sys::random;
use crate::wire::files::{Content, FileReply, FileRequest, MAX_CONTENT, MAX_RANGES};
use crate::wire::message::Message;
use crate::wire::request::Agreement;
use crate::wire::session::{Inbox, Outbox};

/// How long one may ask nothing before its place is given up.
const IDLE: Duration = Duration::from_secs(120);

/// What was done in a session, for the log.
#[derive(Debug, Default)]
struct Sum {
    requests: u64,
    changes: u64,
    failures: u64,
    bytes: u64,
}

/// Serves requests until the peer leaves or asks nothing for long.
pub(super) fn serve(
    endpoint: &Endpoint,
    session: &SessionContext,
    who: &str,
    (outbox, inbox): (&Outbox, &Inbox),
) -> Result<()> {
    if session.claims.once.is_some() {
        let why = "a one-time ticket is for one transfer, and not for asking about files";
        return Err(Error::new(ErrorKind::Denied, why));
    }
    outbox.send(&Message::accepted(&Agreement { token: random::bytes(), ..Agreement::default() }));
    let began = Instant::now();
    let share = &session.account.share;
    let mut serving = Serving { endpoint, session, outbox, inbox, share, sum: Sum::default() };
    let result = serving.run();
    let Sum { requests, changes, failures, bytes } = serving.sum;
    let (bytes, seconds) = (ByteCount(bytes), began.elapsed().as_secs_f64());
    tracing::info!(
        "{who} asked about files: {requests} requests, {changes} changes, {failures} failed, {bytes} read in {seconds:.1} s"
    );
    result
}

struct Serving<'a> {
    endpoint: &'a Endpoint,
    session: &'a SessionContext,
    outbox: &'a Outbox,
    inbox: &'a Inbox,
    share: &'a Share,
    sum: Sum,
}

impl Serving<'_> {
    fn run(&mut self) -> Result<()> {
        loop {
            match self.inbox.receive_within(IDLE) {
                Ok(Some(Message::File(number, request))) => self.answer(number, &request),
                Ok(Some(_)) => {
                    return Err(Error::protocol("a session about files has nothing but requests about them"));
                }
                Ok(None) => return Ok(()),
                // The peer has what it wanted.
                Err(error) if error.kind == ErrorKind::Connection => return Ok(()),
                Err(error) => return Err(error),
            }
            self.inbox.check_time()?;
            if self.outbox.is_lost() {
                return Ok(());
            }
        }
    }

    fn answer(&mut self, number: u32, request: &FileRequest) {
        self.sum.requests += 1;
        if let Err(error) = self.may(request).and_then(|()| self.handle(number, request)) {
            self.sum.failures += 1;
            self.reply(number, FileReply::Failed(error));
        }
    }

    /// Whether nobody is to be answered any more: the peer has left, or its ticket expired.
    fn is_over(&self) -> bool {
        self.outbox.is_lost() || self.inbox.check_time().is_err()
    }

    /// Says it once the peer has read most of what was said before.
    fn reply(&self, number: u32, reply: FileReply) {
        self.outbox.send_patiently(&Message::FileReply(number, reply), || false);
    }

    /// Whether the ticket allows it. What the ticket names itself is neither renamed nor removed.
    fn may(&self, request: &FileRequest) -> Result<()> {
        use FileRequest as R;
        let claims = &self.session.claims;
        let may_go = |path: &[u8]| {
            may_delete(self.endpoint, claims)?;
            may_use(claims, path)?;
            match trimmed(path) == trimmed(&claims.path) {
                true => Err(Error::new(
                    ErrorKind::Denied,
                    "the ticket allows what lies in this path, and not it itself",
                )),
                false => Ok(()),
            }
        };
        match request {
            R::Stat { path } | R::List { path, .. } | R::Read { path, .. } | R::Hash { path } => {
                may_read(claims)?;
                may_use(claims, path)
            }
            R::FindMark { path, .. } => {
                may_write(self.endpoint, claims).or_else(|_| may_read(claims))?;
                may_use(claims, path)
            }
            R::Write { path, .. }
            | R::Create { path, .. }
            | R::MakeDirectory { path, .. }
            | R::Mark { path, .. }
            | R::RemoveMark { path, .. } => {
                may_write(self.endpoint, claims)?;
                may_use(claims, path)
            }
            R::Rename { from, to } => {
                may_write(self.endpoint, claims)?;
                may_go(from)?;
                may_use(claims, to)
            }
            R::Remove { path } | R::RemoveDirectory { path } => may_go(path),
        }
    }

    fn handle(&mut self, number: u32, request: &FileRequest) -> Result<()> {
        use FileRequest as R;
        let scope = &scope(self.endpoint, self.session)?;
        match request {
            R::Stat { path } => {
                self.reply(number, FileReply::Status(browse::stat(scope, trimmed(path))?));
                return Ok(());
            }
            R::List { path, recursive } => return self.list(number, trimmed(path), *recursive),
            R::Read { path, version, ranges } => {
                if let Some(long) = ranges.iter().find(|range| range.length as usize > MAX_CONTENT) {
                    let why =
                        format!("a range of {} bytes; at most {MAX_CONTENT} are read at once", long.length);
                    return Err(Error::protocol(why));
                }
                let file = OpenFile::open(scope, trimmed(path), *version)?;
                for range in ranges {
                    let content = file.read(*range)?;
                    self.sum.bytes += content.len() as u64;
                    self.reply(number, FileReply::Data(Content(content)));
                    if self.is_over() {
                        break;
                    }
                }
                return Ok(());
            }
            R::Hash { path } => {
                let file = OpenFile::open(scope, trimmed(path), None)?;
                let digest = file.digest(&|| self.is_over())?;
                self.reply(number, FileReply::Hash(digest));
                return Ok(());
            }
            R::Write { path, content } => edit::write(scope, trimmed(path), &content.0, Replaced::File)?,
            R::Create { path, content } => edit::write(scope, trimmed(path), &content.0, Replaced::Nothing)?,
            R::Rename { from, to } => edit::rename(scope, trimmed(from), trimmed(to))?,
            R::Remove { path } => edit::remove(scope, trimmed(path))?,
            R::RemoveDirectory { path } => edit::remove_directory(scope, trimmed(path))?,
            R::MakeDirectory { path, parents } => edit::make_directory(scope, trimmed(path), *parents)?,
            R::Mark { path, mark } => mark::put(scope, trimmed(path), mark)?,
            R::RemoveMark { path, mark } => mark::remove(scope, trimmed(path), mark)?,
            R::FindMark { path, mark } => {
                mark::find(scope, trimmed(path), mark)?;
                self.reply(number, FileReply::Done);
                return Ok(());
            }
        }
        self.sum.changes += 1;
        self.reply(number, FileReply::Done);
        Ok(())
    }

    fn list(&self, number: u32, path: &[u8], recursive: bool) -> Result<()> {
        let (mut entries, mut problems, mut bytes) = (Vec::new(), Vec::new(), 0);
        browse::list(
            &scope(self.endpoint, self.session)?,
            path,
            recursive,
            &self.share.metadata,
            &mut |told| {
                bytes += match &told {
                    Ok(entry) => entry.memory(),
                    Err((path, error)) => path.as_bytes().len() + error.message.len(),
                };
                match told {
                    Ok(entry) => entries.push(entry),
                    Err(problem) => problems.push(problem),
                }
                if entries.len() + problems.len() == MAX_RANGES || bytes > MAX_CONTENT {
                    let (entries, problems) = (std::mem::take(&mut entries), std::mem::take(&mut problems));
                    self.reply(number, FileReply::Entries { entries, problems, more: true });
                    bytes = 0;
                }
                !self.is_over()
            },
        )?;
        self.inbox.check_time()?;
        self.reply(number, FileReply::Entries { entries, problems, more: false });
        Ok(())
    }
}

/// A path without the slash that may follow it.
fn trimmed(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}
