//! The files of a run, by format: from a row of ENA's table, from NCBI's locator, from the open-data mirror.
//!
//! Places are mirrors of one file only where size and MD5 agree; ENA packs some SRA files anew, and those are
//! files of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use data_encoding::HEXLOWER_PERMISSIVE;
use tidegate_control::ByteCount;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::path::RelPath;
use tidegate_transfer::text::show;
use url::Url;

use super::client::Head;
use super::options::{Format, Layout, Naming, Protocol, ResolveOptions, Source};
use super::sdl::{Quality, SdlFile};
use super::table::Row;
use crate::checksum::{Algorithm, Checksums};
use crate::record::Record;

/// A file of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArchiveFile {
    /// What its archive calls it.
    name: String,
    urls: Vec<Url>,
    bytes: Option<u64>,
    checksums: Checksums,
    source: Source,
}

/// What there is of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offer {
    fastq: Vec<ArchiveFile>,
    submitted: Vec<ArchiveFile>,
    sra: Vec<ArchiveFile>,
    sralite: Vec<ArchiveFile>,
    /// SRA files whose qualities are neither kept nor left out, in the locator's word.
    odd: Vec<String>,
    /// What NCBI says of the SRA file, where it may not be taken from where it is located.
    expected: Option<(Option<u64>, Checksums)>,
}

impl Offer {
    /// What a row of ENA's table offers.
    pub(crate) fn at_ena(row: &Row, protocol: Protocol) -> Result<Self> {
        let mut sra = listed(row, "sra", protocol)?;
        let run = row.get("run_accession");
        for file in &mut sra {
            if file.name == run {
                file.name = format!("{run}.sra");
            }
        }
        Ok(Self {
            fastq: listed(row, "fastq", protocol)?,
            submitted: listed(row, "submitted", protocol)?,
            sra,
            ..Self::default()
        })
    }

    /// The files in a format; none if there is nothing.
    pub fn files(&self, format: Format) -> &[ArchiveFile] {
        match format {
            Format::Fastq => &self.fastq,
            Format::Sra => &self.sra,
            Format::SraLite => &self.sralite,
            Format::Submitted => &self.submitted,
        }
    }

    /// Adds what the locator names, as far as `source` takes it.
    pub(crate) fn add_located(&mut self, run: &str, located: &[SdlFile], source: Source) {
        let mut cached = None;
        for file in located {
            let Some(found) = ArchiveFile::located(file, source) else {
                if file.kind == "sra" && file.quality == Quality::Full {
                    self.expected = Some((file.bytes, sums(file)));
                }
                continue;
            };
            match (file.kind.as_str(), &file.quality) {
                ("sra", Quality::Full) => {
                    let joined = join(&mut self.sra, ArchiveFile { name: format!("{run}.sra"), ..found });
                    cached = joined.then(|| (Format::Sra, format!("{run}.sra.vdbcache")));
                }
                ("sra", Quality::Lite) => {
                    let joined =
                        join(&mut self.sralite, ArchiveFile { name: format!("{run}.sralite"), ..found });
                    cached = joined.then(|| (Format::SraLite, format!("{run}.sralite.vdbcache")));
                }
                ("sra", Quality::Other(word)) => self.odd.push(word.clone()),
                ("vdbcache", _) => {}
                _ if file.original => {
                    join(&mut self.submitted, found);
                }
                _ => {}
            }
        }
        // A cache beside an SRA file is worth nothing without that very file.
        let Some((format, name)) = cached else { return };
        let caches = located.iter().filter(|file| file.kind == "vdbcache");
        if let Some(cache) = caches.filter_map(|file| ArchiveFile::located(file, source)).next() {
            let files = if format == Format::Sra { &mut self.sra } else { &mut self.sralite };
            join(files, ArchiveFile { name, ..cache });
        }
    }

    /// Adds what the open-data mirror has, if it has the size that NCBI says. Its tag is an MD5 if it looks
    /// like one; that of a file uploaded in parts does not.
    pub(crate) fn add_mirrored(&mut self, run: &str, url: Url, head: &Head) {
        let (bytes, mut checksums) = self.expected.take().unwrap_or((head.bytes, Checksums::none()));
        if bytes.is_some() && bytes != head.bytes {
            tracing::debug!(run, "the open-data mirror has another size than NCBI says: not taken");
            return;
        }
        if checksums.is_empty() {
            let _ = checksums.add_hex(Algorithm::Md5, &head.tag);
        }
        let name = format!("{run}.sra");
        join(
            &mut self.sra,
            ArchiveFile { name, urls: vec![url], bytes: head.bytes, checksums, source: Source::Aws },
        );
    }

    /// What there is, for people: `sra (1 file, 7.1 GiB, ena)`; empty if there is nothing.
    pub fn summary(&self) -> String {
        let formats = Format::ALL.iter().map(|format| (format, self.files(*format)));
        let formats = formats.filter(|(_, files)| !files.is_empty()).map(|(format, files)| {
            let bytes: Option<u64> = files.iter().map(|file| file.bytes).sum();
            let bytes = bytes.map_or(String::new(), |bytes| format!(", {}", ByteCount(bytes)));
            let plural = if files.len() == 1 { "" } else { "s" };
            format!("{format} ({} file{plural}{bytes}, {})", files.len(), files[0].source)
        });
        let odd = self.odd.iter().map(|word| format!("sra of quality {word:?}"));
        formats.chain(odd).collect::<Vec<_>>().join(", ")
    }

    /// Whether there is an SRA file, of whatever quality.
    pub(crate) fn has_sra(&self) -> bool {
        !self.sra.is_empty() || !self.sralite.is_empty() || !self.odd.is_empty()
    }
}

impl ArchiveFile {
    /// A located file, if `source` takes one of its places.
    fn located(file: &SdlFile, source: Source) -> Option<Self> {
        let (aws, others): (Vec<_>, Vec<_>) = file.places.iter().partition(|place| place.aws);
        let first = if aws.is_empty() { Source::Ncbi } else { Source::Aws };
        let (urls, source) = match source {
            Source::Aws => (aws, Source::Aws),
            _ => (aws.into_iter().chain(others).collect(), first),
        };
        let urls: Vec<Url> = urls.into_iter().map(|place| place.url.clone()).collect();
        let name = file.name.clone();
        (!urls.is_empty()).then_some(Self { name, urls, bytes: file.bytes, checksums: sums(file), source })
    }

    /// Whether the two are the same bytes, as far as size and MD5 tell.
    fn agrees(&self, other: &Self) -> bool {
        let md5 = self.checksums.get(Algorithm::Md5);
        self.bytes.is_some()
            && self.bytes == other.bytes
            && md5.is_some()
            && md5 == other.checksums.get(Algorithm::Md5)
    }
}

/// What a located file sums up to. A sum that is none is as good as none: size and what the server says
/// remain.
fn sums(file: &SdlFile) -> Checksums {
    let mut checksums = Checksums::none();
    if let Some(md5) = &file.md5 {
        let _ = checksums.add_hex(Algorithm::Md5, md5);
    }
    checksums
}

/// Puts a file among those of a format: as mirrors of the one of its name if they agree, not at all if they
/// do not. Whether it is among them now.
fn join(files: &mut Vec<ArchiveFile>, file: ArchiveFile) -> bool {
    let Some(known) = files.iter_mut().find(|known| known.name == file.name) else {
        files.push(file);
        return true;
    };
    if !known.agrees(&file) {
        tracing::debug!(name = file.name, "size or MD5 differ between archives: not taken as mirrors");
        return false;
    }
    for url in file.urls {
        if !known.urls.contains(&url) {
            known.urls.push(url);
        }
    }
    true
}

/// The files that a row lists in the columns of `kind`.
fn listed(row: &Row, kind: &str, protocol: Protocol) -> Result<Vec<ArchiveFile>> {
    let column = |part: &str| format!("{kind}_{part}");
    let places = row.list(&column("ftp"));
    let (bytes, md5) = (row.list(&column("bytes")), row.list(&column("md5")));
    for (part, list) in [("bytes", &bytes), ("md5", &md5)] {
        if !list.is_empty() && list.len() != places.len() {
            let (column, counted) = (column(part), column("ftp"));
            let why = format!("{counted} lists {} files, {column} {}", places.len(), list.len());
            return Err(Error::protocol(why));
        }
    }
    let mut files = Vec::with_capacity(places.len());
    for (i, place) in places.iter().map(|place| place.trim()).enumerate() {
        // Archives leave the place of a withdrawn file empty.
        if place.is_empty() {
            continue;
        }
        let url = url(place, protocol)?;
        let name = place.rsplit('/').next().map(unescaped).unwrap_or_default();
        let bytes = match bytes.get(i).map_or("", |text| text.trim()) {
            "" => None,
            text => Some(text.parse().map_err(|_| {
                Error::protocol(format!("{} holds {text:?}, which is no size", column("bytes")))
            })?),
        };
        let mut checksums = Checksums::none();
        if let Some(md5) = md5.get(i).map(|text| text.trim()).filter(|text| !text.is_empty()) {
            checksums.add_hex(Algorithm::Md5, md5)?;
        }
        files.push(ArchiveFile { name, urls: vec![url], bytes, checksums, source: Source::Ena });
    }
    Ok(files)
}

/// A place as ENA gives it: without a scheme, since its server speaks several.
fn url(place: &str, protocol: Protocol) -> Result<Url> {
    let refuse = || Error::protocol(format!("{place:?} is no place of a file"));
    // A name may hold what would end a path.
    let place_in_url = place.replace('#', "%23").replace('?', "%3F");
    let text = match place.contains("://") {
        true => place_in_url,
        false => format!("{protocol}://{place_in_url}"),
    };
    let url = Url::parse(&text).map_err(|_| refuse())?;
    let known = matches!(url.scheme(), "http" | "https" | "ftp" | "ftps") && url.has_host();
    if known { Ok(url) } else { Err(refuse()) }
}

/// A name without its `%XX`; as it is, if they are none.
fn unescaped(name: &str) -> String {
    let bytes = name.as_bytes();
    let (mut plain, mut i) = (Vec::with_capacity(bytes.len()), 0);
    while i < bytes.len() {
        let hex = bytes.get(i + 1..i + 3).filter(|_| bytes[i] == b'%');
        match hex.and_then(|hex| HEXLOWER_PERMISSIVE.decode(hex).ok()).as_deref() {
            Some(&[byte]) => {
                plain.push(byte);
                i += 3;
            }
            _ => {
                plain.push(bytes[i]);
                i += 1;
            }
        }
    }
    String::from_utf8(plain).unwrap_or_else(|_| name.to_owned())
}

/// A run's files as records, each where it belongs. `named` is the accession that led here.
pub fn records(
    row: &Row,
    named: &str,
    format: Format,
    files: &[ArchiveFile],
    options: &ResolveOptions,
) -> Result<Vec<Record>> {
    let run = row.get("run_accession");
    let group: Arc<str> = run.into();
    let mut metas: BTreeMap<Source, Arc<BTreeMap<String, String>>> = BTreeMap::new();
    let mut records = Vec::with_capacity(files.len());
    for file in files {
        let meta = metas.entry(file.source).or_insert_with(|| {
            let mut meta = row.0.clone();
            meta.insert("source".to_owned(), file.source.to_string());
            meta.insert("format".to_owned(), format.to_string());
            meta.insert("accession".to_owned(), named.to_owned());
            Arc::new(meta)
        });
        records.push(Record {
            urls: file.urls.clone(),
            path: path(row, &file.name, options)?,
            bytes: file.bytes,
            modified: None,
            checksums: file.checksums.clone(),
            headers: Vec::new(),
            group: Some(Arc::clone(&group)),
            meta: Arc::clone(meta),
        });
    }
    Ok(records)
}

/// Where a file goes. In one directory for all, or after the experiment's name, a file that does not carry
/// its run's name gets it in front: pipelines give the same name to what they make of every run.
fn path(row: &Row, name: &str, options: &ResolveOptions) -> Result<RelPath> {
    // A name from a server must be a name, not a path.
    if !RelPath::new(name)?.split().0.is_empty() {
        let why = format!("refused the name {}: it is a path", show(name.as_bytes()));
        return Err(Error::new(ErrorKind::UnsafeName, why));
    }
    let (run, experiment) = (row.get("run_accession"), row.get("experiment_accession"));
    let own = if name.starts_with(run) { name.to_owned() } else { format!("{run}_{name}") };
    let name = match (options.naming, options.layout) {
        (Naming::Fetchngs, _) if !experiment.is_empty() => format!("{experiment}_{own}"),
        (Naming::Fetchngs, _) | (Naming::Archive, Layout::Flat | Layout::Experiment) => own,
        (Naming::Archive, Layout::Run) => name.to_owned(),
    };
    match options.layout {
        Layout::Run => RelPath::new(format!("{run}/{name}")),
        Layout::Experiment if !experiment.is_empty() => RelPath::new(format!("{experiment}/{name}")),
        Layout::Flat | Layout::Experiment => RelPath::new(name),
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::rows;
    use super::*;

    fn samples(text: &str) -> Vec<(Row, Offer)> {
        let rows = rows(text).expect("a table").map(|row| row.expect("a row"));
        rows.map(|row| (row.clone(), Offer::at_ena(&row, Protocol::Https).expect("lists"))).collect()
    }

    fn names(files: &[ArchiveFile]) -> Vec<&str> {
        files.iter().map(|file| file.name.as_str()).collect()
    }

    fn row(cells: &[(&str, &str)]) -> Row {
        Row(cells.iter().map(|(name, cell)| ((*name).to_owned(), (*cell).to_owned())).collect())
    }

    #[test]
    fn rows_of_file_reports_are_read() {
        let full = samples(include_str!("../../tests/samples/ena/SRR7706354.filereport.tsv"));
        let [(row, offer)] = &full[..] else { panic!("one row") };
        assert_eq!(row.get("study_accession"), "PRJNA480016");
        assert_eq!(names(&offer.fastq), ["SRR7706354_1.fastq.gz", "SRR7706354_2.fastq.gz"]);
        assert_eq!((offer.fastq[0].bytes, offer.fastq[1].bytes), (Some(129_917_564), Some(131_945_147)));
        assert_eq!(
            offer.fastq[1].urls[0].as_str(),
            "https://ftp.sra.ebi.ac.uk/vol1/fastq/SRR770/004/SRR7706354/SRR7706354_2.fastq.gz"
        );
        assert_eq!(
            offer.fastq[0].checksums.hex(Algorithm::Md5).as_deref(),
            Some("371165d54adfd1300c7b02e79d8d4245")
        );
        assert!(offer.sra.is_empty() && offer.submitted.is_empty());

        let paired = samples(include_str!("../../tests/samples/ena/paired.search.tsv"));
        assert_eq!(paired[0].1.summary(), "fastq (2 files, 11.8 GiB, ena)");
        assert_eq!(samples(include_str!("../../tests/samples/ena/no_fastq.search.tsv"))[0].1.summary(), "");
        assert_eq!(
            samples(include_str!("../../tests/samples/ena/no_submitted.search.tsv"))[0].1.summary(),
            ""
        );
        let bam = samples(include_str!("../../tests/samples/ena/submitted_bam.search.tsv"));
        assert_eq!(names(&bam[0].1.submitted), ["10X_P4_0.bam", "10X_P4_0.bam.bai"]);
        let three = samples(include_str!("../../tests/samples/ena/PRJNA916347.rebuilt.tsv"));
        assert_eq!(three.iter().map(|(_, offer)| offer.fastq.len()).collect::<Vec<_>>(), [1, 3, 3]);
        assert_eq!(names(&three[1].1.fastq)[2], "SRR22904269_2.fastq.gz");
        let subreads = samples(include_str!("../../tests/samples/ena/PRJNA540705.rebuilt.tsv"));
        assert_eq!(subreads.len(), 6);
        assert_eq!(names(&subreads[0].1.fastq), ["SRR9001768_subreads.fastq.gz"]);
        let json = samples(include_str!("../../tests/samples/ena/search_three_rows.json"));
        assert_eq!(json.len(), 3);
        assert_eq!(json[0].0.get("run_accession"), "ERR1190989");
    }

    #[test]
    fn lists_that_do_not_fit_are_refused() {
        let good = [("fastq_ftp", "h/a;h/b"), ("fastq_bytes", "1;2"), ("fastq_md5", "")];
        assert_eq!(Offer::at_ena(&row(&good), Protocol::Https).expect("no sums").fastq.len(), 2);
        for (column, cell, why) in [
            ("fastq_bytes", "1", "fastq_ftp lists 2 files, fastq_bytes 1"),
            ("fastq_bytes", "1;x", "\"x\", which is no size"),
            ("fastq_md5", "12;34", "is no md5"),
            ("fastq_ftp", "javascript://x/a;h/b", "is no place"),
            ("fastq_ftp", "file:///etc/passwd;h/b", "is no place"),
            ("fastq_ftp", "//;h/b", "is no place"),
        ] {
            let mut cells = row(&good);
            cells.0.insert(column.to_owned(), cell.to_owned());
            let error = Offer::at_ena(&cells, Protocol::Https).expect_err(cell);
            assert!(error.message.contains(why), "{error}");
        }
    }

    #[test]
    fn the_scheme_and_odd_names_are_made_good() {
        let cells = row(&[("fastq_ftp", "ftp.sra.ebi.ac.uk/vol1/1_2#3.bam;h/1_2%2345.bam;http://h:81/c.gz")]);
        let offer = Offer::at_ena(&cells, Protocol::Ftp).expect("places");
        assert_eq!(names(&offer.fastq), ["1_2#3.bam", "1_2#45.bam", "c.gz"]);
        let urls: Vec<&str> = offer.fastq.iter().map(|file| file.urls[0].as_str()).collect();
        assert_eq!(
            urls,
            ["ftp://ftp.sra.ebi.ac.uk/vol1/1_2%233.bam", "ftp://h/1_2%2345.bam", "http://h:81/c.gz"]
        );
    }

    #[test]
    fn mirrors_are_taken_together_only_where_they_agree() {
        let md5 = "0123456789abcdef0123456789abcdef";
        let located = |bytes, md5: &str| SdlFile {
            kind: "sra".to_owned(),
            name: "SRR000001".to_owned(),
            original: false,
            quality: Quality::Full,
            bytes,
            md5: Some(md5.to_owned()),
            places: vec![
                super::super::sdl::Place { url: Url::parse("https://ncbi/1").expect("a URL"), aws: false },
                super::super::sdl::Place { url: Url::parse("https://s3/1").expect("a URL"), aws: true },
            ],
        };
        let cells = row(&[
            ("run_accession", "SRR000001"),
            ("sra_ftp", "ena/vol1/srr/SRR000001"),
            ("sra_bytes", "5"),
            ("sra_md5", md5),
        ]);
        let offer = |found: SdlFile, source| {
            let mut offer = Offer::at_ena(&cells, Protocol::Https).expect("a list");
            offer.add_located("SRR000001", &[found], source);
            let [file] = &offer.sra[..] else { panic!("one file: {offer:?}") };
            file.urls.iter().map(|url| url.host_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(offer(located(Some(5), &md5.to_uppercase()), Source::Auto), ["ena", "s3", "ncbi"]);
        assert_eq!(offer(located(Some(6), md5), Source::Auto), ["ena"]);
        assert_eq!(offer(located(None, md5), Source::Auto), ["ena"]);
        assert_eq!(offer(located(Some(5), "no sum"), Source::Auto), ["ena"]);
        let mut alone = Offer::default();
        alone.add_located("SRR000001", &[located(Some(5), md5)], Source::Aws);
        assert_eq!(names(&alone.sra), ["SRR000001.sra"]);
        assert_eq!(alone.sra[0].urls.len(), 1);
        // Located elsewhere only, the open-data mirror may still have it: with the size that NCBI says.
        let mut elsewhere = located(Some(5), md5);
        elsewhere.places.pop();
        for (bytes, taken) in [(5, 1), (6, 0)] {
            let mut offer = Offer::default();
            offer.add_located("SRR000001", &[elsewhere.clone()], Source::Aws);
            let head = Head { bytes: Some(bytes), tag: "0-2".to_owned() };
            offer.add_mirrored("SRR000001", Url::parse("https://s3/1").expect("a URL"), &head);
            assert_eq!(offer.sra.len(), taken, "{bytes}");
            assert!(offer.sra.iter().all(|file| file.checksums.hex(Algorithm::Md5).as_deref() == Some(md5)));
        }
        let lite = SdlFile { quality: Quality::Lite, ..located(Some(3), md5) };
        alone.add_located("SRR000001", &[lite], Source::Auto);
        assert_eq!(alone.summary(), "sra (1 file, 5 B, aws), sralite (1 file, 3 B, aws)");
    }

    #[test]
    fn files_go_where_layout_and_naming_say() {
        let cells = row(&[("run_accession", "SRR000001"), ("experiment_accession", "SRX000002")]);
        let path = |name: &str, layout, naming| {
            let options = ResolveOptions { layout, naming, ..ResolveOptions::default() };
            path(&cells, name, &options).map(|path| path.to_string())
        };
        for (name, layout, naming, place) in [
            ("SRR000001_1.fastq.gz", Layout::Flat, Naming::Archive, "SRR000001_1.fastq.gz"),
            ("SRR000001_1.fastq.gz", Layout::Run, Naming::Archive, "SRR000001/SRR000001_1.fastq.gz"),
            ("SRR000001_1.fastq.gz", Layout::Experiment, Naming::Archive, "SRX000002/SRR000001_1.fastq.gz"),
            ("SRR000001_1.fastq.gz", Layout::Flat, Naming::Fetchngs, "SRX000002_SRR000001_1.fastq.gz"),
            ("SRR000001.fastq.gz", Layout::Run, Naming::Fetchngs, "SRR000001/SRX000002_SRR000001.fastq.gz"),
            ("a.bam", Layout::Flat, Naming::Archive, "SRR000001_a.bam"),
            ("a.bam", Layout::Run, Naming::Archive, "SRR000001/a.bam"),
            ("a.bam", Layout::Flat, Naming::Fetchngs, "SRX000002_SRR000001_a.bam"),
        ] {
            assert_eq!(path(name, layout, naming).as_deref(), Ok(place));
        }
        for bad in ["../../etc/passwd", "/etc/passwd", "a/b", "", ".."] {
            let found = path(bad, Layout::Run, Naming::Archive);
            assert!(found.is_err(), "{bad}: {found:?}");
        }
    }
}
