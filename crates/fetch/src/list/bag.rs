//! The `fetch.txt` of a BagIt bag (RFC 8493, section 2.2.3) with the checksums of the manifests beside it,
//! and the same of NCBI's dehydrated data packages, whose sums stand in `md5sum.txt`.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::path::RelPath;

use super::input::{Input, ListParser, Reader};
use super::lines::Lines;
use super::{name, sums};
use crate::checksum::{Algorithm, Checksums, Hashers};
use crate::record::{Named, Record};

/// Most files in a manifest, of which a few dozen bytes each are held.
const MAX_SUMS: usize = 4_000_000;

/// Manifests, the strongest first: of several the first that is there is used.
const MANIFESTS: [Algorithm; 4] = [Algorithm::Sha512, Algorithm::Sha256, Algorithm::Sha1, Algorithm::Md5];

pub(crate) struct Bag<R = Reader> {
    lines: Lines<R>,
    manifest: Manifest,
    notes: VecDeque<Named>,
}

/// The sums of a bag's files by the first half of the hash of their path.
#[derive(Default)]
struct Manifest {
    sums: HashMap<[u8; 16], Box<[u8]>>,
    algorithm: Option<Algorithm>,
}

impl Bag {
    pub fn new(input: Input) -> Result<Self> {
        let mut manifest = Manifest::default();
        let mut notes = VecDeque::new();
        if let Some(path) = &input.path {
            let here = path.parent().unwrap_or(Path::new(""));
            check_tags(here)?;
            manifest = Manifest::beside(here)?;
        }
        if manifest.algorithm.is_none() {
            let why = "no manifest lies beside the list: sizes are checked, checksums are not known";
            notes.push_back(Named::note(&format!("{}: {why}", input.list)));
        }
        Ok(Self { lines: Lines::new(input.reader, input.list), manifest, notes })
    }
}

impl<R: BufRead> ListParser for Bag<R> {
    fn fill(&mut self, named: &mut VecDeque<Named>) -> bool {
        named.append(&mut self.notes);
        let Some(line) = self.lines.next_text() else { return false };
        let place = self.lines.place();
        let line = match line {
            Ok(line) if line.trim().is_empty() || line.starts_with('#') => return true,
            Ok(line) => line,
            Err(error) => {
                named.push_back(Named::problem(&place.to_string(), error));
                return true;
            }
        };
        named.push_back(match record(&line, &self.manifest) {
            Ok(record) => Named::Record(Box::new(record)),
            Err(error) => place.problem(line.split_whitespace().next().unwrap_or_default(), error),
        });
        true
    }
}

fn record(line: &str, manifest: &Manifest) -> Result<Record> {
    let refuse = |why: &str| Error::new(ErrorKind::Usage, why.to_owned());
    let (url, rest) =
        line.trim_start().split_once([' ', '\t']).ok_or_else(|| refuse("not 'URL LENGTH PATH'"))?;
    let rest = rest.trim_start();
    let (length, path) = rest.split_once([' ', '\t']).ok_or_else(|| refuse("not 'URL LENGTH PATH'"))?;
    let bytes = match length {
        "-" => None,
        length => Some(length.parse().map_err(|_| refuse("the length is neither '-' nor a number"))?),
    };
    let path = RelPath::new(decoded(path.trim_start()).as_bytes())?;
    let checksums = manifest.of(&path);
    Ok(Record { bytes, checksums, ..Record::new(name::url(url)?, path) })
}

/// A path without the encoding of line ends and of `%` itself, which is all that a bag encodes.
fn decoded(path: &str) -> String {
    let path = path.replace("%0D", "\r").replace("%0d", "\r").replace("%0A", "\n").replace("%0a", "\n");
    path.replace("%25", "%")
}

fn key(path: &[u8]) -> [u8; 16] {
    *blake3::hash(path).as_bytes().first_chunk().expect("a hash has 32 bytes")
}

impl Manifest {
    /// The manifest in the directory `here`, if there is one.
    fn beside(here: &Path) -> Result<Self> {
        for algorithm in MANIFESTS {
            let path = here.join(format!("manifest-{algorithm}.txt"));
            if let Some(manifest) = Self::read(&path, algorithm, "")? {
                return Ok(manifest);
            }
        }
        if let Some(manifest) = Self::read(&here.join("md5sum.txt"), Algorithm::Md5, "")? {
            return Ok(manifest);
        }
        let directory = here.file_name().map(|name| format!("{}/", name.to_string_lossy()));
        match (here.parent(), directory) {
            (Some(above), Some(directory)) => {
                let found = Self::read(&above.join("md5sum.txt"), Algorithm::Md5, &directory)?;
                Ok(found.unwrap_or_default())
            }
            _ => Ok(Self::default()),
        }
    }

    /// Reads a manifest of names beneath `directory`; none if there is no such file.
    fn read(path: &Path, algorithm: Algorithm, directory: &str) -> Result<Option<Self>> {
        let Some(file) = open(path)? else { return Ok(None) };
        let list: std::sync::Arc<str> = path.display().to_string().into();
        let mut lines = Lines::new(BufReader::new(file), list);
        let mut all = HashMap::new();
        while let Some(line) = lines.next() {
            let line = line?;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let sum = sums::parse(&line, Some(algorithm)).map_err(|error| error.within(lines.place()))?;
            let name = sums::plain(&sum.name);
            let name = name.trim_ascii_start();
            let Some(name) = name.strip_prefix(directory.as_bytes()) else { continue };
            let mut one = Checksums::none();
            one.add_hex(algorithm, &sum.hex).map_err(|error| error.within(lines.place()))?;
            let name = match std::str::from_utf8(name) {
                Ok(text) => decoded(text).into_bytes(),
                Err(_) => name.to_vec(),
            };
            all.insert(key(&name), one.get(algorithm).unwrap_or_default().into());
            if all.len() > MAX_SUMS {
                return Err(lines.place().usage(format!("there are more than {MAX_SUMS} files")));
            }
        }
        Ok(Some(Self { sums: all, algorithm: Some(algorithm) }))
    }

    fn of(&self, path: &RelPath) -> Checksums {
        let mut checksums = Checksums::none();
        if let (Some(algorithm), Some(sum)) = (self.algorithm, self.sums.get(&key(path.as_bytes()))) {
            checksums.add(algorithm, sum.clone());
        }
        checksums
    }
}

fn open(path: &Path) -> Result<Option<File>> {
    use std::os::unix::ffi::OsStrExt;
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path.as_os_str().as_bytes(), error)),
    }
}

/// Holds the bag's own lists against `tagmanifest-*.txt`, where there is one.
fn check_tags(here: &Path) -> Result<()> {
    for algorithm in MANIFESTS {
        let path = here.join(format!("tagmanifest-{algorithm}.txt"));
        let Some(file) = open(&path)? else { continue };
        let mut lines = Lines::new(BufReader::new(file), path.display().to_string().into());
        while let Some(line) = lines.next() {
            let line = line?;
            let Ok(sum) = sums::parse(&line, Some(algorithm)) else { continue };
            let name = String::from_utf8_lossy(sums::plain(&sum.name)).into_owned();
            // Only what is read here; the rest of a bag is no business of a download.
            let is_list = name == "fetch.txt" || name.starts_with("manifest-");
            if !is_list || name.contains('/') {
                continue;
            }
            let mut wanted = Checksums::none();
            wanted.add_hex(algorithm, &sum.hex).map_err(|error| error.within(lines.place()))?;
            let Some(file) = open(&here.join(&name))? else { continue };
            if wanted.differs(&sum_of(file, &name, algorithm)?).is_some() {
                let why = format!("{name} differs from what {} says: the bag is damaged", path.display());
                return Err(Error::new(ErrorKind::Corrupt, why));
            }
        }
    }
    Ok(())
}

fn sum_of(mut file: File, name: &str, algorithm: Algorithm) -> Result<Checksums> {
    let mut hashers = Hashers::new([algorithm]);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hashers.finish()),
            Ok(n) => hashers.update(&buffer[..n]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io("read", name.as_bytes(), error)),
        }
    }
}
