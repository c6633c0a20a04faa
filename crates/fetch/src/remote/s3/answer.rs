//! What S3 says, in XML: errors, listings, uploads under way. Read as a flat stream of elements; nothing
//! is expanded or nested further than it needs to be, and the text is bounded before it gets here.

use data_encoding::BASE64;
use percent_encoding::percent_decode_str;
use quick_xml::Reader;
use quick_xml::events::Event;

pub use crate::remote::listing::{Item, Page};

/// Most bytes of an answer: a thousand keys of 1 KiB, percent-encoded, with what surrounds them.
pub(crate) const MAX_ANSWER: u64 = 8 << 20;

/// Deepest nesting that makes sense.
const DEEPEST: usize = 16;

/// One element with text: its path beneath the root, such as `Contents/Key`, and the text.
/// An element that begins a record comes with an empty text when it ends.
pub(crate) fn elements(xml: &str, mut show: impl FnMut(&str, &str)) -> Option<()> {
    let mut reader = Reader::from_str(xml);
    let mut path: Vec<String> = Vec::new();
    let mut text = String::new();
    let joined = |path: &[String]| path.get(1..).unwrap_or_default().join("/");
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) => {
                if path.len() >= DEEPEST {
                    return None;
                }
                path.push(start.local_name().as_ref().to_owned());
                text.clear();
            }
            Event::Text(part) => text.push_str(&part),
            Event::CData(part) => text.push_str(&part),
            Event::GeneralRef(name) => {
                if let Some(c) = name.resolve_char_ref().ok()? {
                    text.push(c);
                } else {
                    text.push_str(match &*name {
                        "lt" => "<",
                        "gt" => ">",
                        "amp" => "&",
                        "quot" => "\"",
                        "apos" => "'",
                        _ => return None,
                    });
                }
            }
            Event::End(_) => {
                show(&joined(&path), &text);
                path.pop();
                text.clear();
            }
            Event::Empty(empty) => {
                path.push(empty.local_name().as_ref().to_owned());
                show(&joined(&path), "");
                path.pop();
            }
            Event::DocType(_) => return None,
            Event::Eof => return path.is_empty().then_some(()),
            _ => {}
        }
    }
}

/// The name of the outermost element.
pub(crate) fn root(xml: &str) -> Option<String> {
    let mut reader = Reader::from_str(xml);
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) => return Some(start.local_name().as_ref().to_owned()),
            Event::Eof => return None,
            _ => {}
        }
    }
}

/// The text of the first element `path` beneath the root.
pub fn element(xml: &str, path: &str) -> Option<String> {
    let mut found = None;
    elements(xml, |at, text| {
        if at == path && found.is_none() {
            found = Some(text.to_owned());
        }
    })?;
    found
}

/// An error's code and message; empty where the answer is no such document.
pub fn error(xml: &str) -> (String, String) {
    if root(xml).as_deref() != Some("Error") {
        return (String::new(), String::new());
    }
    let of = |name| element(xml, name).unwrap_or_default();
    (of("Code"), of("Message"))
}

/// Reads a page of ListObjectsV2.
pub(crate) fn objects(xml: &str) -> Option<Page> {
    if root(xml)? != "ListBucketResult" {
        return None;
    }
    let (mut page, mut item, mut more, mut encoded, mut sound) =
        (Page::default(), Item::default(), false, false, true);
    elements(xml, |path, text| match path {
        "Contents/Key" => item.key = text.to_owned(),
        "Contents/Size" => match text.trim().parse() {
            Ok(bytes) => item.bytes = bytes,
            Err(_) => sound = false,
        },
        "Contents/ETag" => item.tag = text.trim_matches('"').to_owned(),
        "Contents" => page.items.push(std::mem::take(&mut item)),
        "EncodingType" => encoded = text == "url",
        "IsTruncated" => more = text.trim().eq_ignore_ascii_case("true"),
        "NextContinuationToken" => page.next = Some(text.to_owned()),
        _ => {}
    })?;
    if encoded {
        for item in &mut page.items {
            item.key = decoded(&item.key)?;
        }
    }
    if !more {
        page.next = None;
    }
    // Cut off, and no way to go on.
    (sound && (!more || page.next.is_some())).then_some(page)
}

/// An upload under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Underway {
    /// Of which key.
    pub key: String,
    /// Its id.
    pub id: String,
}

/// Uploads under way, and where the next page begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uploads {
    /// The uploads.
    pub uploads: Vec<Underway>,
    /// The key and the id that continue it.
    pub next: Option<(String, String)>,
}

/// Reads a page of ListMultipartUploads.
pub fn uploads(xml: &str) -> Option<Uploads> {
    if root(xml)? != "ListMultipartUploadsResult" {
        return None;
    }
    let (mut page, mut upload, mut more, mut encoded) =
        (Uploads::default(), Underway::default(), false, false);
    let (mut key, mut id) = (String::new(), String::new());
    elements(xml, |path, text| match path {
        "Upload/Key" => upload.key = text.to_owned(),
        "Upload/UploadId" => upload.id = text.to_owned(),
        "Upload" => page.uploads.push(std::mem::take(&mut upload)),
        "EncodingType" => encoded = text == "url",
        "IsTruncated" => more = text == "true",
        "NextKeyMarker" => key = text.to_owned(),
        "NextUploadIdMarker" => id = text.to_owned(),
        _ => {}
    })?;
    if encoded {
        key = decoded(&key)?;
        for upload in &mut page.uploads {
            upload.key = decoded(&upload.key)?;
        }
    }
    page.next = (more && !key.is_empty()).then_some((key, id));
    Some(page)
}

/// A part that the server has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Its number, from 1.
    pub number: u32,
    /// Its size.
    pub bytes: u64,
    /// Its tag without quotes.
    pub tag: String,
    /// Whether it came with a CRC-64/NVME.
    pub(crate) has_crc: bool,
}

/// Reads a page of ListParts: the parts, and the number behind which the next page begins.
pub fn parts(xml: &str) -> Option<(Vec<Part>, Option<u32>)> {
    // Some stores of smaller make have another name for it.
    if !matches!(root(xml)?.as_str(), "ListPartsResult" | "ListPartsResponse") {
        return None;
    }
    listed_parts(xml, "")
}

/// Reads a page of the parts that GetObjectAttributes tells: the parts, and the number behind which the next page begins. `None`
/// where it tells none.
pub fn attributes(xml: &str) -> Option<(Vec<Part>, Option<u32>)> {
    // As above, and one that the documentation has.
    if !matches!(root(xml)?.as_str(), "GetObjectAttributesResponse" | "GetObjectAttributesOutput") {
        return None;
    }
    listed_parts(xml, "ObjectParts/").filter(|(parts, _)| !parts.is_empty())
}

fn listed_parts(xml: &str, within: &str) -> Option<(Vec<Part>, Option<u32>)> {
    let (mut parts, mut part, mut more, mut next, mut sound) =
        (Vec::new(), Part::default(), false, None, true);
    elements(xml, |path, text| match path.strip_prefix(within).unwrap_or_default() {
        "Part/PartNumber" => match text.parse() {
            Ok(number) => part.number = number,
            Err(_) => sound = false,
        },
        "Part/Size" => match text.parse() {
            Ok(bytes) => part.bytes = bytes,
            Err(_) => sound = false,
        },
        "Part/ETag" => part.tag = text.trim_matches('"').to_owned(),
        "Part/ChecksumCRC64NVME" => part.has_crc = !text.trim().is_empty(),
        "Part" => parts.push(std::mem::take(&mut part)),
        "IsTruncated" => more = text == "true",
        "NextPartNumberMarker" => next = text.parse().ok(),
        _ => {}
    })?;
    sound.then_some((parts, next.filter(|_| more)))
}

/// The body of CompleteMultipartUpload: of each part the number, the tag, and the CRC-64/NVME where it came with one.
pub fn complete<'a>(parts: impl Iterator<Item = (u32, &'a str, Option<u64>)>) -> String {
    let mut xml = String::from("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (number, tag, crc) in parts {
        let tag = quick_xml::escape::escape(tag);
        let crc = crc.map(|crc| BASE64.encode(&crc.to_be_bytes()));
        let crc = crc.map_or_else(String::new, |crc| format!("<ChecksumCRC64NVME>{crc}</ChecksumCRC64NVME>"));
        xml.push_str(&format!("<Part><PartNumber>{number}</PartNumber><ETag>\"{tag}\"</ETag>{crc}</Part>"));
    }
    xml.push_str("</CompleteMultipartUpload>");
    xml
}

/// A key that the server has encoded as in a form.
fn decoded(key: &str) -> Option<String> {
    percent_decode_str(&key.replace('+', " ")).decode_utf8().ok().map(|key| key.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><EncodingType>url</EncodingType>
<IsTruncated>true</IsTruncated><NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=</NextContinuationToken>
<Contents><Key>a+b%2Bc%0A/%C3%BC</Key><Size>7</Size><ETag>&quot;d41d8cd98f00b204e9800998ecf8427e&quot;</ETag></Contents>
<Contents><Key>z</Key><Size>0</Size><ETag>"x"</ETag></Contents></ListBucketResult>"#;

    #[test]
    fn a_listing_is_read() {
        let page = objects(PAGE).expect("a page");
        assert_eq!(page.items[0].key, "a b+c\n/ü");
        assert_eq!((page.items[0].bytes, page.items[0].tag.len()), (7, 32));
        assert_eq!(page.items[1].key, "z");
        assert!(page.next.is_some());
        assert!(objects("<html><body>no</body></html>").is_none());
        assert!(objects(&PAGE.replace("<Size>7", "<Size>seven")).is_none());
    }

    #[test]
    fn uploads_and_parts_are_read() {
        let xml = "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker>\
            <NextUploadIdMarker>2</NextUploadIdMarker><Upload><Key>a&amp;b</Key><UploadId>1</UploadId>\
            <Initiator><ID>me</ID></Initiator></Upload></ListMultipartUploadsResult>";
        let page = uploads(xml).expect("a page");
        assert_eq!(page.uploads, [Underway { key: "a&b".to_owned(), id: "1".to_owned() }]);
        assert_eq!(page.next, Some(("k".to_owned(), "2".to_owned())));
        let xml = "<ListPartsResult><IsTruncated>false</IsTruncated><Part><PartNumber>2</PartNumber>\
            <Size>5</Size><ETag>&#34;ab&#34;</ETag></Part></ListPartsResult>";
        let (list, next) = parts(xml).expect("parts");
        assert_eq!(list, [Part { number: 2, bytes: 5, tag: "ab".to_owned(), has_crc: false }]);
        assert_eq!(next, None);
    }

    #[test]
    fn an_error_has_a_code_and_entities_of_ones_own_are_refused() {
        let xml = "<Error><Code>SlowDown</Code><Message>Please reduce</Message></Error>";
        assert_eq!(error(xml), ("SlowDown".to_owned(), "Please reduce".to_owned()));
        assert_eq!(error("busy").0, "");
        let bomb = "<!DOCTYPE x [<!ENTITY a \"b\">]><Error><Code>&a;</Code></Error>";
        assert_eq!(element(bomb, "Code"), None);
        assert_eq!(complete([(1, "a\"<", None)].into_iter()).matches("&lt;").count(), 1);
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(text in ".{0,300}", cut in 0..PAGE.len()) {
            let cut = (0..=cut).rev().find(|at| PAGE.is_char_boundary(*at)).unwrap_or(0);
            for text in [text.as_str(), &PAGE[..cut], &format!("{}{text}", &PAGE[..cut])] {
                let _ = (objects(text), uploads(text), parts(text), error(text));
            }
        }
    }
}
