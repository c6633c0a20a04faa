//! Links that expire: whoever knows how to get a fresh one is asked, once a server refuses the one that it has.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_transfer::error::{Error, Result};
use tidegate_transfer::sys::sync::{Mutex, MutexGuard};
use url::Url;

use super::{Ask, Refusal};

/// Gives a fresh URL in place of one that is refused. It ends within a time of its own.
pub type Refresh = Arc<dyn Fn(&Url) -> Result<Url> + Send + Sync>;

/// Most files whose fresh URLs are known; beyond that all are forgotten, and found again when they are needed.
const MAX_KNOWN: usize = 4096;

/// Most fresh URLs for one file, each of which has worked but the last.
const MAX_FRESH: u32 = 1000;

/// Fresh URLs by those that people named.
pub(crate) struct FreshUrls {
    refresh: Refresh,
    known: Mutex<HashMap<Url, Arc<Mutex<FreshUrl>>>>,
}

tidegate_contract::opaque!(FreshUrls);

/// The URL that is asked for in place of another.
struct FreshUrl {
    url: Url,
    /// Whether it was answered.
    worked: bool,
    count: u32,
    /// Why there is no other.
    given_up: Option<Error>,
}

impl FreshUrls {
    /// None yet; `refresh` gets them.
    pub fn new(refresh: Refresh) -> Self {
        Self { refresh, known: Mutex::default() }
    }

    /// What `send` gets for `ask`, by a fresh URL if its own is refused.
    pub fn ask<T>(
        &self,
        ask: &Ask<'_>,
        mut send: impl FnMut(&Ask<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        loop {
            let known = self.lock().get(ask.url).cloned();
            // Who gets a fresh one is waited for.
            let fresh = known.as_ref().map(|known| locked(known).url.clone());
            let url = fresh.as_ref().unwrap_or(ask.url);
            let headers = if url.origin() == ask.url.origin() { ask.headers } else { &[] };
            match send(&Ask { url, headers, ..ask.clone() }) {
                Err(refusal) if refusal.refuses_link => self.renew(ask.url, url, refusal)?,
                Err(refusal) => return Err(refusal.speaking_of(url, ask.url)),
                Ok(answer) => {
                    if let Some(known) = known {
                        let mut known = locked(&known);
                        known.worked |= known.url == *url;
                    }
                    return Ok(answer);
                }
            }
        }
    }

    /// Gets a URL in place of `refused`, by which `named` was asked for last, unless somebody has done so meanwhile.
    fn renew(&self, named: &Url, refused: &Url, refusal: Refusal) -> Result<(), Refusal> {
        let known = {
            let mut all = self.lock();
            if all.len() >= MAX_KNOWN && !all.contains_key(named) {
                all.clear();
            }
            let first = || FreshUrl { url: named.clone(), worked: true, count: 0, given_up: None };
            Arc::clone(all.entry(named.clone()).or_insert_with(|| Arc::new(Mutex::new(first()))))
        };
        let mut known = locked(&known);
        if known.url != *refused {
            return Ok(());
        }
        let refusal = refusal.speaking_of(refused, named);
        if known.given_up.is_none() {
            match self.fresh(&known) {
                Ok(url) => {
                    (known.url, known.worked) = (url, false);
                    known.count += 1;
                    return Ok(());
                }
                Err(error) => known.given_up = Some(error),
            }
        }
        Err(known.given_up.as_ref().map_or_else(|| refusal.clone(), |why| because(&refusal, why)))
    }

    fn fresh(&self, known: &FreshUrl) -> Result<Url> {
        let refuse = |why: &str| Err(Error::new(tidegate_transfer::error::ErrorKind::Denied, why));
        if !known.worked {
            return refuse("the fresh URL is refused as well");
        }
        if known.count >= MAX_FRESH {
            return refuse("it had a thousand fresh URLs already");
        }
        match (self.refresh)(&known.url) {
            Ok(url) if url == known.url => refuse("the URL that is to be fresh is the one that was refused"),
            other => other,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Url, Arc<Mutex<FreshUrl>>>> {
        self.known.lock()
    }
}

fn locked(known: &Mutex<FreshUrl>) -> MutexGuard<'_, FreshUrl> {
    known.lock()
}

/// The refusal, and why it stays one.
fn because(refusal: &Refusal, why: &Error) -> Refusal {
    let mut refusal = refusal.clone();
    let said = refusal.error.message.split("; the link may").next().unwrap_or_default();
    refusal.error.message = format!("{said}; {}", why.message);
    refusal
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;
    use crate::remote::Why;

    fn link(number: u32) -> Url {
        Url::parse(&format!("https://h/f?sig={number}")).expect("a URL")
    }

    /// Asks until `uses` answers were had, of links that work `each` times; answers with how often a fresh one was wanted.
    fn asked(each: u32, uses: u32, bad: bool) -> (Result<(), Refusal>, u32) {
        let runs = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&runs);
        let fresh = FreshUrls::new(Arc::new(move |_: &Url| {
            let run = counted.fetch_add(1, Relaxed) + 1;
            Ok(link(if bad { 0 } else { run }))
        }));
        let left = RefCell::new(HashMap::new());
        let named = link(0);
        let ask = Ask { url: &named, headers: &[], range: 0..1, version: None };
        let one = || {
            fresh.ask(&ask, |ask| {
                let mut left = left.borrow_mut();
                let left = left.entry(ask.url.clone()).or_insert(each);
                if *left == 0 {
                    let refusal = Refusal::new(Why::Denied, format!("{}: no", crate::remote::shown(ask.url)));
                    return Err(Refusal { refuses_link: true, ..refusal });
                }
                *left -= 1;
                Ok(())
            })
        };
        let result = (0..uses).try_for_each(|_| one());
        // A refusal that stays one costs nothing more.
        let again = result.is_err().then(one);
        assert!(again.is_none_or(|again| again.is_err()));
        (result, runs.load(Relaxed))
    }

    #[test]
    fn each_link_that_worked_is_followed_by_one_and_one_that_never_did_by_none() {
        assert_eq!(asked(3, 10, false), (Ok(()), 3));
        let (result, runs) = asked(0, 1, false);
        let error = result.expect_err("refused").error;
        assert_eq!(
            (error.message.as_str(), runs),
            ("https://h/f?…: no; the fresh URL is refused as well", 1)
        );
        let (result, runs) = asked(1, 2, true);
        let message = result.expect_err("refused").error.message;
        assert!(message.ends_with("is the one that was refused") && runs == 1, "{message}");
        let (result, runs) = asked(1, MAX_FRESH + 2, false);
        assert!(result.is_err() && runs == MAX_FRESH);
    }
}
