//! Addresses of a job: how they are shown without their secrets, and what program can move between two.

use std::borrow::Cow;

use tidegate_fetch::archive::Accession;

/// What moves data from one address to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// `tidegate copy`: files of this host and of endpoints.
    Copy,
    /// `tidegate get`: others' servers, and what archives have under accessions, to this host.
    Get,
    /// `tidegate put`: this host to a store.
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

/// The accession of a sequence archive that an address is. A file of that name is written `./SRR7706354`.
pub fn accession(address: &str) -> Option<Accession> {
    address.parse().ok()
}

impl Route {
    /// The route from `source` to `destination`, or why there is none.
    ///
    /// ```
    /// use tidegate_service::address::Route;
    ///
    /// assert_eq!(Route::between("https://host/a.gz", "/data/"), Ok(Route::Get));
    /// assert_eq!(Route::between("SRR390728", "/data/"), Ok(Route::Get));
    /// assert!(Route::between("https://host/a.gz", "tg://dtn/in/").is_err());
    /// ```
    pub fn between(source: &str, destination: &str) -> Result<Self, String> {
        let (from, to) = (scheme(source), scheme(destination));
        let of = |address: &str, scheme: &Option<String>| match scheme.as_deref() {
            None if accession(address).is_some() => Some(End::Archive),
            None | Some("file") => Some(End::Local),
            Some("tg") => Some(End::Endpoint),
            Some("gsiftp") => Some(End::GridFtp),
            Some("http" | "https") => Some(End::Web),
            Some("s3") => Some(End::Store),
            Some("gs") => Some(End::Bucket),
            Some("ftp" | "ftps") => Some(End::Ftp),
            Some(_) => None,
        };
        let unknown = |scheme: &Option<String>| {
            format!(
                "{}:// is not known; there are paths, file, tg, http, https, ftp, ftps, s3, gs and gsiftp",
                scheme.as_deref().unwrap_or_default()
            )
        };
        let a = of(source, &from).ok_or_else(|| unknown(&from))?;
        let b = of(destination, &to).ok_or_else(|| unknown(&to))?;
        match (a, b) {
            (End::Local | End::Endpoint, End::Local | End::Endpoint) => Ok(Self::Copy),
            (End::Web | End::Store | End::Bucket | End::Ftp | End::Archive, End::Local) => Ok(Self::Get),
            (End::Local, End::Web | End::Store) => Ok(Self::Put),
            (End::GridFtp, End::GridFtp | End::Local | End::Ftp)
            | (End::Local | End::Ftp, End::GridFtp | End::Ftp) => Ok(Self::GridFtp),
            _ => Err(format!(
                "nothing moves data from {} to {}: name a local directory between, in two jobs",
                shown(a, from.as_deref()),
                shown(b, to.as_deref())
            )),
        }
    }
}

fn shown(end: End, scheme: Option<&str>) -> String {
    match (end, scheme) {
        (_, Some(scheme)) => format!("{scheme}://"),
        (End::Archive, None) => "an accession".to_owned(),
        (_, None) => "a path".to_owned(),
    }
}

#[derive(Clone, Copy)]
enum End {
    Local,
    Endpoint,
    GridFtp,
    Web,
    Store,
    Bucket,
    Ftp,
    Archive,
}

/// The path of `file://host/path`, or the address itself.
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

#[cfg(test)]
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
            ("https://h/a", "tg://h/b", None),
            ("/a", "ftp://h/b", Some(Route::GridFtp)),
            ("ftp://g/a", "ftp://h/b", Some(Route::GridFtp)),
            ("tg://g/a", "ftp://h/b", None),
            ("gopher://h/a", "/b", None),
            ("SRR390728", "/b/", Some(Route::Get)),
            ("prjna480016", "file:///b", Some(Route::Get)),
            ("./SRR390728", "/b/", Some(Route::Copy)),
            ("/a/SRR390728", "tg://h/b", Some(Route::Copy)),
            ("SRR390728", "s3://b/c", None),
        ] {
            assert_eq!(Route::between(from, to).ok(), route, "{from} {to}");
        }
        let between = Route::between("SRR390728", "tg://h/b");
        assert!(between.is_err_and(|why| why.starts_with("nothing moves data from an accession to tg://")));
    }

    #[test]
    fn a_file_url_is_a_path() {
        assert_eq!(local("file:///data/a%20b/"), "/data/a b/");
        assert_eq!(local("/data/x"), "/data/x");
    }
}
