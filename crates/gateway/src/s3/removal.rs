//! Objects that a document lists are removed.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use tidegate_transfer::endpoint::access::{Access, url_path};

use super::document as answered;
use crate::change::{Removed, remove};
use crate::conditions::{Conditions, Names};
use crate::document::{Said, malformed, read};
use crate::names::path as path_of;
use crate::refusal::{Answer, Refusal};

/// Most objects that one request removes.
const MAX_REMOVED: usize = 1000;

/// What a document asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Removal {
    keys: Vec<String>,
    /// Whether only what failed is told.
    quiet: bool,
}

impl Removal {
    fn read(document: &str) -> Answer<Self> {
        let mut removal = Self::default();
        let mut key: Option<String> = None;
        read(document, |names, said| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            match (&names[..], said) {
                (
                    ["Delete"] | ["Delete", "Quiet"] | ["Delete", "Object", "Key" | "VersionId"],
                    Said::Begin,
                )
                | (["Delete"], Said::End(_)) => {}
                (["Delete", "Object"], Said::Begin) => key = None,
                (["Delete", "Object"], Said::End(_)) => removal.add(key.take().ok_or_else(malformed)?)?,
                (["Delete", "Quiet"], Said::End(text)) => {
                    removal.quiet = text.trim().parse().map_err(|_| malformed())?;
                }
                (["Delete", "Object", "Key"], Said::End(text)) if key.is_none() => {
                    key = Some(text.to_owned());
                }
                (["Delete", "Object", "VersionId"], Said::End("" | "null")) => {}
                (["Delete", "Object", "VersionId"], Said::End(_)) => {
                    return Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, "no versions are kept here"));
                }
                (["Delete", "Object", "ETag" | "LastModifiedTime" | "Size"], _) => {
                    let why = "objects that a document lists are removed without conditions here";
                    return Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, why));
                }
                _ => return Err(malformed()),
            }
            Ok(())
        })?;
        if removal.keys.is_empty() { Err(malformed()) } else { Ok(removal) }
    }

    fn add(&mut self, key: String) -> Answer<()> {
        if self.keys.len() == MAX_REMOVED {
            let why = format!("{MAX_REMOVED} keys are removed at once, and no more");
            return Err(Refusal::senseless(why).called("MalformedXML"));
        }
        self.keys.push(key);
        Ok(())
    }
}

/// Removes the objects of `bucket` that `document` lists, once all of it is read.
pub(crate) fn remove_all(access: &Access, names: &Names, bucket: &[u8], document: &str) -> Answer {
    let Removal { keys, quiet } = Removal::read(document)?;
    let ended: Vec<(String, Answer)> = keys
        .into_iter()
        .map(|key| {
            let path = [bucket, b"/", key.as_bytes()].concat();
            let path = path_of(&url_path(&path));
            (key, path.and_then(|path| removed(access, &path, (names, &Conditions::default()))))
        })
        .collect();
    Ok(answered("DeleteResult", |xml| {
        for (key, ended) in &ended {
            match ended {
                Ok(_) if quiet => {}
                Ok(_) => xml.within("Deleted", |xml| xml.element("Key", key)),
                Err(refusal) => xml.within("Error", |xml| {
                    xml.element("Key", key);
                    xml.element("Code", refusal.code);
                    xml.element("Message", &refusal.message);
                }),
            }
        }
    }))
}

/// Removes an object. What is not there was removed, as S3 sees it, and so was the name of a directory that holds others.
pub(crate) fn removed(access: &Access, path: &[u8], when: (&Names, &Conditions)) -> Answer {
    when.1.check(access, path)?;
    match remove(access, path, Removed::AsNamed, when) {
        Err(refusal) if matches!(refusal.status, StatusCode::NOT_FOUND | StatusCode::CONFLICT) => {
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        ended => ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_document_lists_is_removed() {
        let document = "<Delete xmlns=\"x\"><!-- <Object><Key>c</Key></Object> --><Quiet>true</Quiet>\
                        <Object><Key> a&amp;&#98; </Key><VersionId>null</VersionId></Object><Object><Key>c/</Key></Object></Delete>";
        let keys = vec![" a&b ".to_owned(), "c/".to_owned()];
        assert_eq!(Removal::read(document).expect("read"), Removal { keys, quiet: true });
        let many =
            |count: usize| format!("<Delete>{}</Delete>", "<Object><Key>k</Key></Object>".repeat(count));
        assert!(Removal::read(&many(MAX_REMOVED)).is_ok() && Removal::read(&many(MAX_REMOVED + 1)).is_err());
        let object = |inner: &str| format!("<Delete><Object>{inner}</Object></Delete>");
        for (bad, code) in [
            ("<Delete/>".to_owned(), "MalformedXML"),
            ("<Delete><Key>a</Key></Delete>".to_owned(), "MalformedXML"),
            ("<Object><Key>a</Key></Object>".to_owned(), "MalformedXML"),
            ("<Remove><Object><Key>a</Key></Object></Remove>".to_owned(), "MalformedXML"),
            ("<Delete><Object><Key>a</Key></Object></Delete><Key>b</Key>".to_owned(), "MalformedXML"),
            ("<Delete><Object><Key>a</Key></Object>".to_owned(), "MalformedXML"),
            (object(""), "MalformedXML"),
            (object("<Key>a</Key><Key>b</Key>"), "MalformedXML"),
            (object("<Key>a<Key>b</Key></Key>"), "MalformedXML"),
            (object("<Key><b/></Key>"), "MalformedXML"),
            (object("<Object><Key>a</Key></Object>"), "MalformedXML"),
            (object("<Key>a</Key><VersionId>1</VersionId>"), "NotImplemented"),
            (object("<Key>a</Key><ETag>1</ETag>"), "NotImplemented"),
            (object("<Key>a</Key></Object><Quiet>maybe</Quiet><Object>"), "MalformedXML"),
        ] {
            assert_eq!(Removal::read(&bad).expect_err(&bad).code, code, "{bad}");
        }
    }
}
