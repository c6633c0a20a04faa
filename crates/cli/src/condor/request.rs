//! What HTCondor wants moved: an ad for each URL and local file.

use std::path::PathBuf;

use tidegate_service::classad::{ClassAd, SyntaxError, Value};

/// One file, or directory, to be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where it is got from, or put to.
    pub url: String,
    /// Where it is to be here, or is, as HTCondor has written it.
    pub name: String,
}

impl Request {
    /// Whether the URL is that of a directory: it ends in a slash, as for rsync.
    pub fn is_directory(&self) -> bool {
        self.url.ends_with('/')
    }

    /// The scheme of its URL, in lower case.
    pub fn scheme(&self) -> String {
        self.url.split_once("://").map_or_else(String::new, |(scheme, _)| scheme.to_ascii_lowercase())
    }

    /// The host of its URL, with a port if there is one, and without who asks; for `s3` and `gs` the bucket.
    pub fn server(&self) -> &str {
        let rest = self.url.split_once("://").map_or(&*self.url, |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        authority.rsplit_once('@').map_or(authority, |(_, host)| host)
    }

    /// What contains the file, and its name there, as the URL has them.
    pub fn parent_and_name(&self) -> Option<(&str, &str)> {
        let from = self.url.find("://")? + 3;
        let slash = self.url[from..].rfind('/')? + from;
        Some((&self.url[..=slash], &self.url[slash + 1..])).filter(|(_, name)| !name.is_empty())
    }

    /// The local file, whatever directory we are in.
    pub fn path(&self) -> PathBuf {
        std::path::absolute(&self.name).unwrap_or_else(|_| PathBuf::from(&self.name))
    }
}

/// Reads all requests. An ad that names neither of the two says something of others, and none of what is said today is
/// for us; what else an ad says of a file is ignored.
///
/// # Errors
/// The text is no series of ads, or an ad names one without the other.
pub fn read(text: &str) -> Result<Vec<Request>, SyntaxError> {
    let mut requests = Vec::new();
    for (at, ad) in ClassAd::parse_all(text)?.iter().enumerate() {
        let wrong = |line: usize, why: &str| SyntaxError {
            line,
            column: 1,
            message: format!("ad {}: {why}", at + 1),
        };
        let named = |name: &str| match ad.attribute(name) {
            None => Ok(None),
            Some(attribute) => match &attribute.value {
                Value::Text(text) if text.is_empty() => {
                    Err(wrong(attribute.line, &format!("{name} is empty")))
                }
                Value::Text(text) => Ok(Some(text.clone())),
                Value::Expression(_) => {
                    Err(wrong(attribute.line, &format!("{name} is to be a text in double quotes")))
                }
            },
        };
        match (named("Url")?, named("LocalFileName")?) {
            (Some(url), Some(name)) => requests.push(Request { url, name }),
            (None, None) => {}
            (Some(_), None) => {
                return Err(wrong(ad.attribute("Url").map_or(1, |url| url.line), "LocalFileName is missing"));
            }
            (None, Some(_)) => {
                return Err(wrong(
                    ad.attribute("LocalFileName").map_or(1, |name| name.line),
                    "Url is missing",
                ));
            }
        }
    }
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_of_a_file_is_passed_over_and_what_is_half_is_refused() {
        let text = "[ JobAd = [ Owner = \"me\" ]; Cache = {1, 2} ]\n[ URL = \"https://h/a\"; localfilename = \"/x/a\"; Untar = true ]";
        let request = Request { url: "https://h/a".to_owned(), name: "/x/a".to_owned() };
        assert_eq!(read(text), Ok(vec![request]));
        assert_eq!(read(""), Ok(Vec::new()));
        for (text, words) in [
            ("[ Url = \"https://h/a\" ]", "LocalFileName is missing"),
            ("[ LocalFileName = \"a\" ]", "Url is missing"),
            ("[ Url = strcat(\"a\", \"b\"); LocalFileName = \"a\" ]", "text in double quotes"),
            ("[ Url = \"\"; LocalFileName = \"a\" ]", "Url is empty"),
            ("[ Url = \"https://h/a\"; LocalFileName = \"a\"", "ends here"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(words) && error.starts_with("line 1"), "{error}");
        }
    }

    #[test]
    fn a_url_tells_server_parent_and_name() {
        let of = |url: &str| Request { url: url.to_owned(), name: "x".to_owned() };
        for (url, server, split) in [
            ("tg://TICKET@h:7/a/b", "h:7", Some(("tg://TICKET@h:7/a/", "b"))),
            ("https://me:pw@h/a", "h", Some(("https://me:pw@h/", "a"))),
            ("s3://bucket/p/", "bucket", None),
            ("https://h", "h", None),
        ] {
            let request = of(url);
            assert_eq!((request.server(), request.parent_and_name()), (server, split), "{url}");
        }
        assert!(of("S3://b/p/").is_directory() && of("S3://b/p/").scheme() == "s3");
    }
}
