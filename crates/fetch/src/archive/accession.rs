//! Accessions: which archive's name for what.

use std::fmt;
use std::str::FromStr;

use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::text::show;

/// What an accession names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A run (SRR, ERR, DRR): the files of one pass of a machine.
    Run,
    /// An experiment (SRX, ERX, DRX).
    Experiment,
    /// A sample of the read archives (SRS, ERS, DRS).
    Sample,
    /// A study (SRP, ERP, DRP).
    Study,
    /// A submission (SRA, ERA, DRA).
    Submission,
    /// A BioProject (PRJNA, PRJEB, PRJDB).
    Project,
    /// A BioSample (SAMN, SAMEA, SAMD).
    BioSample,
    /// A series of GEO (GSE).
    Series,
    /// A sample of GEO (GSM).
    GeoSample,
}

/// A well-formed accession of an archive that is asked here, in capitals.
///
/// ```
/// use tidegate_fetch::archive::{Accession, Kind};
///
/// let run: Accession = " srr390728".parse()?;
/// assert_eq!((run.as_str(), run.kind()), ("SRR390728", Kind::Run));
/// assert!("GSE93374".parse::<Accession>()?.is_geo());
///
/// let error = "SRR12".parse::<Accession>().unwrap_err();
/// assert_eq!(error.message, "\"SRR12\" is no accession: SRR wants 6 to 12 digits behind it, and nothing else");
/// # Ok::<(), tidegate_transfer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Accession {
    text: Box<str>,
    kind: Kind,
}

/// Digits of the longest accession worth asking for; the longest in use have 9 behind SAMEA.
const MAX_DIGITS: usize = 12;

/// The fewest digits that the read archives give a name of theirs.
const MIN_READ_DIGITS: usize = 6;

impl Accession {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What it names.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What is wrong with a word that begins as an archive's names do, here or elsewhere, and is none that is asked
    /// for here; `None` for an accession, and for any other word.
    pub fn near_miss(text: &str) -> Option<Error> {
        let error = text.parse::<Self>().err()?;
        let plain = text.trim().to_ascii_uppercase();
        let (prefix, digits) = split(&plain);
        let is_known = kind_of(prefix).is_some() || elsewhere(prefix).is_some();
        (is_known && digits.starts_with(|c: char| c.is_ascii_digit())).then_some(error)
    }

    /// Whether GEO has to be asked first what it is in the read archives.
    pub fn is_geo(&self) -> bool {
        matches!(self.kind, Kind::Series | Kind::GeoSample)
    }
}

impl fmt::Display for Accession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Accession {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let plain = text.trim().to_ascii_uppercase();
        let (prefix, digits) = split(&plain);
        let numeric = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let Some((kind, fewest)) = kind_of(prefix) else { return Err(foreign(text, prefix, digits)) };
        if !numeric || digits.len() > MAX_DIGITS || digits.len() < fewest {
            let why = format!("{prefix} wants {fewest} to {MAX_DIGITS} digits behind it, and nothing else");
            return Err(malformed(text, &why));
        }
        Ok(Self { text: plain.into(), kind })
    }
}

/// The letters that a name begins with, and the rest.
fn split(plain: &str) -> (&str, &str) {
    plain.split_at(plain.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(plain.len()))
}

/// The kind of accessions that begin with `prefix`, and the fewest digits they have.
fn kind_of(prefix: &str) -> Option<(Kind, usize)> {
    let found = match prefix.as_bytes() {
        [b'S' | b'E' | b'D', b'R', last] => {
            let kind = match last {
                b'R' => Kind::Run,
                b'X' => Kind::Experiment,
                b'S' => Kind::Sample,
                b'P' => Kind::Study,
                b'A' => Kind::Submission,
                _ => return None,
            };
            (kind, MIN_READ_DIGITS)
        }
        [b'P', b'R', b'J', b'E' | b'D' | b'N', b'A'..=b'Z'] => (Kind::Project, 1),
        [b'S', b'A', b'M', b'E' | b'D' | b'N'] | [b'S', b'A', b'M', b'E' | b'D' | b'N', b'A'..=b'Z'] => {
            (Kind::BioSample, 1)
        }
        b"GSE" => (Kind::Series, 1),
        b"GSM" => (Kind::GeoSample, 1),
        _ => return None,
    };
    Some(found)
}

/// Where a name with this prefix belongs, if that is not here and known.
fn elsewhere(prefix: &str) -> Option<&'static str> {
    match prefix {
        "CRA" | "CRX" | "CRR" | "SAMC" | "HRA" | "HRR" => Some(GSA),
        _ if prefix.len() == 5 && prefix.starts_with("PRJC") => Some(GSA),
        "PHS" => Some("dbGaP, where access is granted to persons: get it with prefetch and your .ngc file"),
        "EGAD" | "EGAS" | "EGAR" | "EGAF" | "EGAN" | "EGAX" => {
            Some("the EGA, where access is granted to persons: get it with its own client")
        }
        "GDS" | "GPL" => Some("GEO, but is neither a series nor a sample: name its series (GSE…)"),
        "GCA" | "GCF" => Some("the assemblies, not the reads: give the URLs of its files"),
        _ => None,
    }
}

/// What to say of a name that is no accession here.
fn foreign(text: &str, prefix: &str, digits: &str) -> Error {
    match elsewhere(prefix).filter(|_| !digits.is_empty()) {
        Some(place) => {
            Error::new(ErrorKind::Usage, format!("{} belongs to {place}", show(text.trim().as_bytes())))
        }
        None => {
            malformed(text, "known are SRR, SRX, SRS, SRP, SRA (and ERR…, DRR…), PRJ…, SAM…, GSE and GSM")
        }
    }
}

const GSA: &str =
    "the Genome Sequence Archive (CNCB), which is not asked here: give the URLs of its files as a list";

/// Longest part of a bad name that is repeated in a message, in characters.
const MAX_SHOWN: usize = 60;

fn malformed(text: &str, why: &str) -> Error {
    let text: String = text.trim().chars().take(MAX_SHOWN).collect();
    Error::new(ErrorKind::Usage, format!("{} is no accession: {why}", show(format!("{text:?}").as_bytes())))
}

/// The words of a line of a list: separated by space, comma or semicolon, up to a `#`.
pub fn words(line: &str) -> impl Iterator<Item = &str> {
    let line = line.strip_prefix('\u{feff}').unwrap_or(line);
    let line = line.split('#').next().unwrap_or_default();
    line.split(|c: char| c.is_whitespace() || c == ',' || c == ';').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_told() {
        for (text, kind) in [
            ("SRR15852400", Kind::Run),
            (" err000916 ", Kind::Run),
            ("DRR086621", Kind::Run),
            ("SRX4563689", Kind::Experiment),
            ("ERS3331676", Kind::Sample),
            ("SRP158268", Kind::Study),
            ("DRA000001", Kind::Submission),
            ("PRJNA480016", Kind::Project),
            ("prjeb12126", Kind::Project),
            ("PRJDB3", Kind::Project),
            ("SAMN09847839", Kind::BioSample),
            ("SAMEA3708907", Kind::BioSample),
            ("SAMD00000001", Kind::BioSample),
            ("GSE93374", Kind::Series),
            ("gsm3717978", Kind::GeoSample),
        ] {
            let accession: Accession = text.parse().expect(text);
            assert_eq!(accession.kind(), kind, "{text}");
            assert_eq!(accession.as_str(), text.trim().to_uppercase());
        }
    }

    #[test]
    fn what_is_none_is_refused_with_advice() {
        for (text, advice) in [
            ("CRR311377", "Genome Sequence Archive"),
            ("CRA000112", "Genome Sequence Archive"),
            ("PRJCA002345", "Genome Sequence Archive"),
            ("phs000001", "dbGaP"),
            ("phs000001.v1.p1", "dbGaP"),
            ("EGAD00001000001", "EGA"),
            ("GCF_000001405.40", "assemblies"),
            ("GDS5027", "series"),
            ("SRR12", "6 to 12 digits"),
            ("SRR", "6 to 12 digits"),
            ("SRR123456.1", "nothing else"),
            ("SRR12345678901234567890", "6 to 12 digits"),
            ("SRZ123456", "no accession"),
            ("12345", "no accession"),
            ("", "no accession"),
            ("größe", "no accession"),
            ("SRR123\u{1b}[31m", "\\u{1b}"),
        ] {
            let error = text.parse::<Accession>().expect_err(text);
            assert_eq!(error.kind, ErrorKind::Usage, "{text}");
            assert!(error.message.contains(advice) || text == "SRR123\u{1b}[31m", "{error}");
            assert!(!error.message.contains('\u{1b}') && !error.message.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_name_that_begins_like_one_is_told_from_any_word() {
        for (near, advice) in [
            ("SRR12", "6 to 12 digits"),
            ("srr123456.1", "nothing else"),
            ("CRR311377", "Genome Sequence Archive"),
            ("phs000001.v1.p1", "dbGaP"),
        ] {
            let error = Accession::near_miss(near).expect(near);
            assert!(error.message.contains(advice), "{error}");
        }
        for other in ["SRR390728", "data", "run7", "srr", "srr-notes", "x12", "", "größe"] {
            assert!(Accession::near_miss(other).is_none(), "{other}");
        }
    }

    #[test]
    fn lists_have_comments_and_any_separator() {
        let line = "\u{feff} SRR000001,SRR000002;\tSRR000003  # the rest, SRR000004";
        assert_eq!(words(line).collect::<Vec<_>>(), ["SRR000001", "SRR000002", "SRR000003"]);
        assert_eq!(words("# nothing").count(), 0);
    }
}
