//! Lists of objects: keys in the order of their bytes, a page at a time, from a tree of directories.

use axum::body::Body;
use axum::http::StatusCode;
use data_encoding::BASE64URL_NOPAD;
use tidegate_transfer::endpoint::access::{Access, url_path};
use tidegate_transfer::path::{RelPath, inside};

use crate::body::{Pieces, TEXT, streamed, text};
use crate::limit::Share;
use crate::names::{self, bytes, value};
use crate::pages::{Extent, Pages, enter};
use crate::refusal::{Answer, Refusal};
use crate::tree::Item;
use crate::validators::date_time;
use crate::xml::{Xml, printable};

/// Most keys of a page, as S3 has it.
const MAX_KEYS: usize = 1000;

/// Most bytes of them: with long keys a page has fewer.
const MAX_BYTES: usize = 1 << 20;

/// What is asked for.
#[derive(Debug)]
pub(crate) struct ListQuery {
    second: bool,
    prefix: Vec<u8>,
    by_directory: bool,
    after: Vec<u8>,
    start_after: Vec<u8>,
    token: Option<String>,
    most: usize,
    encoded: bool,
}

impl ListQuery {
    /// Reads what the `query` of a URL asks for.
    pub fn read(text: &str) -> Answer<Self> {
        let query = &names::query(text)[..];
        let second = match value(query, "list-type") {
            None => false,
            Some("2") => true,
            Some(_) => return Err(Refusal::senseless("list-type is 2").called("InvalidArgument")),
        };
        let by_directory = match value(query, "delimiter") {
            None | Some("") => false,
            Some("/") => true,
            Some(_) => return Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, "the delimiter is / or none")),
        };
        let most = match value(query, "max-keys") {
            None => MAX_KEYS,
            Some(text) => match text.parse::<usize>() {
                Ok(most) => most.min(MAX_KEYS),
                Err(_) => return Err(Refusal::senseless("max-keys is a number").called("InvalidArgument")),
            },
        };
        let encoded = match value(query, "encoding-type") {
            None => false,
            Some("url") => true,
            Some(_) => return Err(Refusal::senseless("encoding-type is url").called("InvalidArgument")),
        };
        let start_after = bytes(text, if second { "start-after" } else { "marker" }).unwrap_or_default();
        let token = value(query, "continuation-token").filter(|_| second).map(str::to_owned);
        let after = match &token {
            None => start_after.clone(),
            Some(token) => BASE64URL_NOPAD.decode(token.as_bytes()).map_err(|_| {
                Refusal::senseless("the continuation token cannot be read").called("InvalidArgument")
            })?,
        };
        let prefix = bytes(text, "prefix").unwrap_or_default();
        Ok(Self { second, prefix, by_directory, after, start_after, token, most, encoded })
    }
}

/// What of a bucket is on one page.
#[derive(Debug, Default)]
struct Listed {
    /// Keys and what bears them.
    objects: Vec<(Vec<u8>, Item)>,
    /// Directories that stand for all that is in them.
    prefixes: Vec<Vec<u8>>,
    /// What all of them take in memory.
    bytes: usize,
    /// The last of all these, if more come behind it.
    next: Option<Vec<u8>>,
}

/// A directory on the way.
struct Level {
    /// What its keys begin with: its path beneath the bucket, with a slash at its end unless it is the bucket.
    prefix: Vec<u8>,
    pages: Pages,
}

impl Level {
    fn new(bucket: &[u8], prefix: Vec<u8>, after: &[u8]) -> Self {
        // Where it begins: just before the directory that what is looked for lies in, or the file.
        let rest = after.strip_prefix(&prefix[..]).unwrap_or_default();
        let end = rest.iter().position(|&b| b == b'/').unwrap_or(rest.len());
        let path = match prefix.strip_suffix(b"/") {
            None => bucket.to_vec(),
            Some(path) => inside(bucket, path),
        };
        let pages = Pages::new(path, rest[..end].to_vec(), Extent::Page);
        Self { prefix, pages }
    }
}

/// The answer to who may do what `access` says and has the `share`: what is `asked` of `bucket`.
pub fn answer(access: &Access, share: &Share, bucket: &[u8], asked: ListQuery) -> Answer<Body> {
    let mut held = share.memory(Extent::Page.memory() + 4 * TEXT)?;
    // A page is shorter where there is no memory for all of it.
    let has_room = |bytes: usize| bytes < MAX_BYTES && held.resize(Extent::Page.memory() + bytes + 4 * TEXT);
    let listed = list(access, bucket, &asked, has_room)?;
    held.resize(listed.bytes + 4 * TEXT);
    Ok(streamed(access, held, pieces(bucket, asked, listed)))
}

/// Whether XML can have these bytes as text; where they are encoded there it can have any.
fn is_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| !text.chars().any(|c| printable(c) != c))
}

/// Lists as much as there `has_room` for, in bytes.
fn list(
    access: &Access,
    bucket: &[u8],
    asked: &ListQuery,
    mut has_room: impl FnMut(usize) -> bool,
) -> Answer<Listed> {
    let ListQuery { prefix, after, by_directory, most, .. } = asked;
    let mut listed = Listed::default();
    if *most == 0 {
        return Ok(listed);
    }
    // Nothing outside this directory has the prefix.
    let end = prefix.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
    let first = &prefix[..end];
    if !first.is_empty() && RelPath::new(&first[..end - 1]).is_err() {
        return Ok(listed);
    }
    let mut open = vec![Level::new(bucket, first.to_vec(), after)];
    let mut last = Vec::new();
    while let Some(level) = open.last_mut() {
        let Some(own) = level.pages.next(access)? else {
            open.pop();
            continue;
        };
        let is_directory = own.ends_with(b"/");
        if !asked.encoded && !is_text(&own) {
            continue;
        }
        let key = [&level.prefix[..], &own].concat();
        // A directory that stands for all that is in it was told of if it is the last.
        let goes_on = is_directory && after.starts_with(&key) && !(*by_directory && *after == key);
        if !key.starts_with(prefix) || (key <= *after && !goes_on) {
            continue;
        }
        let Some(item) = level.pages.at(access, &own)? else { continue };
        if item.is_directory() && !by_directory {
            if !item.by_link {
                enter(open.iter_mut().map(|level| &mut level.pages));
                open.push(Level::new(bucket, key, after));
            }
            continue;
        }
        let count = listed.objects.len() + listed.prefixes.len();
        if count == *most || (count > 0 && !has_room(listed.bytes)) {
            listed.next = Some(last);
            break;
        }
        last.clone_from(&key);
        listed.bytes += key.len() + ROW;
        match item.is_directory() {
            true => listed.prefixes.push(key),
            false => {
                listed.bytes += item.name.len() + item.version.tag.len();
                listed.objects.push((key, item));
            }
        }
    }
    Ok(listed)
}

/// What a row of a page takes in memory beside its text.
const ROW: usize = size_of::<(Vec<u8>, Item)>();

/// A line of a page.
enum Line {
    Object(Vec<u8>, Item),
    Prefix(Vec<u8>),
}

/// A page as S3 writes it.
fn pieces(bucket: &[u8], asked: ListQuery, listed: Listed) -> Pieces {
    let mut before = super::begun("ListBucketResult");
    head(&mut before, bucket, &asked, &listed);
    let objects = listed.objects.into_iter().map(|(key, item)| Line::Object(key, item));
    let lines = objects.chain(listed.prefixes.into_iter().map(Line::Prefix)).map(Ok);
    let write = move |line: &Line, text: &mut String| {
        let mut xml = Xml::part();
        match line {
            Line::Object(key, item) => xml.within("Contents", |xml| {
                xml.element("Key", &asked.text(key));
                xml.element("LastModified", &date_time(item.version.modified));
                xml.element("ETag", &item.version.tag);
                xml.element("Size", &item.size.unwrap_or(0).to_string());
                xml.element("StorageClass", "STANDARD");
            }),
            Line::Prefix(key) => {
                xml.within("CommonPrefixes", |xml| xml.element("Prefix", &asked.text(key)));
            }
        }
        text.push_str(&xml.finish());
    };
    text(before.finish(), lines, write, || super::ended("ListBucketResult"))
}

impl ListQuery {
    /// A key as it was asked for.
    fn text(&self, key: &[u8]) -> String {
        match self.encoded {
            true => url_path(key),
            false => String::from_utf8_lossy(key).into_owned(),
        }
    }
}

fn head(xml: &mut Xml, bucket: &[u8], asked: &ListQuery, listed: &Listed) {
    xml.element("Name", &String::from_utf8_lossy(bucket));
    xml.element("Prefix", &asked.text(&asked.prefix));
    xml.element("MaxKeys", &asked.most.to_string());
    xml.element("IsTruncated", if listed.next.is_some() { "true" } else { "false" });
    if asked.by_directory {
        xml.element("Delimiter", "/");
    }
    if asked.encoded {
        xml.element("EncodingType", "url");
    }
    if asked.second {
        xml.element("KeyCount", &(listed.objects.len() + listed.prefixes.len()).to_string());
        xml.element("StartAfter", &asked.text(&asked.start_after));
        if let Some(token) = &asked.token {
            xml.element("ContinuationToken", token);
        }
        if let Some(next) = &listed.next {
            xml.element("NextContinuationToken", &BASE64URL_NOPAD.encode(next));
        }
    } else {
        xml.element("Marker", &asked.text(&asked.start_after));
        if let Some(next) = &listed.next {
            xml.element("NextMarker", &asked.text(next));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use tidegate_transfer::endpoint::access::token_from_state;
    use tidegate_transfer::endpoint::{Config, Endpoint};
    use tidegate_transfer::wire::ticket::Claims;

    use super::*;

    /// Keys of directories and of files in them whose names are ordered otherwise than their paths.
    const KEYS: [&str; 10] = ["a", "d!", "d-x/1", "d.txt", "d/", "d/e!", "d/e/1", "d/e/2", "d/e0", "d0"];

    fn served(keys: &[&str]) -> (tempfile::TempDir, Access) {
        let outer = tempfile::tempdir().expect("a directory");
        let (root, state) = (outer.path().join("root"), outer.path().join("state"));
        std::fs::create_dir_all(&state).expect("made");
        for key in keys.iter().filter(|key| !key.ends_with('/')) {
            let file = root.join("bucket").join(key);
            std::fs::create_dir_all(file.parent().expect("a parent")).expect("made");
            std::fs::write(file, key).expect("written");
        }
        let endpoint = Endpoint::bind(Config::local(root, &state)).expect("bound");
        let token = token_from_state(&state, &Claims::FULL).expect("issued");
        let access = endpoint.access(&token).expect("let in");
        (outer, access)
    }

    /// All pages of a list, taken `most` at a time.
    fn all(access: &Access, prefix: &str, after: &str, by_directory: bool, most: usize) -> Vec<String> {
        let mut query = format!(
            "list-type=2&max-keys={most}&prefix={}&start-after={}",
            url_path(prefix.as_bytes()),
            url_path(after.as_bytes())
        );
        if by_directory {
            query.push_str("&delimiter=%2F");
        }
        let asked = query.clone();
        let mut found = Vec::new();
        loop {
            let listed =
                list(access, b"bucket", &ListQuery::read(&query).expect("read"), |bytes| bytes < 2 * ROW)
                    .expect("listed");
            let keys = listed.objects.into_iter().map(|(key, _)| key).chain(listed.prefixes);
            let mut page: Vec<String> = keys.map(|key| String::from_utf8(key).expect("text")).collect();
            page.sort_unstable();
            assert!(page.len() <= most);
            found.append(&mut page);
            let Some(next) = listed.next else { return found };
            query = format!("{asked}&continuation-token={}", BASE64URL_NOPAD.encode(&next));
        }
    }

    #[test]
    fn pages_of_any_size_are_the_sorted_keys() {
        let (_outer, access) = served(&KEYS);
        let files: Vec<&str> = KEYS.into_iter().filter(|key| !key.ends_with('/')).collect();
        let strategy = (
            prop::sample::select(vec!["", "d", "d/", "d/e", "d/e/", "d-", "x", "d//"]),
            prop::sample::select(vec![
                "", "a", "d", "d!", "d-x/", "d-x/1", "d/", "d/e", "d/e/1", "d/e/9", "d/e0", "z",
            ]),
            any::<bool>(),
            1..6_usize,
        );
        proptest!(ProptestConfig::with_cases(200), |((prefix, after, by_directory, most) in strategy)| {
            // Whether a directory holds anything behind a key in it is not looked for: it is told of.
            let inner = after.strip_prefix(prefix).unwrap_or_default().trim_end_matches('/');
            prop_assume!(!by_directory || !inner.contains('/'));
            let mut expected = BTreeSet::new();
            for key in files.iter().filter(|key| key.starts_with(prefix) && **key > after) {
                let rest = &key[prefix.len()..];
                let end = rest.find('/').filter(|_| by_directory).map_or(key.len(), |slash| prefix.len() + slash + 1);
                // A directory that was told of stands for what is behind it, too.
                if !by_directory || &key[..end] != after {
                    expected.insert(key[..end].to_owned());
                }
            }
            let found = all(&access, prefix, after, by_directory, most);
            prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{:?}", (prefix, after, by_directory, most));
        });
    }

    #[test]
    fn what_is_asked_amiss_is_refused() {
        for (name, value) in [
            ("list-type", "3"),
            ("delimiter", "x"),
            ("max-keys", "-1"),
            ("max-keys", "many"),
            ("encoding-type", "xml"),
        ] {
            assert!(ListQuery::read(&format!("{name}={value}")).is_err(), "{name}={value}");
        }
        assert!(ListQuery::read("list-type=2&continuation-token=!").is_err());
    }
}
