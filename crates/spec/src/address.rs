//! What an address is of, and what moves data between two: of the command line, of jobs, of Python and of HTCondor alike.

#[cfg(feature = "servers")]
use std::borrow::Cow;

#[cfg(feature = "servers")]
use tidegate_fetch::archive::Accession;

/// What an address is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A path, or a remembered endpoint with one.
    Local,
    /// An endpoint of ours.
    Endpoint,
    /// A host that ssh reaches.
    Ssh,
    /// A GridFTP server.
    GridFtp,
    /// A web server.
    Web,
    /// A store that speaks S3.
    Store,
    /// A bucket of Google's storage.
    Bucket,
    /// An FTP server.
    Ftp,
    /// A server of SFTP, which ssh reaches.
    Sftp,
    /// A sequence archive.
    Archive,
}

/// The schemes of addresses.
const SCHEMES: [(&str, End); 11] = [
    ("file", End::Local),
    ("tg", End::Endpoint),
    ("ssh", End::Ssh),
    ("http", End::Web),
    ("https", End::Web),
    ("ftp", End::Ftp),
    ("ftps", End::Ftp),
    ("sftp", End::Sftp),
    ("s3", End::Store),
    ("gs", End::Bucket),
    ("gsiftp", End::GridFtp),
];

/// What moves data from one address to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// `tidegate copy`: files of this host and of endpoints, and others' servers to an endpoint.
    Copy,
    /// `tidegate get`: others' servers, and what archives have under accessions, to this host.
    Get,
    /// `tidegate put`: this host, endpoints and others' servers to a store.
    Put,
    /// `globus-url-copy`: GridFTP servers, and to FTP servers.
    GridFtp,
}

/// The scheme of an address in lower case; `None` for a path.
pub fn scheme(address: &str) -> Option<String> {
    let (scheme, _) = address.split_once("://")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    (!scheme.is_empty() && scheme.len() <= 16 && scheme.chars().all(plain))
        .then(|| scheme.to_ascii_lowercase())
}

/// Whether an address is an accession.
#[cfg(feature = "servers")]
fn is_accession(address: &str) -> bool {
    accession(address).is_some()
}

/// Nothing is got from archives.
#[cfg(not(feature = "servers"))]
const fn is_accession(_: &str) -> bool {
    false
}

/// The accession of a sequence archive that an address is. A file of that name is written `./SRR7706354`.
#[cfg(feature = "servers")]
pub fn accession(address: &str) -> Option<Accession> {
    address.parse().ok()
}

impl End {
    /// What `scheme`, in lower case, is of.
    pub fn of_scheme(scheme: &str) -> Option<Self> {
        SCHEMES.iter().find(|(known, _)| *known == scheme).map(|(_, end)| *end)
    }

    /// What `address` is of; an accession is one only if it stands alone.
    ///
    /// # Errors
    /// Its scheme is not known.
    pub fn of(address: &str) -> Result<Self, String> {
        match scheme(address) {
            None if is_accession(address) => Ok(Self::Archive),
            None => Ok(Self::Local),
            Some(scheme) => Self::of_scheme(&scheme).ok_or_else(|| unknown(&scheme)),
        }
    }

    /// The schemes of ends that `is_wanted` takes.
    pub fn schemes(is_wanted: impl Fn(Self) -> bool) -> impl Iterator<Item = &'static str> {
        SCHEMES.into_iter().filter(move |(_, end)| is_wanted(*end)).map(|(scheme, _)| scheme)
    }

    /// Whether it is a server of others, of which files are got.
    pub const fn is_server(self) -> bool {
        matches!(self, Self::Web | Self::Store | Self::Bucket | Self::Ftp | Self::Sftp)
    }

    /// Whether `address` is of such a server.
    pub fn is_of_server(address: &str) -> bool {
        scheme(address).and_then(|scheme| Self::of_scheme(&scheme)).is_some_and(Self::is_server)
    }
}

/// That a scheme is none of those that a job may have.
fn unknown(scheme: &str) -> String {
    let mut known: Vec<&str> = End::schemes(|end| !matches!(end, End::Ssh | End::Sftp)).collect();
    let last = known.pop().unwrap_or_default();
    format!("{scheme}:// is not known; there are paths, {} and {last}", known.join(", "))
}

impl Route {
    /// What moves data from one end to another, if anything does.
    pub const fn of(from: End, to: End) -> Option<Self> {
        match (from, to) {
            (End::Local | End::Endpoint | End::Ssh, End::Local | End::Endpoint | End::Ssh)
            | (End::Web | End::Store | End::Bucket | End::Ftp | End::Sftp, End::Endpoint | End::Ssh) => {
                Some(Self::Copy)
            }
            (End::Web | End::Store | End::Bucket | End::Ftp | End::Sftp | End::Archive, End::Local) => {
                Some(Self::Get)
            }
            (
                End::Local
                | End::Endpoint
                | End::Ssh
                | End::Web
                | End::Store
                | End::Bucket
                | End::Ftp
                | End::Sftp,
                End::Web | End::Store | End::Sftp,
            ) => Some(Self::Put),
            (End::GridFtp, End::GridFtp | End::Local | End::Ftp)
            | (End::Local | End::Ftp, End::GridFtp | End::Ftp) => Some(Self::GridFtp),
            _ => None,
        }
    }

    /// The route from `source` to `destination`, or why there is none.
    ///
    /// ```
    /// use tidegate_spec::address::Route;
    ///
    /// assert_eq!(Route::between("https://host/a.gz", "/data/"), Ok(Route::Get));
    /// assert_eq!(Route::between("SRR390728", "/data/"), Ok(Route::Get));
    /// assert_eq!(Route::between("https://host/a.gz", "tg://dtn/in/"), Ok(Route::Copy));
    /// assert_eq!(Route::between("https://host/a.gz", "s3://bucket/in/"), Ok(Route::Put));
    /// assert!(Route::between("https://host/a.gz", "gs://bucket/in/").is_err());
    /// ```
    pub fn between(source: &str, destination: &str) -> Result<Self, String> {
        let (from, to) = (End::of(source)?, End::of(destination)?);
        Self::of(from, to).ok_or_else(|| {
            format!(
                "nothing moves data from {} to {}: name a local directory between, in two jobs",
                shown(from, source),
                shown(to, destination)
            )
        })
    }

    /// The same for a job: a service has nobody to log in over ssh.
    pub fn of_job(source: &str, destination: &str) -> Result<Self, String> {
        let by_ssh = |address: &&str| scheme(address).filter(|scheme| matches!(&**scheme, "ssh" | "sftp"));
        match [source, destination].iter().find_map(by_ssh) {
            Some(scheme) => Err(unknown(&scheme)),
            None => Self::between(source, destination),
        }
    }
}

fn shown(end: End, address: &str) -> String {
    match scheme(address) {
        Some(scheme) => format!("{scheme}://"),
        None if end == End::Archive => "an accession".to_owned(),
        None => "a path".to_owned(),
    }
}

/// The path of `file://host/path`, or the address itself.
#[cfg(feature = "servers")]
pub fn local(address: &str) -> Cow<'_, str> {
    if scheme(address).as_deref() != Some("file") {
        return Cow::Borrowed(address);
    }
    let path = url::Url::parse(address).ok().and_then(|url| url.to_file_path().ok());
    let mut path = path.and_then(|path| path.into_os_string().into_string().ok());
    if let Some(path) = &mut path
        && address.ends_with('/')
        && !path.ends_with('/')
    {
        path.push('/');
    }
    path.map_or(Cow::Borrowed(address), Cow::Owned)
}

#[cfg(all(test, feature = "servers"))]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_chosen_by_both_ends() {
        for (from, to, route) in [
            ("/a", "/b", Some(Route::Copy)),
            ("/a", "tg://h/b", Some(Route::Copy)),
            ("tg://g/a", "TG://h/b", Some(Route::Copy)),
            ("file:///a", "s3://b/c", Some(Route::Put)),
            ("https://h/a", "/b", Some(Route::Get)),
            ("s3://b/a", "file:///b", Some(Route::Get)),
            ("gsiftp://g/a", "gsiftp://h/b", Some(Route::GridFtp)),
            ("/a", "gsiftp://h/b", Some(Route::GridFtp)),
            ("https://h/a", "tg://h/b", Some(Route::Copy)),
            ("S3://b/c/", "ssh://h/b", Some(Route::Copy)),
            ("https://h/a", "s3://b/c", Some(Route::Put)),
            ("s3://b/a", "S3://c/d", Some(Route::Put)),
            ("ftp://h/a", "https://h/b/", Some(Route::Put)),
            ("tg://h/a", "s3://b/c", Some(Route::Put)),
            ("s3://b/a", "gs://b/c", None),
            ("/a", "ftp://h/b", Some(Route::GridFtp)),
            ("ftp://g/a", "ftp://h/b", Some(Route::GridFtp)),
            ("tg://g/a", "ftp://h/b", None),
            ("gopher://h/a", "/b", None),
            ("SRR390728", "/b/", Some(Route::Get)),
            ("prjna480016", "file:///b", Some(Route::Get)),
            ("./SRR390728", "/b/", Some(Route::Copy)),
            ("/a/SRR390728", "tg://h/b", Some(Route::Copy)),
            ("SRR390728", "s3://b/c", None),
            ("ssh://h/a", "/b", Some(Route::Copy)),
            ("gs://b/a", "/b", Some(Route::Get)),
            ("/a", "gs://b/a", None),
            ("/a", "sftp://h/b", Some(Route::Put)),
            ("sftp://h/b", "/a", Some(Route::Get)),
            ("sftp://h/b", "tg://h/a", Some(Route::Copy)),
            ("sftp://h/b", "s3://b/a", Some(Route::Put)),
            ("tg://h/b", "sftp://h/a", Some(Route::Put)),
            ("sftp://h/b", "gs://b/a", None),
        ] {
            assert_eq!(Route::between(from, to).ok(), route, "{from} {to}");
        }
        let of_job = Route::of_job("/a", "SSH://h/b");
        assert!(
            of_job
                .is_err_and(|why| why.starts_with("ssh:// is not known; there are paths, file, tg, http, "))
        );
        let between = Route::between("SRR390728", "tg://h/b");
        assert!(between.is_err_and(|why| why.starts_with("nothing moves data from an accession to tg://")));
    }

    #[test]
    fn what_is_got_of_servers_is_what_there_is_to_get_it_by() {
        let mut known: Vec<&str> = tidegate_fetch::list::SCHEMES.into();
        let mut ours: Vec<&str> = End::schemes(End::is_server).chain(["file"]).collect();
        known.sort_unstable();
        ours.sort_unstable();
        assert_eq!(ours, known);
        assert!(End::is_of_server("S3://b/x") && !End::is_of_server("/s3") && !End::is_of_server("tg://h/x"));
    }

    #[test]
    fn a_file_url_is_a_path() {
        assert_eq!(local("file:///data/a%20b/"), "/data/a b/");
        assert_eq!(local("/data/x"), "/data/x");
    }
}
