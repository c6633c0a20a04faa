//! What servers bore when they pushed back, from run to run. It is advice: settings bound it, and one connection more is
//! tried now and then.

use std::collections::HashMap;

use tidegate_transfer::sys::sync::{Mutex, MutexGuard};

/// Connections that servers bore when they last asked for less, by host and port.
///
/// ```
/// use tidegate_fetch::host::held::HeldCeilings;
///
/// let held = HeldCeilings::new([("example.org:443".to_owned(), 6)]);
/// assert_eq!(held.of("example.org:443"), Some(6));
/// assert!(held.noted().is_empty(), "what earlier runs met is not new");
/// ```
#[derive(Debug, Default)]
pub struct HeldCeilings {
    earlier: HashMap<String, u16>,
    now: Mutex<HashMap<String, u16>>,
}

impl HeldCeilings {
    /// What earlier runs met: `host:port`, and its connections.
    pub fn new(earlier: impl IntoIterator<Item = (String, u16)>) -> Self {
        Self { earlier: earlier.into_iter().collect(), now: Mutex::default() }
    }

    /// The servers that pushed back in this run, by name, and what they bore in the end.
    pub fn noted(&self) -> Vec<(String, u16)> {
        let mut noted: Vec<_> = self.lock().iter().map(|(place, &n)| (place.clone(), n)).collect();
        noted.sort();
        noted
    }

    /// What the server at `place` bore, as far as is known.
    pub fn of(&self, place: &str) -> Option<u16> {
        self.lock().get(place).or_else(|| self.earlier.get(place)).copied()
    }

    /// The server at `place` has pushed back, and bears `connections` by now. The most that it bore since counts: it pushes
    /// back at the start as well, when few work yet. `anew` if it has done so again, which what was noted led to.
    pub(crate) fn note(&self, place: &str, connections: u16, anew: bool) {
        let mut now = self.lock();
        if anew || now.get(place).is_none_or(|&most| most < connections) {
            now.insert(place.to_owned(), connections);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, u16>> {
        self.now.lock()
    }
}
