//! Who holds a ticket, as far as an endpoint can tell: everything that is done with one ticket counts together, and
//! so does everything that is done with one certificate of the site's PKI.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::quota::{Allowance, Held, Share};
use crate::sys::sync::Mutex;

/// Names an account: a hash of the ticket's claims, or of the certificate.
pub(crate) type AccountId = Digest;

/// What one ticket holder uses right now.
#[derive(Debug)]
pub(crate) struct Account {
    /// Which one.
    pub id: AccountId,
    /// Its part of what the endpoint has.
    pub share: Share,
}

/// All who have a session, or a one-time ticket that came of one.
#[derive(Debug)]
pub(crate) struct Accounts {
    each: Allowance,
    whole: Share,
    known: Mutex<HashMap<AccountId, Weak<Account>>>,
}

impl Accounts {
    /// None yet; each may use so much.
    pub fn new(each: Allowance) -> Self {
        Self { each, whole: Share::whole(&each), known: Mutex::default() }
    }

    /// The account that is named by `claims`, or by `certificate` where the site has its own PKI.
    pub fn of(&self, claims: Option<&[u8]>, certificate: Option<&[u8]>) -> Arc<Account> {
        let id = id_of(claims, certificate);
        let mut known = self.known.lock();
        if let Some(account) = known.get(&id).and_then(Weak::upgrade) {
            return account;
        }
        known.retain(|_, account| account.strong_count() > 0);
        let account = Arc::new(Account { id, share: self.whole.part(&self.each) });
        known.insert(id, Arc::downgrade(&account));
        account
    }
}

/// The account of who shows this.
pub(crate) fn id_of(claims: Option<&[u8]>, certificate: Option<&[u8]>) -> AccountId {
    let mut hasher = blake3::Hasher::new();
    match (claims, certificate) {
        (Some(claims), _) => hasher.update(b"ticket").update(claims),
        (None, certificate) => hasher.update(b"certificate").update(certificate.unwrap_or_default()),
    };
    *hasher.finalize().as_bytes()
}

/// How it is called in logs: short, and no help to anybody who wants a ticket.
pub fn name(id: &AccountId) -> String {
    data_encoding::HEXLOWER.encode(&id[..4])
}

impl Account {
    /// Room for one more session.
    ///
    /// # Errors
    ///
    /// `Busy` if it has as many as it may, or all of them together have.
    pub fn enter(&self) -> Result<Held> {
        self.share.sessions.take(1).ok_or_else(|| {
            let most = self.share.sessions.most();
            let why = match self.share.sessions.used() >= most {
                true => format!("this ticket has {most} sessions already, as many as are allowed: wait until one has ended, or start the endpoint with more --sessions"),
                false => "the endpoint has as many sessions as it can serve: try again later".to_owned(),
            };
            Error::new(ErrorKind::Busy, why)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_one_ticket_count_together_and_all_of_them_do() {
        let accounts = Accounts::new(Allowance { sessions: 2, ..Allowance::default() });
        let first = accounts.of(Some(b"first"), None);
        let _one = first.enter().expect("room");
        let two = accounts.of(Some(b"first"), None).enter().expect("room");
        let error = first.enter().expect_err("full");
        assert!(error.kind == ErrorKind::Busy && error.message.contains("2 sessions"), "{error}");
        drop(two);
        let mut held = vec![first.enter().expect("room")];
        // A certificate is not a ticket of the same bytes. One place is left for each, whatever others have.
        let others = [&b"second"[..], b"third", b"first"].map(|bytes| accounts.of(None, Some(bytes)));
        for account in &others[..2] {
            held.extend([account.enter().expect("room"), account.enter().expect("room")]);
        }
        held.push(others[2].enter().expect("its own"));
        let error = others[2].enter().expect_err("all is taken");
        assert!(error.message.contains("as it can serve"), "{error}");
    }

    #[test]
    fn an_account_is_forgotten_with_its_last_session() {
        let accounts = Accounts::new(Allowance::default());
        for number in 0..100u8 {
            drop(accounts.of(Some(&[number]), None));
        }
        assert_eq!(accounts.known.lock().len(), 1);
    }
}
