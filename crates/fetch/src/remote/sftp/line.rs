//! One worker's way to servers: a session that is kept from request to request.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tidegate_transfer::error::{Error, ErrorKind};
use url::{Position, Url};

use super::session::{Session, no_carrier};
use super::trouble::SftpTrouble;
use crate::remote::carrier::SftpCarrier;
use crate::remote::settings::ServerSettings;

/// How many sessions are begun at once: sshd turns more than ten away that have not logged in.
const BEGUN_AT_ONCE: usize = 4;

/// What all workers share.
#[derive(Debug)]
pub(crate) struct SftpContext {
    carrier: Option<Arc<dyn SftpCarrier>>,
    timeout: Duration,
    beginning: Mutex<usize>,
    begun: Condvar,
    /// Whether any session was begun.
    proven: AtomicBool,
    /// Whether sessions share a connection: of their own none was let in.
    shares: AtomicBool,
}

impl SftpContext {
    /// Hosts are reached as those settings say.
    pub fn of(settings: &ServerSettings) -> Self {
        let (carrier, timeout) = (settings.ssh.clone(), settings.timeout);
        let (beginning, begun, proven, shares) = Default::default();
        Self { carrier, timeout, beginning, begun, proven, shares }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, usize> {
        self.beginning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session at the host of `url`, once few others begin.
    fn session(&self, url: &Url) -> Result<Session, SftpTrouble> {
        let mut beginning = self.lock();
        while *beginning >= BEGUN_AT_ONCE {
            beginning = self.begun.wait(beginning).unwrap_or_else(PoisonError::into_inner);
        }
        *beginning += 1;
        drop(beginning);
        let session = self.begin(url);
        *self.lock() -= 1;
        self.begun.notify_one();
        match session {
            Ok(session) => {
                self.proven.store(true, Relaxed);
                Ok(session)
            }
            // It has let others in: it is asked for too many.
            Err(SftpTrouble::Lost(error)) if is_login(&error) && self.proven.load(Relaxed) => {
                Err(SftpTrouble::Lost(Error { kind: ErrorKind::Busy, ..error }))
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Begins one in the way that lets it in.
    fn begin(&self, url: &Url) -> Result<Session, SftpTrouble> {
        let shares = self.shares.load(Relaxed);
        match self.greet(url, shares) {
            // Where a login needs somebody to type, the user may have logged in before.
            Err(SftpTrouble::Lost(error)) if error.kind == ErrorKind::Authentication && !shares => {
                let session = self.greet(url, true)?;
                self.shares.store(true, Relaxed);
                Ok(session)
            }
            session => session,
        }
    }

    fn greet(&self, url: &Url, shares: bool) -> Result<Session, SftpTrouble> {
        let carrier = self.carrier.as_ref().ok_or_else(no_carrier)?;
        let channel = carrier.begin(url, shares).map_err(SftpTrouble::Lost)?;
        Session::greet(channel, self.timeout)
    }
}

/// Whether ssh did not reach a host, or was not let in.
const fn is_login(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Connection | ErrorKind::Authentication)
}

/// The session that was used last, and whose it is.
type Kept = Arc<Mutex<Option<(String, Session)>>>;

/// One worker's way to servers.
#[derive(Debug)]
pub(crate) struct SftpLine {
    context: Arc<SftpContext>,
    kept: Kept,
}

/// A session in somebody's hands, and where it goes once it is no longer needed.
pub(crate) struct Taken {
    pub session: Session,
    place: String,
    kept: Kept,
    /// Whether it was used before, and so may have ended meanwhile.
    pub is_old: bool,
}

impl Taken {
    /// It is no longer needed; another one than its server's is closed for it.
    pub fn give_back(self) {
        if self.session.is_clean() {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let before = kept.replace((self.place, self.session));
            drop(kept);
            drop(before);
        }
    }
}

impl SftpLine {
    /// Without a session yet.
    pub fn new(context: Arc<SftpContext>) -> Self {
        Self { context, kept: Kept::default() }
    }

    /// A session with the server of `url`: the one that is kept, or a new one.
    pub fn take(&self, url: &Url) -> Result<Taken, SftpTrouble> {
        let place = url[Position::BeforeUsername..Position::AfterPort].to_owned();
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (session, is_old) = match kept {
            Some((of, session)) if of == place => (session, true),
            _ => (self.context.session(url)?, false),
        };
        Ok(Taken { session, place, kept: Arc::clone(&self.kept), is_old })
    }

    /// Does `work` in a session with the server of `url`. One that was kept may have ended meanwhile; then the work is done
    /// once more in a new one.
    pub fn with<T>(
        &self,
        url: &Url,
        mut work: impl FnMut(&mut Session) -> Result<T, SftpTrouble>,
    ) -> Result<T, SftpTrouble> {
        loop {
            let mut taken = self.take(url)?;
            match work(&mut taken.session) {
                Err(trouble) if trouble.loses_session() => {
                    if !taken.is_old || matches!(trouble, SftpTrouble::Silent(_)) {
                        return Err(trouble);
                    }
                }
                done => {
                    taken.give_back();
                    return done;
                }
            }
        }
    }
}
