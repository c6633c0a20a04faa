//! What lies beneath a directory, as names, where a server lists one directory at a time: as a page whose links lead to what
//! is in it, as those of Apache, nginx, caddy, Python's `http.server` and the like do, or by FTP.

use std::collections::{HashSet, VecDeque};

use html5gum::{Token, Tokenizer};
use percent_encoding::percent_decode_str;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::manifest::Timestamp;
use tidegate_transfer::path::{is_reserved, join};
use url::{Position, Url};

use super::http::Http;
use super::patience::Patience;
use super::s3::answer::elements;
use super::{Refusal, Why, shown};
use crate::record::{Named, Record};

/// Deepest directory beneath the one that is named.
const MAX_DEPTH: usize = 32;
/// Most directories and most files; longest page.
const MAX_DIRECTORIES: u64 = 100_000;
const MAX_FILES: u64 = 10_000_000;
pub(crate) const MAX_PAGE: u64 = 64 << 20;

/// Who tells what is in a directory.
pub(crate) trait Lists: Send {
    /// What is in the directory at `url`, which lies in `start` or is that.
    fn list(&mut self, url: &Url, start: &Url) -> Result<Vec<Link>, Refusal>;

    /// Whether a directory of which it names nothing is empty: a page without links may be no listing.
    fn tells_of_empty(&self) -> bool {
        false
    }
}

/// Whether the directory of that path is looked at.
pub(crate) type Enters = Box<dyn Fn(&[u8]) -> bool + Send>;

/// What is listed, a directory at a time. It waits for the server.
pub(crate) struct Index<L> {
    lists: L,
    enters: Enters,
    patience: Patience,
    start: Url,
    /// Directories to look at, the next one last: where, what it is called beneath the first, and how deep it is.
    left: Vec<(Url, Vec<u8>, usize)>,
    /// At most what one page names.
    ready: VecDeque<Named>,
    directories: u64,
    files: u64,
    any: bool,
}

/// Something in a directory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Where it is.
    pub url: Url,
    /// Its name, which nobody has checked.
    pub name: Vec<u8>,
    /// Whether it is a directory; then its URL ends in a slash.
    pub is_directory: bool,
    /// Why it is left out, if it is.
    pub left_out: Option<&'static str>,
    /// Its size and its time, where the listing tells them as exactly as the server does.
    pub bytes: Option<u64>,
    pub modified: Option<Timestamp>,
}

impl<L: Lists> Index<L> {
    /// Lists what lies beneath `url`, in directories that it `enters`.
    pub fn new(lists: L, url: &Url, enters: Enters, patience: Patience) -> Self {
        let mut start = url.clone();
        start.set_query(None);
        start.set_fragment(None);
        if !start.path().ends_with('/') {
            start.set_path(&format!("{}/", start.path()));
        }
        let left = vec![(start.clone(), Vec::new(), 0)];
        let (ready, any) = Default::default();
        Self { lists, enters, patience, start, left, ready, directories: 1, files: 0, any }
    }

    fn look(&mut self, url: &Url, path: &[u8], depth: usize) -> Result<()> {
        let links = self.patience.ask(|| self.lists.list(url, &self.start));
        for link in links.map_err(|refusal| refusal.error)? {
            if is_reserved(&link.name) {
                self.any = true;
                continue;
            }
            let path = match join(path, &link.name) {
                Ok(path) => path,
                Err(error) => {
                    self.ready.push_back(Named::problem(&shown(&link.url), error.within(shown(url))));
                    continue;
                }
            };
            if let Some(why) = link.left_out {
                self.any = true;
                self.ready.push_back(Named::LeftOut(path, why));
                continue;
            }
            if !link.is_directory {
                self.files += 1;
                self.bounded(self.files, MAX_FILES, "files")?;
                let Link { bytes, modified, .. } = link;
                let record = Record { bytes, modified, ..Record::new(link.url, path) };
                self.ready.push_back(Named::Record(Box::new(record)));
                continue;
            }
            if !(self.enters)(path.as_bytes()) {
                self.any = true;
                continue;
            }
            if depth >= MAX_DEPTH {
                let why = format!("{} lies deeper than {MAX_DEPTH} directories", shown(&link.url));
                let error = Error::new(ErrorKind::Usage, why);
                self.ready.push_back(Named::problem(&shown(&link.url), error));
                continue;
            }
            self.directories += 1;
            self.bounded(self.directories, MAX_DIRECTORIES, "directories")?;
            self.left.push((link.url, path.as_bytes().to_vec(), depth + 1));
        }
        Ok(())
    }

    /// Ends it all where there is too much.
    fn bounded(&mut self, count: u64, most: u64, of_what: &str) -> Result<()> {
        if count <= most {
            return Ok(());
        }
        self.left.clear();
        let why = format!(
            "{}: there are more than {most} {of_what}; name what is wanted of them",
            shown(&self.start)
        );
        Err(Error::new(ErrorKind::Usage, why))
    }
}

impl Lists for Http {
    fn list(&mut self, url: &Url, start: &Url) -> Result<Vec<Link>, Refusal> {
        let beneath = start.path();
        // The same host may ask for encryption.
        let encrypted = |next: &Url| {
            let usual = |url: &Url| url.port().is_none();
            url.scheme() == "http"
                && next.scheme() == "https"
                && usual(url)
                && usual(next)
                && next.host() == url.host()
        };
        let may = |next: &Url| {
            (next.origin() == url.origin() || encrypted(next)) && next.path().starts_with(beneath)
        };
        let listed =
            self.page(url, MAX_PAGE, may).map(|(page, bytes)| links(&page, &String::from_utf8_lossy(&bytes)));
        let is_none = match &listed {
            Ok(links) => links.is_empty() && url == start,
            Err(refusal) => {
                matches!(refusal.why, Why::Senseless | Why::Denied)
                    && refusal.error.kind != ErrorKind::Authentication
            }
        };
        // A WebDAV server need not show pages.
        let told = is_none.then(|| self.properties(url, MAX_PAGE).ok()).flatten();
        told.and_then(|xml| members(url, &xml)).map_or(listed, Ok)
    }
}

/// What a WebDAV server says is in `directory`; `None` if that makes no sense.
pub(crate) fn members(directory: &Url, xml: &str) -> Option<Vec<Link>> {
    let (mut links, mut href, mut is_directory) = (Vec::new(), String::new(), false);
    elements(xml, |path, text| match path {
        "response/href" => text.trim().clone_into(&mut href),
        "response/propstat/prop/resourcetype/collection" => is_directory = true,
        "response" => {
            let slash = if is_directory && !href.ends_with('/') { "/" } else { "" };
            let member = link(directory, &format!("{href}{slash}"));
            links.extend(member.map(|member| Link { is_directory, ..member }));
            (href, is_directory) = (String::new(), false);
        }
        _ => {}
    })?;
    Some(links)
}

/// Whether what a WebDAV server says of one place is of a directory.
pub(crate) fn is_collection(xml: &str) -> bool {
    let mut is_collection = false;
    let read = elements(xml, |path, _| {
        is_collection |= path == "response/propstat/prop/resourcetype/collection";
    });
    read.is_some() && is_collection
}

impl<L: Lists> Iterator for Index<L> {
    type Item = Named;

    fn next(&mut self) -> Option<Named> {
        loop {
            if let Some(named) = self.ready.pop_front() {
                self.any = true;
                return Some(named);
            }
            let Some((url, path, depth)) = self.left.pop() else {
                let is_empty = !std::mem::replace(&mut self.any, true) && !self.lists.tells_of_empty();
                let shown = shown(&self.start);
                let none = || Error::new(ErrorKind::NotFound, format!("{shown}: the listing names no file"));
                return is_empty.then(|| Named::problem(&shown, none()));
            };
            let begun = self.left.len();
            match self.look(&url, &path, depth) {
                // In the order of the page.
                Ok(()) => self.left[begun..].reverse(),
                Err(error) => {
                    self.left.truncate(begun);
                    self.ready.push_back(Named::problem(&shown(&url), error));
                }
            }
        }
    }
}

/// What the page at `page` links to that lies in its directory. All else is passed over: what lies above, elsewhere or
/// deeper, and links with a query, by which servers sort.
pub(crate) fn links(page: &Url, text: &str) -> Vec<Link> {
    let mut seen = HashSet::new();
    let mut links = Vec::new();
    for Ok(token) in Tokenizer::new(text) {
        let Token::StartTag(tag) = token else { continue };
        let href = tag.attributes.get(&b"href"[..]).filter(|_| **tag.name == b"a"[..]);
        let link = href.and_then(|href| link(page, std::str::from_utf8(href).ok()?.trim()));
        links.extend(link.filter(|link| seen.insert(link.url.clone())));
    }
    links
}

fn link(page: &Url, href: &str) -> Option<Link> {
    let mut url = page.join(href).ok()?;
    url.set_fragment(None);
    if href.is_empty() || url.query().is_some() || url[..Position::BeforePath] != page[..Position::BeforePath]
    {
        return None;
    }
    let directory = &page.path()[..=page.path().rfind('/')?];
    let rest = url.path().strip_prefix(directory)?;
    let segment = rest.strip_suffix('/').unwrap_or(rest);
    if segment.is_empty() || segment.contains('/') {
        return None;
    }
    let is_directory = segment.len() < rest.len();
    let name: Vec<u8> = percent_decode_str(segment).collect();
    // One name; what decodes to several is no file of this directory.
    let name = if name.contains(&b'/') { b"..".to_vec() } else { name };
    Some(Link { url, name, is_directory, left_out: None, bytes: None, modified: None })
}

#[cfg(test)]
mod tests {
    use tidegate_transfer::path::RelPath;

    use super::*;

    fn names(page: &str, text: &str) -> Vec<String> {
        let links = links(&Url::parse(page).expect(page), text);
        let shown = |link: &Link| {
            format!("{}{}", String::from_utf8_lossy(&link.name), if link.is_directory { "/" } else { "" })
        };
        links.iter().map(shown).collect()
    }

    #[test]
    fn listings_of_all_kinds_name_what_is_in_them() {
        let apache = r#"<html><body><h1>Index of /pub/d</h1><table><tr><th><img src="/icons/blank.gif"></th>
            <th><a href="?C=N;O=D">Name</a></th><th><a href="?C=M;O=A">Last modified</a></th></tr>
            <tr><td><a href="/pub/">Parent Directory</a></td></tr>
            <tr><td><a href="a%20b.txt"><img src="/icons/text.gif"></a></td><td><a href="a%20b.txt">a b.txt</a></td></tr>
            <tr><td><A HREF='sub/'>sub/</A></td></tr><tr><td><a href="x&amp;y.gz">x&amp;y.gz</a></td></tr></table>"#;
        assert_eq!(names("http://h/pub/d/", apache), ["a b.txt", "sub/", "x&y.gz"]);
        let nginx = "<html><head><title>Index of /d/</title></head>\r\n<body><h1>Index of /d/</h1><hr><pre>\
            <a href=\"../\">../</a>\r\n<a href=\"sub/\">sub/</a>   01-Jan-2024 00:00   -\r\n\
            <a href=\"%C3%A9%23.bin\">\u{e9}#.bin</a>  01-Jan-2024 00:00  9\r\n</pre><hr></body></html>";
        assert_eq!(names("https://h:8443/d/", nginx), ["sub/", "\u{e9}#.bin"]);
        let caddy = r#"<a href="/">h</a><a href="./?sort=name&amp;order=desc">Name</a><a href="..">up</a>
            <a href="./sub/"><span class="name">sub</span></a><a href="./a.txt">a.txt</a>"#;
        assert_eq!(names("http://h/d/", caddy), ["sub/", "a.txt"]);
        let python = "<ul>\n<li><a href=\"a%2Bb\">a+b</a></li>\n<li><a href=\"link\">link@</a></li>\n<li><a href=\"s/\">s/</a></li>";
        assert_eq!(names("http://h:8000/", python), ["a+b", "link", "s/"]);
    }

    #[test]
    fn members_of_a_collection_are_told_from_itself_and_what_lies_elsewhere() {
        let response = |href: &str, kind: &str| {
            format!(
                "<D:response><D:href>{href}</D:href><D:propstat><D:prop><D:resourcetype>{kind}</D:resourcetype>\
                 <D:getcontentlength>9</D:getcontentlength></D:prop></D:propstat></D:response>"
            )
        };
        let collection = "<D:collection/>";
        let xml = [
            response("/d/", collection),
            response("/d/a%20b&amp;c", ""),
            response("http://h/d/sub", collection),
            response("/d/sub/deep", ""),
            response("/other/x", ""),
            response("http://elsewhere/d/x", ""),
            response("/d/..%2Fx", ""),
        ]
        .concat();
        let xml = format!("<?xml version=\"1.0\"?><D:multistatus xmlns:D=\"DAV:\">{xml}</D:multistatus>");
        let found = members(&Url::parse("http://h/d/").expect("a URL"), &xml).expect("XML");
        let shown: Vec<_> =
            found.iter().map(|link| (String::from_utf8_lossy(&link.name), link.is_directory)).collect();
        assert_eq!(shown, [("a b&c".into(), false), ("sub".into(), true), ("..".into(), false)]);
        assert_eq!(found[1].url.as_str(), "http://h/d/sub/");
        assert_eq!(members(&Url::parse("http://h/d/").expect("a URL"), "no <xml"), None);
    }

    #[test]
    fn nothing_above_elsewhere_or_unsafe_is_a_file() {
        let text = r#"<a href="http://other/d/x"><a href="//other/d/x"><a href="https://h/d/x"><a href="http://h:81/d/x">
            <a href="/x"><a href="/d"><a href="../d/../x"><a href="%2e%2e/x"><a href="."><a href="">
            <a href="javascript:x"><a href="mailto:a@h"><a href="ftp://h/d/x"><a href="s/deep"><a href="x?y"><a href="\x">
            <a href="http://me@h/d/x"><a name="x"><link href="style.css"><!-- <a href="comment"> -->
            <a href="/d/absolute"><a href="ok#part"><a href="ok">"#;
        assert_eq!(names("http://h/d/", text), ["absolute", "ok"]);
        for name in ["a%2Fb", "%2e%2e%2fx", "..%2f..%2fx", "%00", "a%00"] {
            let found = links(&Url::parse("http://h/d/").expect("a URL"), &format!("<a href=\"{name}\">"));
            assert!(found.iter().all(|link| RelPath::new(link.name.clone()).is_err()), "{name}: {found:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_page_is_too_strange(text in "(<a href=|\"|'|%2e|%2f|\\.\\./|/|a|<|>|&amp;|[ -~]){0,60}") {
            for found in links(&Url::parse("http://h/d/").expect("a URL"), &text) {
                proptest::prop_assert!(found.url.as_str().starts_with("http://h/d/"));
            }
        }
    }

    struct Fixed(Vec<&'static str>);

    impl Lists for Fixed {
        fn list(&mut self, url: &Url, _: &Url) -> Result<Vec<Link>, Refusal> {
            Ok(self.0.iter().filter_map(|href| link(url, href)).collect())
        }
    }

    #[test]
    fn what_transfers_keep_at_a_server_is_left_out() {
        let start = Url::parse("http://h/d/").expect("a URL");
        let listed = |names: &[&'static str]| {
            let lists = Fixed(names.to_vec());
            let index = Index::new(lists, &start, Box::new(|_| true), Patience::default());
            index
                .map(|named| matches!(named, Named::Record(record) if record.path.as_bytes() == b"a"))
                .collect::<Vec<_>>()
        };
        assert_eq!(listed(&[".tidegate/", "a"]), [true]);
        assert_eq!(listed(&[".Tidegate/"]), [false; 0], "nothing else is there");
        assert_eq!(listed(&[]), [false], "it may be no listing");
    }
}
