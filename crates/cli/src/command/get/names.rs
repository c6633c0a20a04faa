//! What stands on the command line of `get`, as one stream of names: URLs, then what lists name, then what
//! the archives have under the accessions.

use std::ffi::OsStr;
use std::io::Cursor;
use std::iter;
use std::path::Path;
use std::sync::Arc;

use tidegate_contract::redact;
use tidegate_fetch::archive::{Accession, Archives, ResolveOptions as Wish};
use tidegate_fetch::checksum::Checksums;
use tidegate_fetch::list;
use tidegate_fetch::record::{Named, Names, Record};
use tidegate_fetch::remote::servers::Servers;
use tidegate_spec::archive::ArchiveSpec;
use tidegate_spec::pair::Site;
use tidegate_spec::run::NamedUrl;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::text::show;
use url::Url;

use super::GetArgs;
use super::settings::ListArgs;
use crate::exit::usage;

/// Most accessions of one command; each is kept until the lists have been read.
const MAX_ACCESSIONS: usize = 1_000_000;

/// Accessions met so far.
type Words = Arc<Mutex<Vec<String>>>;

/// Everything that the command line names.
pub fn named(args: &GetArgs, servers: &Servers) -> Result<Names> {
    let declared = args.spec.requests.declared()?;
    if !declared.is_empty() {
        return Ok(Box::new(iter::once(declared_url(args, servers, &declared)?)));
    }
    let archives = Arc::new(Archives::new(args.archive.settings(&args.server, &args.spec))?);
    let options = args.list.options(&args.spec.archive);
    let words = Words::default();
    let mut direct: Vec<Named> = Vec::new();
    let mut lists: Vec<Names> = Vec::new();
    if !args.urls.is_empty() {
        lists.push(given(&args.urls, &args.spec.archive)?);
    }
    let mut has_stdin = false;
    for name in &args.names {
        let text = name.to_string_lossy();
        if name == "-" {
            if std::mem::replace(&mut has_stdin, true) {
                return Err(usage("'-' stands for standard input, which can be read once"));
            }
            lists.push(list::read(std::io::stdin(), None, &options, keep(&words))?);
        } else if args.recursive {
            lists.push(beneath(&text, servers)?);
        } else if let Some(listed) = Url::parse(&text).ok().and_then(|url| servers.list(&url)) {
            lists.push(listed?);
        } else if text.contains("://") {
            direct.push(list::of_url(&text));
        } else if text.parse::<Accession>().is_ok() {
            keep(&words)(&text)?;
        } else if Path::new(name).exists() || is_path(name) {
            lists.push(list::open(Path::new(name), &options, keep(&words))?);
        } else if let Err(error) = text.parse::<Accession>() {
            let why = format!("{}, and there is no such file", error.message);
            direct.push(Named::Problem(
                show(name.as_encoded_bytes()).into_owned(),
                Error::new(error.kind, why),
            ));
        }
    }
    let resolved = resolved(archives, words, args.spec.archive.wish());
    Ok(Box::new(direct.into_iter().chain(lists.into_iter().flatten()).chain(resolved)))
}

/// Files that another program names.
fn given(urls: &[NamedUrl], archive: &ArchiveSpec) -> Result<Names> {
    let line = |NamedUrl { url, name }: &NamedUrl| match name {
        Some(name) => format!("{url}\n out={name}\n"),
        None => format!("{url}\n"),
    };
    let text: String = urls.iter().map(line).collect();
    list::read(Cursor::new(text), None, &ListArgs::of_urls().options(archive), Box::new(|_| Ok(())))
}

/// The only file that is named, which has to sum up to what `declared` says.
fn declared_url(args: &GetArgs, servers: &Servers, declared: &Checksums) -> Result<Named> {
    let only = match &args.names[..] {
        [only] if !args.recursive => only.to_string_lossy(),
        _ => {
            return Err(usage(
                "--checksum with a sum is for exactly one URL; a list has a sum for each file",
            ));
        }
    };
    let is_prefix = Url::parse(&only).is_ok_and(|url| servers.list(&url).is_some());
    if !only.contains("://") || is_prefix {
        let why = "is no URL of a file, and --checksum with a sum is for exactly one";
        return Err(usage(format!("{} {why}; a list has a sum for each file", redact::public_text(&only))));
    }
    Ok(match list::of_url(&only) {
        Named::Record(record) => Named::Record(Box::new(Record { checksums: declared.clone(), ..*record })),
        other => other,
    })
}

/// What lies beneath a directory that a server lists.
fn beneath(text: &str, servers: &Servers) -> Result<Names> {
    let url = list::url(text).ok().filter(|_| text.contains("://"));
    let none = |shown: &str| {
        usage(format!(
            "-r is for directories of web servers, FTP and SFTP, as https://host/dir/, and {shown} is none"
        ))
    };
    let url = url.ok_or_else(|| none(&redact::public_text(text)))?;
    match servers.list(&url) {
        Some(listed) => listed,
        None if lists_directories(url.scheme()) => Ok(servers.tree(&url)),
        None => Err(none(&list::public(&url))),
    }
}

/// Whether servers of `scheme` list a directory at a time.
fn lists_directories(scheme: &str) -> bool {
    let (ftp, sftp) = (cfg!(feature = "ftp"), cfg!(feature = "ssh"));
    matches!(scheme, "http" | "https") || ftp && matches!(scheme, "ftp" | "ftps") || sftp && scheme == "sftp"
}

/// Where what is named first comes from, as the path is remembered. Neither a server nor standard input is waited for.
pub fn source(args: &GetArgs) -> Option<Site> {
    let server = |url: &str| Site::of(url).ok();
    if let Some(first) = args.urls.first() {
        return server(&first.url);
    }
    let name = args.names.first()?;
    let text = name.to_string_lossy();
    if text.contains("://") {
        return server(&text);
    }
    if text.parse::<Accession>().is_ok() {
        return Some(args.archive.site(&args.spec.archive));
    }
    // What is no regular file can be read but once.
    let list = Path::new(name);
    list.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let words = Words::default();
    match list::open(list, &args.list.options(&args.spec.archive), keep(&words)).ok()?.next() {
        Some(Named::Record(record)) => server(record.urls.first()?.as_str()),
        Some(_) => None,
        None => (!words.lock().is_empty()).then(|| args.archive.site(&args.spec.archive)),
    }
}

/// Whether somebody meant a file, be it there or not.
fn is_path(name: &OsStr) -> bool {
    let text = name.to_string_lossy();
    let ending = Path::new(name).extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    let lists =
        ["txt", "tsv", "csv", "json", "jsonl", "ndjson", "meta4", "metalink", "md5", "sha256", "list", "lst"];
    text.contains('/') || ending.is_some_and(|ending| lists.contains(&&ending[..]))
}

/// Keeps words that are accessions.
fn keep(words: &Words) -> list::Words {
    let words = Arc::clone(words);
    Box::new(move |word| {
        let accession: Accession = word.parse()?;
        let mut words = words.lock();
        if words.len() >= MAX_ACCESSIONS {
            let why = format!("there are more than {MAX_ACCESSIONS} accessions: split the list");
            return Err(Error::new(ErrorKind::Usage, why));
        }
        words.push(accession.as_str().to_owned());
        Ok(())
    })
}

/// What the archives have under all the words, asked for when everything before has been read.
fn resolved(archives: Arc<Archives>, words: Words, wish: Wish) -> impl Iterator<Item = Named> + Send {
    let mut asked: Option<Names> = None;
    let mut begun = Some((archives, wish));
    iter::from_fn(move || {
        if let Some((archives, wish)) = begun.take() {
            let words = std::mem::take(&mut *words.lock());
            if !words.is_empty() {
                asked = Some(archives.resolve(words.into_iter(), wish));
            }
        }
        asked.as_mut()?.next()
    })
}
