//! WebDAV-style targets: a file is stored under a name of its own, read back and compared, and then
//! moved to its name. Where a server cannot move, it is stored under its name at once.

mod listing;

use std::collections::HashSet;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use md5::{Digest, Md5};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::path::RelPath;
use tidegate_transfer::sys::sync::Mutex;
use url::Url;

use self::listing::DavListing;
use crate::foreign::io_words;
use crate::put::target::{
    Content, Md5Sum, PieceSums, Plan, Present, Stored, StoredPart, Target, UNFINISHED, UploadConnection,
    UploadFile,
};
use crate::record::Names;
use crate::remote::http::answer::{modified, why};
use crate::remote::index::{Index, is_collection};
use crate::remote::patience::Patience;
use crate::remote::request::{HttpClient, Payload, Redirects, Reply, Requests, unanswered};
use crate::remote::s3::answer::Part;
use crate::remote::settings::ServerSettings;
use crate::remote::{Refusal, Why, shown};

/// What stays as it is in a name.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// How a request is read back at a time.
const SIP: usize = 128 << 10;

/// Most directories that are remembered as made.
const MAX_MADE: usize = 100_000;

/// A directory of a WebDAV-style server, or with a single file the file's URL.
pub struct DavTarget {
    shared: Arc<DavContext>,
}

struct DavContext {
    requests: Requests,
    base: Url,
    /// The one file's name within `base`.
    single: Option<String>,
    headers: Vec<(String, String)>,
    read_back: bool,
    moves: AtomicU8,
    redirects: AtomicU8,
    /// Directories beneath `base` that are there.
    made: Mutex<HashSet<Vec<u8>>>,
    /// Held by who makes one.
    making: Mutex<()>,
}

/// Whether the server moves files: not yet known, it does, it does not.
const UNKNOWN: u8 = 0;
const MOVES: u8 = 1;
const STAYS: u8 = 2;

/// Whether the server sends who stores a file to another one; `UNKNOWN` at first, too.
const REDIRECTS: u8 = 1;
const TAKES_ITSELF: u8 = 2;

impl DavTarget {
    /// The target at `url`: with `single` the one file's name, unless it ends in a slash. `headers` go
    /// with each request, such as `Authorization: Bearer …`; a login in the URL is sent as Basic.
    /// Without `read_back` only sizes are compared.
    pub fn new(
        settings: &ServerSettings,
        mut url: Url,
        single: bool,
        mut headers: Vec<(String, String)>,
        read_back: bool,
    ) -> Result<Self> {
        let refuse = |why: &str| Err(Error::new(ErrorKind::Usage, format!("{}: {why}", shown(&url))));
        if url.query().is_some() || url.fragment().is_some() {
            return refuse("a query cannot be written to; a '?' in a name is %3F, a '#' is %23");
        }
        let requests = Requests::new(settings);
        if let Some(login) = requests.login(&url)
            && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
        {
            headers.push(("authorization".to_owned(), login.basic()));
        }
        // From here on the URL is shown and sent without them.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let mut single_name = None;
        let path = url.path().to_owned();
        match path.rsplit_once('/') {
            Some((above, name)) if single && !name.is_empty() => {
                single_name = Some(name.to_owned());
                url.set_path(&format!("{above}/"));
            }
            Some((_, "")) => {}
            _ => url.set_path(&format!("{path}/")),
        }
        let shared = DavContext {
            requests,
            base: url,
            single: single_name,
            headers,
            read_back,
            moves: AtomicU8::new(UNKNOWN),
            redirects: AtomicU8::new(UNKNOWN),
            made: Mutex::default(),
            making: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

impl DavContext {
    /// The URL of `path`, whose bytes are percent-encoded whatever they are.
    fn url(&self, path: &[u8]) -> Url {
        let mut url = self.base.clone();
        let names: Vec<String> =
            path.split(|&b| b == b'/').map(|name| percent_encode(name, KEPT).to_string()).collect();
        let path = match &self.single {
            Some(name) => name.clone(),
            None => names.join("/"),
        };
        url.set_path(&format!("{}{path}", self.base.path()));
        url
    }

    /// The name that the file at `url` has until it is whole: the same for each run, so that nothing
    /// piles up, and short whatever the name is.
    fn unfinished(&self, url: &Url) -> Url {
        let (above, name) = url.path().rsplit_once('/').unwrap_or_default();
        let hash = data_encoding::HEXLOWER.encode(&blake3::hash(name.as_bytes()).as_bytes()[..10]);
        let mut unfinished = url.clone();
        unfinished.set_path(&format!("{above}/{UNFINISHED}{hash}"));
        unfinished
    }
}

impl Target for DavTarget {
    fn connection(&self) -> Result<Box<dyn UploadConnection>> {
        let client = self.shared.requests.client(&self.shared.base)?;
        let redirects = self.shared.requests.redirects();
        Ok(Box::new(DavConnection { client, redirects, shared: Arc::clone(&self.shared) }))
    }

    fn server(&self) -> Result<Url> {
        Ok(self.shared.base.clone())
    }

    fn plan(&self, path: &RelPath, size: u64) -> Result<(RelPath, Plan)> {
        Ok((path.clone(), Plan::whole(size)))
    }

    fn takes_streams(&self) -> bool {
        true
    }

    fn names(&self, patience: Patience) -> Result<Names> {
        let lists = DavListing::new(&self.shared)?;
        Ok(Box::new(Index::new(lists, &self.shared.base, Box::new(|_| true), patience)))
    }

    fn shown(&self, path: &RelPath) -> String {
        shown(&self.shared.url(path.as_bytes()))
    }

    fn identity(&self) -> Vec<u8> {
        format!("{} {:?}", self.shared.base, self.shared.single).into_bytes()
    }
}

struct DavConnection {
    client: HttpClient,
    redirects: Redirects,
    shared: Arc<DavContext>,
}

impl DavConnection {
    /// One request; the answer whatever its status.
    fn ask(
        &self,
        method: &str,
        url: &Url,
        more: &[(String, String)],
        payload: Payload<'_>,
    ) -> Result<Reply, Refusal> {
        let headers = [&self.shared.headers[..], more].concat();
        send(&self.client, method, url, &headers, payload)
    }

    /// One request to `at`, where the server of `url` has led by way of `been`.
    fn ask_there(
        &mut self,
        method: &str,
        url: &Url,
        (at, been): (&Url, &[Url]),
        more: &[(String, String)],
        payload: Payload<'_>,
    ) -> Result<Reply, Refusal> {
        let (client, headers) = self.redirects.client(url, (at, been), &self.shared.headers)?;
        send(&client, method, at, &[&headers[..], more].concat(), payload)
    }

    /// A request for what is at `url`, wherever the server has it; the answer whatever its status.
    fn find(&mut self, method: &str, url: &Url) -> Result<Reply, Refusal> {
        let mut reply = self.ask(method, url, &[], Payload::None)?;
        let (mut at, mut been) = (url.clone(), vec![url.clone()]);
        while matches!(reply.status, 301 | 302 | 303 | 307 | 308) {
            let next = self.redirects.next(&at, &been, &reply.headers);
            reply.finish();
            at = next?;
            reply = self.ask_there(method, url, (&at, &been), &[], Payload::None)?;
            been.push(at.clone());
        }
        Ok(reply)
    }

    /// Where the content of `place` is to be sent. Servers in front of a pool say that when they are asked to store
    /// nothing: what they say to a body comes when some of it is gone.
    fn destination(&self, place: &Url) -> Result<Option<Url>, Refusal> {
        let known = self.shared.redirects.load(Relaxed);
        if known == TAKES_ITSELF {
            return Ok(None);
        }
        let reply = self.ask("PUT", place, &[], Payload::None)?;
        let next = match reply.status {
            307 | 308 => Some(self.redirects.next(place, std::slice::from_ref(place), &reply.headers)),
            _ => None,
        };
        let is_stored = reply.is_ok();
        reply.finish();
        if is_stored {
            // Nothing is left there if its content is refused.
            self.discard(place);
        }
        if known == UNKNOWN {
            self.shared.redirects.store(if next.is_some() { REDIRECTS } else { TAKES_ITSELF }, Relaxed);
        }
        next.transpose()
    }

    /// The refusal in an answer.
    fn refused(&self, method: &str, url: &Url, reply: Reply) -> Refusal {
        let status = reply.status;
        let (mut why, wait) = (why(status, &reply.headers), reply.retry_after());
        let kind = match (status, why) {
            (401, _) => Some(ErrorKind::Authentication),
            (507 | 413, _) => {
                why = Why::Denied;
                Some(ErrorKind::NoSpace)
            }
            _ => None,
        };
        let to = reply.header("location").and_then(|to| url.join(to).ok()).map(|to| shown(&to));
        let redirected = to.map(|to| format!("; it redirects to {to}: put files there")).unwrap_or_default();
        reply.finish();
        let advice = match status {
            300..=399 => redirected.as_str(),
            401 => "; a name and password go into ~/.netrc or the URL, a token into --header",
            404 | 409 => "; the directory above it is not there and cannot be made",
            405 | 501 => "; the server does not take files this way (WebDAV or plain PUT is needed)",
            413 => "; the server does not take files of this size",
            _ => "",
        };
        let text = format!("cannot {method} {}: the server says {status}{advice}", shown(url));
        let mut refusal = Refusal::new(why, text).after(wait);
        if let Some(kind) = kind {
            refusal.error.kind = kind;
        }
        refusal
    }

    /// Makes the directories above `path`, each once, whatever the server says of those that are there.
    fn make_above(&self, path: &[u8]) -> Result<(), Refusal> {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in std::iter::once(0).chain(slashes) {
            let directory = &path[..end];
            if self.shared.single.is_some() && end > 0 {
                return Ok(());
            }
            if self.shared.made.lock().contains(directory) {
                continue;
            }
            // Servers that lock what is being made refuse who makes it as well.
            let _alone = self.shared.making.lock();
            if self.shared.made.lock().contains(directory) {
                continue;
            }
            let mut url = if end == 0 { self.shared.base.clone() } else { self.shared.url(directory) };
            if end > 0 {
                url.set_path(&format!("{}/", url.path()));
            }
            self.make(&url)?;
            let mut made = self.shared.made.lock();
            if made.len() < MAX_MADE {
                made.insert(directory.to_vec());
            }
        }
        Ok(())
    }

    /// Makes the directory at `url`, and first those that it lies in where the server has them not.
    fn make(&self, url: &Url) -> Result<(), Refusal> {
        let mut reply = self.ask("MKCOL", url, &[], Payload::None)?;
        if let (404 | 409, Some(above)) = (reply.status, above(url)) {
            reply.finish();
            self.make(&above)?;
            reply = self.ask("MKCOL", url, &[], Payload::None)?;
        }
        match reply.status {
            // Made, there already (405, or a redirect to it), or made by itself where it is needed.
            200..400 | 403 | 405 | 409 | 501 => {
                reply.finish();
                Ok(())
            }
            _ => Err(self.refused("MKCOL", url, reply)),
        }
    }

    fn head(&mut self, url: &Url) -> Result<Option<Present>, Refusal> {
        let reply = self.find("HEAD", url)?;
        match reply.status {
            200 => {}
            404 | 409 | 410 => {
                reply.finish();
                return Ok(None);
            }
            _ => return Err(self.refused("HEAD", url, reply)),
        }
        let tag = reply.tag().or_else(|| reply.header("last-modified").map(str::to_owned));
        let bytes = reply.header("content-length").and_then(|length| length.parse().ok());
        let modified = modified(&reply.headers);
        reply.finish();
        Ok(Some(Present { bytes, tag: tag.unwrap_or_default(), modified, ..Present::default() }))
    }

    /// The MD5 of what the server has at `url`, read no further than it should go.
    fn sum(&mut self, url: &Url, size: u64) -> Result<(u64, Md5Sum), Refusal> {
        let reply = self.find("GET", url)?;
        if reply.status != 200 {
            return Err(self.refused("GET", url, reply));
        }
        let mut body = reply.into_reader().take(size.saturating_add(1));
        let (mut sum, mut count, mut buffer) = (Md5::new(), 0, vec![0; SIP]);
        loop {
            match body.read(&mut buffer) {
                Ok(0) => return Ok((count, sum.finalize().into())),
                Ok(length) => {
                    sum.update(&buffer[..length]);
                    count += length as u64;
                }
                Err(error) => {
                    let what = format!("cannot read {} back: {}", shown(url), io_words(&error));
                    return Err(Refusal::new(Why::Broken, what));
                }
            }
        }
    }

    /// Compares what is at `url` with what was sent.
    fn confirm(&mut self, url: &Url, size: u64, md5: Md5Sum) -> Result<(), Refusal> {
        let hex = |sum: Md5Sum| data_encoding::HEXLOWER.encode(&sum);
        let what = if self.shared.read_back {
            match self.sum(url, size)? {
                (count, sum) if (count, sum) == (size, md5) => return Ok(()),
                (count, _) if count != size => format!("{size} bytes were sent, the server has others"),
                (_, sum) => format!("read back, its MD5 is {}, {} was sent", hex(sum), hex(md5)),
            }
        } else {
            match self.head(url)?.and_then(|present| present.bytes) {
                Some(bytes) if bytes != size => format!("{size} bytes were sent, the server has {bytes}"),
                _ => return Ok(()),
            }
        };
        let error = Error::new(ErrorKind::Corrupt, format!("{}: {what}", shown(url)));
        Err(Refusal::of(Why::Broken, error))
    }

    /// Removes an unfinished file as well as may be.
    fn discard(&self, url: &Url) {
        match self.ask("DELETE", url, &[], Payload::None) {
            Ok(reply) => reply.finish(),
            Err(refusal) => tracing::debug!("{}", refusal.error),
        }
    }

    /// Gives the file at `from` its name; `false` if the server moves nothing. A directory that bears the name stays: to
    /// replace it servers remove it first, with all that lies in it.
    fn rename(&self, from: &Url, to: &Url) -> Result<bool, Refusal> {
        let mut reply = self.move_to(from, to, "F")?;
        if reply.status == 412 {
            reply.finish();
            let refused = |why: &str| {
                let error = Error::new(ErrorKind::UnsafeName, format!("{}: {why}", shown(to)));
                Err(Refusal::of(Why::Senseless, error))
            };
            match self.what_is_at(to)? {
                There::Directory => return refused("a directory bears this name there, and stays"),
                There::Nothing => {
                    return refused("the server takes this name for another, which something bears");
                }
                There::Other => reply = self.move_to(from, to, "T")?,
            }
        }
        match reply.status {
            200..300 => {
                reply.finish();
                self.shared.moves.store(MOVES, Relaxed);
                Ok(true)
            }
            400 | 405 | 501 if self.shared.moves.load(Relaxed) != MOVES => {
                reply.finish();
                self.shared.moves.store(STAYS, Relaxed);
                Ok(false)
            }
            _ => Err(self.refused("MOVE", from, reply)),
        }
    }

    fn move_to(&self, from: &Url, to: &Url, overwrite: &str) -> Result<Reply, Refusal> {
        let headers =
            [("destination".to_owned(), to.to_string()), ("overwrite".to_owned(), overwrite.to_owned())];
        self.ask("MOVE", from, &headers, Payload::None)
    }

    /// What lies at `url`, as far as its server tells.
    fn what_is_at(&self, url: &Url) -> Result<There, Refusal> {
        let mut reply = listing::kinds(&self.client, &self.shared, url, "0")?;
        if reply.status == 207 {
            return Ok(match is_collection(&listing::text(reply, url)?) {
                true => There::Directory,
                false => There::Other,
            });
        }
        if listing::knows_no_webdav(reply.status) {
            reply.finish();
            reply = self.ask("HEAD", url, &[], Payload::None)?;
        }
        let there = match reply.status {
            // Servers lead from a directory's name to its path, which ends in a slash.
            300..400 => {
                let to = reply.header("location").and_then(|to| url.join(to).ok());
                match to.is_some_and(|to| to.path() == format!("{}/", url.path())) {
                    true => There::Directory,
                    false => There::Other,
                }
            }
            404 | 410 => There::Nothing,
            status if status >= 500 => return Err(self.refused("PROPFIND", url, reply)),
            _ => There::Other,
        };
        reply.finish();
        Ok(there)
    }
}

/// What bears a name.
enum There {
    Nothing,
    Directory,
    /// A file, or what the server does not tell of.
    Other,
}

impl UploadConnection for DavConnection {
    fn survey(&mut self) -> Result<bool, Refusal> {
        let reply = self.ask("HEAD", &self.shared.base, &[], Payload::None)?;
        match reply.status {
            404 | 410 => {
                reply.finish();
                Ok(false)
            }
            401 => Err(self.refused("HEAD", &self.shared.base, reply)),
            status if status >= 500 => Err(self.refused("HEAD", &self.shared.base, reply)),
            _ => {
                reply.finish();
                Ok(true)
            }
        }
    }

    fn look(&mut self, file: &UploadFile) -> Result<Option<Present>, Refusal> {
        self.head(&self.shared.url(file.path.as_bytes()))
    }

    fn put(&mut self, file: &UploadFile, body: &mut dyn Content) -> Result<Stored, Refusal> {
        let url = self.shared.url(file.path.as_bytes());
        self.make_above(file.path.as_bytes())?;
        // Some servers take a destination apart after decoding it, and lose these or what follows them.
        let fragile = file.path.as_bytes().iter().any(|byte| matches!(byte, b'?' | b'#' | b';' | ..b' '));
        let stays = fragile || self.shared.moves.load(Relaxed) == STAYS;
        let place = if stays { url.clone() } else { self.shared.unfinished(&url) };
        let length = body.length();
        let headers = [("content-type".to_owned(), "application/octet-stream".to_owned())];
        // Under its own name nothing is stored that it is not.
        let there = if stays { None } else { self.destination(&place)? };
        {
            let payload = if length == 0 { Payload::None } else { Payload::Reader(&mut *body, length) };
            let reply = match &there {
                Some(there) => {
                    let been = std::slice::from_ref(&place);
                    self.ask_there("PUT", &place, (there, been), &headers, payload)?
                }
                None => self.ask("PUT", &place, &headers, payload)?,
            };
            if !reply.is_ok() {
                if matches!(reply.status, 307 | 308) {
                    self.shared.redirects.store(REDIRECTS, Relaxed);
                }
                return Err(self.refused("PUT", there.as_ref().unwrap_or(&place), reply));
            }
            reply.finish();
        }
        // The end of a stream, where its MD5 stands, comes behind its last byte.
        let _ = body.read(&mut [0]);
        let Some(PieceSums { md5, .. }) = body.sums() else {
            self.discard(&place);
            return Err(Refusal::new(Why::Broken, format!("{}: it was cut off", shown(&url))));
        };
        let finished = self.confirm(&place, file.size, md5).and_then(|()| match stays {
            true => Ok(true),
            false => self.rename(&place, &url),
        });
        match finished {
            Ok(true) => {}
            Ok(false) => {
                self.discard(&place);
                let what = format!("{}: the server moves no files; it is stored under its name", shown(&url));
                return Err(Refusal::new(Why::Broken, what));
            }
            Err(refusal) => {
                self.discard(&place);
                return Err(refusal);
            }
        }
        match self.head(&url)? {
            Some(present) if present.bytes.is_none_or(|bytes| bytes == file.size) => {
                Ok(Stored { tag: present.tag, verified: self.shared.read_back })
            }
            _ => {
                let what = format!("{}: the server took it, and has it not under its name", shown(&url));
                let error = Error::new(ErrorKind::Corrupt, what);
                Err(Refusal::of(Why::Senseless, error))
            }
        }
    }

    fn begin(&mut self, file: &UploadFile) -> Result<(String, Vec<Part>), Refusal> {
        Err(no_parts(file))
    }

    fn put_part(
        &mut self,
        file: &UploadFile,
        _: &str,
        _: u32,
        _: &mut dyn Content,
    ) -> Result<StoredPart, Refusal> {
        Err(no_parts(file))
    }

    fn complete(&mut self, file: &UploadFile, _: &str, _: &[(String, PieceSums)]) -> Result<Stored, Refusal> {
        Err(no_parts(file))
    }

    fn abort(&mut self, file: &UploadFile, _: &str) -> Result<(), Refusal> {
        Err(no_parts(file))
    }

    fn proves(&mut self, file: &UploadFile, md5: Md5Sum) -> Result<bool, Refusal> {
        let url = self.shared.url(file.path.as_bytes());
        Ok(self.sum(&url, file.size)? == (file.size, md5))
    }

    fn remove(&mut self, path: &RelPath) -> Result<bool, Refusal> {
        let url = self.shared.url(path.as_bytes());
        // With a directory would go all that is in it.
        match self.what_is_at(&url)? {
            There::Directory => return Ok(false),
            There::Nothing => return Ok(true),
            There::Other => {}
        }
        let reply = self.ask("DELETE", &url, &[], Payload::None)?;
        match reply.status {
            200..300 | 404 | 410 => {
                reply.finish();
                Ok(true)
            }
            _ => Err(self.refused("DELETE", &url, reply)),
        }
    }
}

fn send(
    client: &HttpClient,
    method: &str,
    url: &Url,
    headers: &[(String, String)],
    payload: Payload<'_>,
) -> Result<Reply, Refusal> {
    let what = format!("cannot {method} {}", shown(url));
    client.send(method, url, headers, payload).map_err(|error| unanswered(&what, url, &error))
}

/// The directory that the one at `url` lies in; `None` of the root.
fn above(url: &Url) -> Option<Url> {
    let (path, _) = url.path().strip_suffix('/')?.rsplit_once('/')?;
    let mut above = url.clone();
    above.set_path(&format!("{path}/"));
    Some(above)
}

/// WebDAV knows no parts, and no file is planned to have any.
fn no_parts(file: &UploadFile) -> Refusal {
    Refusal::new(Why::Senseless, format!("{}: WebDAV takes files whole", file.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str, single: bool) -> DavTarget {
        let url = Url::parse(url).expect("a URL");
        DavTarget::new(&ServerSettings::default(), url, single, Vec::new(), true).expect("a target")
    }

    #[test]
    fn names_become_urls_and_secrets_stay_out_of_them() {
        let place = |target: &DavTarget, path: &[u8]| target.shown(&RelPath::new(path).expect("a path"));
        let directory = target("https://me:secret@host/in", false);
        assert_eq!(place(&directory, b"a b/100%#?.txt"), "https://host/in/a%20b/100%25%23%3F.txt");
        assert_eq!(place(&directory, b"\xff"), "https://host/in/%FF");
        assert!(!String::from_utf8_lossy(&directory.identity()).contains("secret"));
        assert!(directory.shared.headers[0].1.starts_with("Basic "));
        assert_eq!(place(&target("http://host/in/x.bin", true), b"y"), "http://host/in/x.bin");
        assert_eq!(place(&target("http://host/in/", true), b"y"), "http://host/in/y");
        let unfinished = directory.shared.unfinished(&directory.shared.url(&[b'n'; 255]));
        assert!(unfinished.path().rsplit('/').next().is_some_and(|name| name.len() < 64), "{unfinished}");
        let query = Url::parse("http://host/in/?x").expect("a URL");
        assert!(DavTarget::new(&ServerSettings::default(), query, false, Vec::new(), true).is_err());
    }
}
