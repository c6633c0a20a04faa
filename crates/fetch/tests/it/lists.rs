//! Lists of every kind, read as people have them.

use std::fs;
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use tidegate_fetch::checksum::{Algorithm, Checksums};
use tidegate_fetch::list::{self, ListFormat, Options};
use tidegate_fetch::record::{Named, Record};
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::path::RelPath;
use tidegate_transfer::sys::sync::Mutex;

const MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";

/// What a list named, and the words in it that are no URLs.
struct All {
    records: Vec<Record>,
    problems: Vec<String>,
    notes: Vec<String>,
    words: Vec<String>,
}

fn read_bytes(bytes: impl Into<Vec<u8>>, options: &Options) -> Result<All> {
    let words = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&words);
    let keep = Box::new(move |word: &str| {
        if !word.starts_with(char::is_alphabetic) {
            return Err(Error::new(ErrorKind::Usage, format!("{word}: no accession")));
        }
        kept.lock().push(word.to_owned());
        Ok(())
    });
    let names = list::read(Cursor::new(bytes.into()), Some(Path::new("list")), options, keep)?;
    let mut all = sorted(names);
    all.words = std::mem::take(&mut words.lock());
    Ok(all)
}

fn sorted(names: impl Iterator<Item = Named>) -> All {
    let mut all = All { records: vec![], problems: vec![], notes: vec![], words: vec![] };
    for named in names {
        match named {
            Named::Record(record) => all.records.push(*record),
            Named::Problem(_, error) => all.problems.push(error.message),
            Named::LeftOut(path, _) => panic!("{path}"),
            Named::Note(note) => all.notes.push(note),
        }
    }
    all
}

fn read(text: &str) -> All {
    read_bytes(text, &Options::default()).expect("a list")
}

fn read_with(text: &str, options: &Options) -> All {
    read_bytes(text, options).expect("a list")
}

impl All {
    fn paths(&self) -> Vec<String> {
        self.records.iter().map(|record| record.path.to_string()).collect()
    }

    fn urls(&self) -> Vec<Vec<String>> {
        self.records.iter().map(|record| record.urls.iter().map(url::Url::to_string).collect()).collect()
    }

    fn md5s(&self) -> Vec<Option<String>> {
        self.records.iter().map(|record| record.checksums.hex(Algorithm::Md5)).collect()
    }
}

#[test]
fn urls_with_mirrors_options_and_accessions() {
    let all = read(&format!(
        "# a comment\n\nhttps://a/x.gz\tftp://b/x.gz\n  out=deep/y.gz\n\tchecksum=md5={MD5}\n \
         checksum=sha-256={}\n  header=X-One: 1\n  referer=https://r/\n  user-agent=me\n  split=5\n  \
         split=6\nSRR1, SRR2\n  SRR3 # three\nhttps://a/z%20z?token=secret\n  dir=sub/\nout=q\n",
        "e".repeat(64)
    ));
    assert_eq!(all.paths(), ["deep/y.gz", "sub/q"]);
    assert_eq!(all.urls(), [vec!["https://a/x.gz", "ftp://b/x.gz"], vec!["https://a/z%20z?token=secret"]]);
    assert_eq!(all.md5s(), [Some(MD5.to_owned()), None]);
    assert!(all.records[0].checksums.get(Algorithm::Sha256).is_some());
    let headers = [("X-One", "1"), ("Referer", "https://r/"), ("User-Agent", "me")];
    assert_eq!(all.records[0].headers, headers.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(all.words, ["SRR1", "SRR2", "SRR3"]);
    assert_eq!(all.notes, ["list:10: the option 'split' has no meaning here and is left out"]);
    assert_eq!(all.problems, [""; 0]);
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_the_rest_goes_on() {
    let all = read(
        "https://a/good\nhttps://a/\nhttps://a/../..\nhttps://a/x\n out=../../etc/passwd\nhttps://a/y\n \
         checksum=md5=12\nhttps://a/z\n out=/etc/passwd\nhtp://me:secret@a/b?secret\nhttps://a/w\n \
         dir=/abs\n9\nhttps://a/v\n header=bad name: secret\nhttps://a/u\thttps://\nhttps://a/t\n out=.tidegate/x\n \
         out=fine\n",
    );
    assert_eq!(all.paths(), ["good", "fine"]);
    let told = all.problems.join("\n");
    for (line, why) in [
        (2, "https://a/: names no file"),
        (3, "names no file"),
        (4, "it contains '.' or '..'"),
        (6, "list:7: \"12\" is no md5"),
        (8, "it is absolute"),
        (10, "htp://a/b?…: htp: cannot be fetched"),
        (11, "it is absolute"),
        (13, "9: no accession"),
        (14, "list:15: a header's name holds letters"),
        (16, "empty host"),
    ] {
        let line = if why.starts_with("list:") { String::new() } else { format!("list:{line}: ") };
        assert!(
            told.lines().any(|told| told.starts_with(&line) && told.contains(why)),
            "{line}{why}:\n{told}"
        );
    }
    assert_eq!(all.problems.len(), 10, "{told}");
    assert!(!told.contains("secret"), "{told}");
}

#[test]
fn checksum_files_lie_beneath_a_base() {
    let text =
        format!("{MD5}  a b/c\n{MD5} *./d#e\n# note\n\nMD5 (f) = {MD5}\n{MD5}  ../g\nnonsense\n{MD5}  /h\n");
    let error = read_bytes(&text[..], &Options::default()).err().expect("no base");
    assert_eq!(error.kind, ErrorKind::Usage);
    assert!(error.message.contains("--base-url"), "{error}");
    let base = Some("https://host/pub?sig=1".parse().expect("a URL"));
    let all = read_with(&text, &Options { base, ..Options::default() });
    assert_eq!(all.paths(), ["a b/c", "d#e", "f"]);
    let wanted =
        ["https://host/pub/a%20b/c?sig=1", "https://host/pub/d%23e?sig=1", "https://host/pub/f?sig=1"];
    assert_eq!(all.urls().concat(), wanted);
    assert_eq!(all.md5s(), vec![Some(MD5.to_owned()); 3]);
    assert_eq!(all.problems.len(), 3, "{:?}", all.problems);
    assert!(all.problems[1].starts_with("list:7: neither"), "{:?}", all.problems);
}

#[test]
fn tables_are_read_by_the_names_of_their_columns() {
    let all = read(&format!(
        "Sample,URL,File Size,MD5,Filename\n\"a, b\",https://h/1,12,{MD5},one\nb,https://h/2,-,,\n\
         c,https://h/3,x,,\nd,https://h/4\ne,nowhere,1,,\nf,https://h/6,,NA,../six\n\"g\n\",https://h/7,,,seven\n"
    ));
    assert_eq!(all.paths(), ["one", "2", "seven"]);
    assert_eq!(all.records.iter().map(|r| r.bytes).collect::<Vec<_>>(), [Some(12), None, None]);
    assert_eq!(all.md5s(), [Some(MD5.to_owned()), None, None]);
    assert_eq!(all.records[0].meta.get("sample").map(String::as_str), Some("a, b"));
    let told = all.problems.join("\n");
    for why in [
        "list:4: \"x\" is no size in bytes",
        "list:5: the row has 2 fields, and the header 5",
        "list:6: nowhere: is no URL",
        "list:7: refused the name ../six: it contains '.' or '..'",
    ] {
        assert!(told.contains(why), "{why}:\n{told}");
    }
    let mirrors = read("urls\tsha256\tbytes\nhttps://a/x;https://b/x | https://c/x\t\t7\n");
    assert_eq!(mirrors.urls(), [["https://a/x", "https://b/x", "https://c/x"]]);
    let base = Some("https://h/d/".parse().expect("a URL"));
    let beneath = read_with(&format!("url,hash\nx y,md5:{MD5}\n"), &Options { base, ..Options::default() });
    assert_eq!(
        (beneath.urls(), beneath.md5s()),
        (vec![vec!["https://h/d/x%20y".to_owned()]], vec![Some(MD5.into())])
    );
    let refused = Options { format: Some(ListFormat::Tsv), ..Options::default() };
    assert!(
        read_bytes("a\tb\n", &refused).is_err_and(|error| error.message.contains("no column is called url"))
    );
    // A quote that is never closed does not swallow the memory.
    let open = read(&format!("url,x\nhttps://a/b,\"{}", "x,\n".repeat(1 << 20)));
    assert!(
        open.records.is_empty() && open.problems[0].contains("is a quote left open?"),
        "{:?}",
        open.problems
    );
}

#[test]
fn an_ena_filereport_is_read_as_it_is() {
    let header =
        "run_accession\tfastq_ftp\tfastq_bytes\tfastq_md5\tsra_ftp\tsra_bytes\tsra_md5\tsample_title\n";
    let other = "0".repeat(32);
    let text = format!(
        "{header}SRR1\tftp.x/1/SRR1.fastq.gz;ftp.x/1/SRR1_1.fastq.gz;ftp.x/1/SRR1_2.fastq.gz\t1;2;3\t{MD5};{other};\
         {MD5}\t\t\t\t\"odd\"\" one\"\nSRR2\t\t\t\tftp.x/SRR2\t5\t{MD5}\ta\" b\nSRR3\tftp.x/a;ftp.x/b\t1\t;\t\t\t\t\n\
         SRR4\tftp.x/c;ftp.x/d\t\t{MD5};\t\t\t\t\n"
    );
    let all = read(&text);
    assert_eq!(all.paths(), ["SRR1.fastq.gz", "SRR1_1.fastq.gz", "SRR1_2.fastq.gz", "c", "d"]);
    assert_eq!(all.urls()[1], ["https://ftp.x/1/SRR1_1.fastq.gz"]);
    assert_eq!(all.records[2].bytes, Some(3));
    assert_eq!(all.md5s(), [Some(MD5.into()), Some(other), Some(MD5.into()), Some(MD5.into()), None]);
    assert!(all.records[..3].iter().all(|record| record.group.as_deref() == Some("SRR1")));
    assert_eq!(all.records[0].meta.get("sample_title").map(String::as_str), Some("odd\" one"));
    assert_eq!(
        all.problems,
        [
            "list:3: SRR2 has no fastq files; there is sra (--format)",
            "list:4: fastq_ftp lists 2 files, and fastq_bytes 1"
        ]
    );
    let sra = read_with(&text, &Options { files: "sra".into(), scheme: "ftp".into(), ..Options::default() });
    assert_eq!(sra.urls(), [["ftp://ftp.x/SRR2"]]);
    assert_eq!(sra.records[0].meta.get("sample_title").map(String::as_str), Some("a\" b"));
}

#[test]
fn real_filereports_are_read() {
    let sample = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/ena").join(name);
        let names = list::open(&path, &Options::default(), Box::new(|_| Ok(())));
        sorted(names.expect("a list"))
    };
    let paired = sample("SRR7706354.filereport.tsv");
    assert_eq!(paired.paths(), ["SRR7706354_1.fastq.gz", "SRR7706354_2.fastq.gz"]);
    assert_eq!(paired.records[0].bytes, Some(129_917_564));
    assert_eq!(paired.md5s()[1].as_deref(), Some("5517e629b8e8ad00dbd6ef9a5f8d073d"));
    assert_eq!(paired.records[0].meta.get("instrument_model").map(String::as_str), Some("Illumina MiSeq"));
    let odd = sample("PRJNA540705.rebuilt.tsv");
    assert_eq!((odd.records.len(), odd.problems.len()), (6, 0), "{:?}", odd.problems);
    assert_eq!(odd.paths()[0], "SRR9001768_subreads.fastq.gz");
    let three = sample("PRJNA916347.rebuilt.tsv");
    assert!(three.records.len() > 3 && three.problems.is_empty(), "{:?}", three.problems);
    let none = sample("no_fastq.search.tsv");
    assert!(
        none.records.is_empty() && none.problems[0].contains("has no fastq files"),
        "{:?}",
        none.problems
    );
    // A search that was not asked where files are names accessions.
    let search =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/ena/search_three_rows.json"));
    let search = read_bytes(search.expect("a sample"), &Options::default()).expect("a list");
    assert_eq!((search.words.len(), search.problems.len()), (3, 0), "{:?}", search.problems);
}

#[test]
fn tables_of_runs_name_accessions() {
    let runinfo = read("Run,ReleaseDate,size_MB\nSRR1,2020,7\n,,\nSRR2,2021,8\n9,,\n");
    assert_eq!(runinfo.words, ["SRR1", "SRR2"]);
    let told = ["list:3: the row has neither a URL nor an accession", "list:5: 9: no accession"];
    assert_eq!((runinfo.records.len(), runinfo.problems), (0, told.map(str::to_owned).to_vec()));
    // What stands in a sheet for pipelines is found again.
    let sheet = read("\"sample\",\"fastq_1\",\"run_accession\"\n\"a\",\"/x/y_1.fastq.gz\",\"SRR3\"\n");
    assert_eq!(sheet.words, ["SRR3"]);
    assert_eq!(read("{\"run_accession\":\"SRR4\",\"tax_id\":\"1\"}").words, ["SRR4"]);
    assert_eq!(read("run_accession\tstudy_accession\nSRR5\tSRP1\n").words, ["SRR5"]);
}

#[test]
fn json_lines_and_arrays() {
    let one = format!(
        "{{\"urls\": [\"https://a/x\", \"https://b/x\"], \"bytes\": 5, \"checksums\": {{\"md5\": \"{MD5}\"}}, \"path\": \
         \"p/q\", \"headers\": {{\"X-A\": \"1\"}}, \"meta\": {{\"url\": \"odd\", \"n\": 1}}, \"deep\": [1], \"none\": null}}"
    );
    let lines =
        read(&format!("{one}\n\n{{\"url\": \"https://c/y\", \"md5\": \"{MD5}\"}}\n{{\"a\n[1]\n{{}}\n"));
    assert_eq!(lines.paths(), ["p/q", "y"]);
    assert_eq!(lines.urls()[0], ["https://a/x", "https://b/x"]);
    assert_eq!((lines.records[0].bytes, lines.md5s()), (Some(5), vec![Some(MD5.into()); 2]));
    assert_eq!(lines.records[0].headers, [("X-A".to_owned(), "1".to_owned())]);
    assert_eq!(
        lines.records[0].meta.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>(),
        ["n=1", "url=odd"]
    );
    assert_eq!(lines.problems.len(), 3, "{:?}", lines.problems);
    assert!(lines.problems[0].starts_with("list:4: EOF"), "{:?}", lines.problems);
    let array = read(&format!(" [\n{one},\n{{\"url\": \"x\"}}, 3]"));
    assert_eq!(array.paths(), ["p/q"]);
    assert_eq!(array.problems, ["list:2: x: is no URL", "list:3: is no JSON object"]);
    assert!(read_bytes("[{]", &Options::default()).is_err());
    // ENA's own JSON.
    let ena =
        read("[{\"run_accession\":\"SRR1\",\"fastq_ftp\":\"ftp.x/a_1;ftp.x/a_2\",\"fastq_bytes\":\"1;2\"}]");
    assert_eq!(ena.paths(), ["a_1", "a_2"]);
}

#[test]
fn json_of_another_structure_is_told_and_not_left_out() {
    for (more, wanted) in [
        (r#""checksums": ["md5"]"#, "checksums is a list"),
        (r#""checksums": {"md5": ["x"]}"#, "checksums holds a list or an object"),
        (r#""headers": {"a": {}}"#, "headers holds a list or an object"),
        (r#""mirrors": {"a": "https://h/x"}"#, "mirrors is an object"),
        (r#""mirrors": [["https://h/x"]]"#, "mirrors holds a list or an object"),
    ] {
        let all = read(&format!("{{\"url\": \"https://h/x\", {more}}}\n"));
        assert!(all.records.is_empty(), "{more}");
        assert!(all.problems.iter().any(|problem| problem.contains(wanted)), "{more}: {:?}", all.problems);
    }
    let fine = read("{\"url\": \"https://h/x\", \"checksums\": {\"md5\": null}, \"headers\": null}\n");
    assert_eq!((fine.records.len(), fine.problems.len()), (1, 0));
}

#[test]
fn bags_know_their_sums() {
    let bag = tempfile::tempdir().expect("a directory");
    let here = |name: &str| bag.path().join(name);
    let sum = |name: &str| {
        let mut hashers = tidegate_fetch::checksum::Hashers::new([Algorithm::Sha256]);
        hashers.update(&fs::read(here(name)).expect("read"));
        hashers.finish().hex(Algorithm::Sha256).expect("computed")
    };
    let fetch = "https://a/1 10 data/one\nhttps://a/2 - data/two%0Awords%25\n\nhttps://a/3 x data/three\nhttps://a/4 1 \
                 ../four\nshort\n";
    fs::write(here("fetch.txt"), fetch).expect("written");
    let (one, two) = ("1".repeat(64), "2".repeat(64));
    let manifest = format!("{one}  data/one\n{two} data/two%0Awords%25\n");
    fs::write(here("manifest-sha256.txt"), manifest).expect("written");
    fs::write(here("manifest-md5.txt"), format!("{MD5}  data/one\n")).expect("written");
    let open = || list::open(&here("fetch.txt"), &Options::default(), Box::new(|_| Ok(())));
    let tags = format!(
        "{}  fetch.txt\n{}  manifest-sha256.txt\n{one}  bag-info.txt\n",
        sum("fetch.txt"),
        sum("manifest-sha256.txt")
    );
    fs::write(here("tagmanifest-sha256.txt"), &tags).expect("written");
    let all = sorted(open().expect("opened"));
    assert_eq!(all.paths(), ["data/one", "data/two\\x0awords%"]);
    assert_eq!(all.records.iter().map(|r| r.bytes).collect::<Vec<_>>(), [Some(10), None]);
    let sums: Vec<_> = all.records.iter().map(|r| r.checksums.hex(Algorithm::Sha256)).collect();
    assert_eq!(sums, [Some(one.clone()), Some(two)]);
    assert_eq!(all.problems.len(), 3, "{:?}", all.problems);
    assert!(all.problems[0].contains("fetch.txt:4: the length is neither"), "{:?}", all.problems);
    fs::write(here("manifest-sha256.txt"), format!("{one}  data/one\n")).expect("written");
    assert_eq!(open().err().map(|error| error.kind), Some(ErrorKind::Corrupt));
    // Of the standard input no manifest is known.
    let alone = read("https://a/1 10 data/one\n");
    assert_eq!((alone.paths(), alone.notes.len()), (vec!["data/one".to_owned()], 1));
}

#[test]
fn a_dehydrated_package_of_ncbi_is_read() {
    let package = tempfile::tempdir().expect("a directory");
    let inner = package.path().join("ncbi_dataset");
    fs::create_dir(&inner).expect("made");
    fs::write(inner.join("fetch.txt"), "https://a/x\t3\tdata/GCF_1/x.fna\n").expect("written");
    fs::write(package.path().join("md5sum.txt"), format!("{MD5}  ncbi_dataset/data/GCF_1/x.fna\n"))
        .expect("written");
    let names = list::open(&inner.join("fetch.txt"), &Options::default(), Box::new(|_| Ok(())));
    let all = sorted(names.expect("opened"));
    assert_eq!((all.paths(), all.md5s()), (vec!["data/GCF_1/x.fna".to_owned()], vec![Some(MD5.into())]));
    assert!(all.problems.is_empty() && all.notes.is_empty());
}

#[test]
fn metalink_names_mirrors_by_priority() {
    let sha = "a".repeat(64);
    let all = read(&format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">\n<file \
         name=\"d/a &amp; b\"><size> 14 </size><hash type=\"sha-256\">{sha}</hash><hash type=\"sha-384\">00</hash>\n<url \
         priority=\"2\">https://second/a?x=1&amp;y=2</url><url>https://last/a</url><url location=\"de\" \
         priority=\"1\"><![CDATA[ftp://first/a]]></url><metaurl mediatype=\"torrent\">x:y</metaurl>\n<pieces length=\"1\" \
         type=\"sha-1\"><hash>zz</hash></pieces></file>\n<file name=\"../b\"><url>https://a/b</url></file>\n<file \
         name=\"c\"><size>1</size></file>\n<file name=\"d\"><url>https://a/&bomb;</url></file><file name=\"e\"><url>\
         https://a/&#x65;</url></file></metalink>"
    ));
    assert_eq!(all.paths(), ["d/a & b", "e"]);
    assert_eq!(all.urls()[0], ["ftp://first/a", "https://second/a?x=1&y=2", "https://last/a"]);
    assert_eq!(all.urls()[1], ["https://a/e"]);
    assert_eq!(all.records[0].bytes, Some(14));
    assert_eq!(all.records[0].checksums.hex(Algorithm::Sha256), Some(sha));
    assert_eq!(all.records[0].checksums.algorithms().count(), 1);
    assert_eq!(all.notes, ["list:5: hashes of pieces are left out; whole files are checked"]);
    assert_eq!(
        all.problems,
        [
            "list:6: refused the name ../b: it contains '.' or '..'",
            "list:7: the file has no URL",
            "list:8: the entity &bomb; is not expanded"
        ]
    );
}

#[test]
fn metalink_that_is_none_or_goes_too_far_is_refused() {
    let head = "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">";
    let deep = format!("{head}{}", "<a>".repeat(10_000));
    let long = format!("{head}<file name=\"{}", "x".repeat(3 << 20));
    let text = format!("{head}<file name=\"a\"><size>{}", "1".repeat(100_000));
    let bomb = "<!DOCTYPE x [<!ENTITY a \"b\"><!ENTITY c \"&a;&a;\">]>".to_owned()
        + head
        + "<file name=\"&c;\"/></metalink>";
    for (text, why) in [
        ("<metalink version=\"3.0\" xmlns=\"http://www.metalinker.org/\"/>", "is no Metalink 4 document"),
        ("<html></html>", "is no Metalink 4 document"),
        ("<", "list:1: "),
        (head, "the document ends too early"),
        ("<metalink></x>", "list:1: "),
        (&deep, "nested too deeply"),
        (&long, "an element is longer than 1 MiB"),
        (&text, "longer than 64 KiB"),
        (&bomb, "list:1: "),
    ] {
        let all = read(text);
        assert!(all.records.is_empty() && all.problems.len() == 1, "{:?}", all.problems);
        assert!(all.problems[0].contains(why), "{why}: {:?}", all.problems);
    }
    let prefixed = read(
        "<m:metalink xmlns:m=\"urn:ietf:params:xml:ns:metalink\"><m:file name=\"a\"><m:url>ftp://h/a</m:url></m:file></m:metalink>",
    );
    assert_eq!(prefixed.paths(), ["a"]);
}

#[test]
fn a_long_list_is_never_held_whole() {
    /// URLs that exist only as they are read, and how far reading has come.
    struct Endless(Arc<Mutex<usize>>, Vec<u8>);
    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let mut n = self.0.lock();
            while self.1.len() < buffer.len() && *n < 100_000 {
                self.1.extend_from_slice(format!("https://host/file{n}\n").as_bytes());
                *n += 1;
            }
            let length = buffer.len().min(self.1.len());
            buffer[..length].copy_from_slice(&self.1[..length]);
            self.1.drain(..length);
            Ok(length)
        }
    }
    let read = Arc::new(Mutex::new(0));
    let input = Endless(Arc::clone(&read), Vec::new());
    let names = list::read(input, None, &Options::default(), Box::new(|_| Ok(()))).expect("a list");
    let mut count = 0;
    for (i, named) in names.enumerate() {
        assert!(matches!(named, Named::Record(_)));
        count += 1;
        let ahead = *read.lock() - i;
        assert!(ahead < 2000, "{ahead} URLs were read ahead");
    }
    assert_eq!(count, 100_000);
}

#[test]
fn a_list_that_cannot_be_read_is_an_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = |path: &Path| list::open(path, &Options::default(), Box::new(|_| Ok(()))).err();
    assert_eq!(open(&directory.path().join("none")).map(|error| error.kind), Some(ErrorKind::NotFound));
    assert!(open(directory.path()).is_some());
    assert!(read("").records.is_empty());
}

fn any_record() -> impl Strategy<Value = Record> {
    let url = "(https?|ftp)://[a-z]{1,8}(\\.[a-z]{2,3})?/([a-z0-9%_.~-]{1,8}/){0,2}[A-Za-z0-9_-]{1,12}(\\?[a-z]=[0-9]{1,3})?";
    // What nobody sees is told in a comment only.
    let path = "[^/\\p{C}\\p{Zl}\\p{Zp}]{1,20}(/[^/\\p{C}\\p{Zl}\\p{Zp}]{1,20}){0,2}"
        .prop_filter("a path", |path| RelPath::new(&path[..]).is_ok());
    let sum = |n| proptest::option::of(proptest::collection::vec(any::<u8>(), n));
    let header = proptest::collection::vec(("X-[A-Za-z]{1,8}", "[!-~]{1,20}"), 0..3);
    let meta = proptest::collection::btree_map("[a-z_]{1,10}", "\\PC{1,20}", 0..4);
    let urls = proptest::collection::vec(url, 1..4);
    (urls, path, sum(16), sum(32), header, proptest::option::of(any::<u64>()), meta).prop_map(
        |(urls, path, md5, sha256, headers, bytes, meta)| {
            let urls: Vec<url::Url> = urls.iter().map(|url| url.parse().expect("a URL")).collect();
            let mut record = Record::new(urls[0].clone(), RelPath::new(path).expect("a path"));
            for url in urls {
                if !record.urls.contains(&url) {
                    record.urls.push(url);
                }
            }
            let mut checksums = Checksums::none();
            md5.into_iter().for_each(|sum| checksums.add(Algorithm::Md5, sum));
            sha256.into_iter().for_each(|sum| checksums.add(Algorithm::Sha256, sum));
            Record { checksums, headers, bytes, meta: Arc::new(meta), ..record }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_upset_a_reader(bytes in proptest::collection::vec(any::<u8>(), 0..400), kind in 0..8_usize) {
        let format = ListFormat::ALL.get(kind).copied();
        let base = Some("https://host/".parse().expect("a URL"));
        let _ = read_bytes(bytes, &Options { format, base, ..Options::default() });
    }

    #[test]
    fn nearly_sound_lists_do_not_either(
        pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..24), kind in 0..8_usize,
    ) {
        let format = ListFormat::ALL.get(kind).copied();
        let base = Some("https://host/".parse().expect("a URL"));
        if let Ok(all) = read_bytes(pieces.concat(), &Options { format, base, ..Options::default() }) {
            for record in all.records {
                prop_assert!(!record.urls.is_empty());
            }
        }
    }

    #[test]
    fn an_entry_comes_back(record in any_record()) {
        let all = read(&list::entry(&record));
        let wanted = Record { bytes: None, meta: Arc::default(), ..record };
        prop_assert_eq!((all.records, all.problems), (vec![wanted], vec![]));
    }

    #[test]
    fn a_json_line_comes_back(record in any_record(), hidden in "[\u{1b}\u{9b}\u{202e}\u{2028}\u{e0041}]{0,2}") {
        let path = RelPath::new(format!("{}{hidden}", record.path)).expect("a path");
        let record = Record { path, ..record };
        let all = read(&list::json_line(&record));
        let wanted = Record { headers: Vec::new(), ..record };
        prop_assert_eq!((all.records, all.problems), (vec![wanted], vec![]));
    }
}

const PIECES: &[&str] = &[
    "https://a/b",
    "\t",
    "\n",
    " ",
    "  out=",
    "x/../y",
    "{",
    "}",
    "[",
    "]",
    "\"url\":",
    "\"https://c/d\"",
    ",",
    "url",
    "\tmd5",
    "run_accession\tfastq_ftp\n",
    ";",
    "ftp.x/y",
    "12",
    "-",
    MD5,
    "  ",
    " *",
    "\\",
    "MD5 (a) = ",
    "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">",
    "<file name=\"a\">",
    "</file>",
    "<url>",
    "</url>",
    "<size>1</size>",
    "</metalink>",
    "&amp;",
    "&x;",
    "\"",
    "\0",
    "é",
    "#",
    "%2e%2e",
    "=",
    "checksum=md5=",
];

#[test]
fn secrets_are_not_written_for_the_next_try() {
    let mut record = match list::of_url("https://me:secret@host/file") {
        Named::Record(record) => *record,
        other => panic!("{other:?}"),
    };
    record.headers = vec![("Authorization".into(), "Bearer secret".into()), ("X-A".into(), "1".into())];
    let entry = list::entry(&record);
    assert!(!entry.contains("Bearer") && entry.contains("header=X-A: 1"), "{entry}");
    assert!(!list::json_line(&record).contains("secret"));
}

#[test]
fn addresses_without_a_scheme_are_files_each() {
    // `cut -f` of ENA's `fastq_ftp`, without its header and with it.
    let lines = "ftp.sra.ebi.ac.uk/vol1/SRR1_1.fastq.gz;ftp.sra.ebi.ac.uk/vol1/SRR1_2.fastq.gz\n\
                 SRR2,ftp.sra.ebi.ac.uk/vol1/SRR3.fastq.gz\n";
    let urls = |all: &All| all.records.iter().map(|record| record.urls[0].to_string()).collect::<Vec<_>>();
    for (scheme, header) in [("https", ""), ("ftp", ""), ("https", "fastq_ftp\n"), ("ftp", "fastq_ftp\n")] {
        let options = Options { scheme: scheme.to_owned(), ..Options::default() };
        let lines =
            if header.is_empty() { lines } else { lines.split_inclusive('\n').next().expect("a line") };
        let all = read_with(&format!("{header}{lines}"), &options);
        let base = format!("{scheme}://ftp.sra.ebi.ac.uk/vol1/SRR");
        let mut wanted = vec![format!("{base}1_1.fastq.gz"), format!("{base}1_2.fastq.gz")];
        wanted.extend(header.is_empty().then(|| format!("{base}3.fastq.gz")));
        assert_eq!((urls(&all), all.problems.len()), (wanted, 0), "{:?}", all.problems);
        assert_eq!(all.words.len(), usize::from(header.is_empty()), "an accession stays one");
    }
    let all = read(&format!("host.example.org/a/b.bin\n  out=c.bin\n  checksum=md5={MD5}\ndata/x.txt\n"));
    assert_eq!(urls(&all), ["https://host.example.org/a/b.bin"]);
    assert_eq!((all.records[0].path.as_bytes(), all.records[0].checksums.is_empty()), (&b"c.bin"[..], false));
}
