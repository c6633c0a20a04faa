//! How many connections a server is asked for at most, by its name.

/// What servers without a rule of their own bear; what sets its number below it is the control loop.
const UNKNOWN: u16 = 32;

/// Connections to begin with, and before it is known to whom: below the ceiling for ENA, so that the rule has something to
/// find, and far below what other downloaders open.
pub(crate) const CONNECTIONS: u16 = 4;

/// Ceilings by host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceilings {
    /// Patterns and their ceilings; the first that fits holds.
    rules: Vec<(String, u16)>,
    /// For hosts that no rule fits.
    others: u16,
}

impl Default for Ceilings {
    /// ENA counts connections by address and pushes back above about eight; S3 invites many.
    fn default() -> Self {
        let rules = [("*.ebi.ac.uk", 8), ("*.amazonaws.com", 64)];
        Self { rules: rules.map(|(pattern, n)| (pattern.to_owned(), n)).into(), others: UNKNOWN }
    }
}

impl Ceilings {
    /// The same ceiling for every host.
    pub fn all(n: u16) -> Self {
        Self { rules: Vec::new(), others: n.max(1) }
    }

    /// Sets the ceiling of hosts that `pattern` fits, before all rules so far: a name, or `*.` and a
    /// name for it and all beneath it.
    pub fn set(&mut self, pattern: &str, n: u16) {
        self.rules.insert(0, (pattern.to_ascii_lowercase(), n.max(1)));
    }

    /// The ceiling of the host `name`.
    pub fn of(&self, name: &str) -> u16 {
        let name = name.to_ascii_lowercase();
        let fits = |pattern: &str| match pattern.strip_prefix("*.") {
            Some(parent) => {
                name == parent || name.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
            }
            None => name == pattern,
        };
        self.rules.iter().find(|(pattern, _)| fits(pattern)).map_or(self.others, |(_, n)| *n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_holds() {
        let mut ceilings = Ceilings::default();
        assert_eq!(ceilings.of("FTP.SRA.ebi.ac.uk"), 8);
        assert_eq!(ceilings.of("ebi.ac.uk"), 8);
        assert_eq!(ceilings.of("notebi.ac.uk"), UNKNOWN);
        assert_eq!(ceilings.of("sra-pub-run-odp.s3.amazonaws.com"), 64);
        ceilings.set("ftp.sra.ebi.ac.uk", 3);
        assert_eq!((ceilings.of("ftp.sra.ebi.ac.uk"), ceilings.of("www.ebi.ac.uk")), (3, 8));
        assert_eq!(Ceilings::all(0).of("ftp.sra.ebi.ac.uk"), 1);
    }
}
