//! Names of remembered endpoints, as in `name:/path`: where they lead. What a name stands for holds a ticket, so it is
//! looked up when it is needed and written nowhere.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_spec::address;

type Found = Result<String, String>;
type Find = dyn Fn(&str) -> Found + Send + Sync;

/// What knows where names lead; clones share it.
#[derive(Clone, Default)]
pub struct Names(Option<Arc<Find>>);

impl Names {
    /// `find` answers with the address of a name, or in one line why there is none.
    pub fn new(find: impl Fn(&str) -> Result<String, String> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(find)))
    }

    /// `address` itself; or, if it begins with a name, the address that the name stands for, without what follows.
    /// Without anybody who knows names all are left as they are.
    pub fn resolve<'a>(&self, address: &'a str) -> Result<Cow<'a, str>, String> {
        match (&self.0, name_of(address)) {
            (Some(find), Some(name)) => find(name).map(Cow::Owned),
            _ => Ok(Cow::Borrowed(address)),
        }
    }

    /// The same, that asks for each name once: for batches.
    #[must_use]
    pub fn remembered(&self) -> Self {
        let Some(find) = self.0.clone() else { return Self(None) };
        let known = Mutex::new(HashMap::<String, Found>::new());
        Self::new(move |name| {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            known.entry(name.to_owned()).or_insert_with(|| find(name)).clone()
        })
    }
}

// What it knows is secret.
tidegate_contract::opaque!(Names);

/// The name in `name:/path`; `None` for a path or a URL.
pub(crate) fn name_of(address: &str) -> Option<&str> {
    if address::scheme(address).is_some() {
        return None;
    }
    let (name, _) = address.split('/').next().unwrap_or_default().split_once(':')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (!name.is_empty() && !name.starts_with(['-', '.']) && name.chars().all(plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    #[test]
    fn a_name_leads_to_its_endpoint_and_nothing_else_is_touched() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let names = Names::new(move |name| {
            count.fetch_add(1, Relaxed);
            match name {
                "dtn" => Ok("tg://T@dtn1:7117/".to_owned()),
                _ => Err(format!("no endpoint is called {name}")),
            }
        });
        for plain in ["/a:b/c", "./a:b", "a/b:c", "tg://T@h/x", "file:///x", ":/x", "-x:/y", ""] {
            assert_eq!(names.resolve(plain).as_deref(), Ok(plain));
        }
        assert_eq!(asked.load(Relaxed), 0);
        let batch = names.remembered();
        for address in ["dtn:/a", "dtn:", "dtn:b/c:d"] {
            assert_eq!(batch.resolve(address).as_deref(), Ok("tg://T@dtn1:7117/"), "{address}");
        }
        assert_eq!(batch.resolve("x:/a"), Err("no endpoint is called x".to_owned()));
        assert_eq!(asked.load(Relaxed), 2);
        assert_eq!(Names::default().remembered().resolve("dtn:/a").as_deref(), Ok("dtn:/a"));
        assert!(!format!("{names:?}").contains("T@"));
    }
}
