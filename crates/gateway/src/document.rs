//! What stands in the document of a request: XML, read strictly. What breaks off, is not nested, or has anything behind its
//! end is no document; what stands in comments was not said.

use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use crate::refusal::{Answer, Refusal};

/// Most elements within each other.
const MAX_DEPTH: usize = 16;

/// What is said next of the element that the names lead to, from the document's own on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said<'d> {
    /// It begins.
    Begin,
    /// It ends, and this is the text in it; empty where other elements are in it.
    End(&'d str),
}

/// An element that has begun.
struct Open {
    text: String,
    has_elements: bool,
}

/// Tells `hear` what `document` says, in its order.
pub fn read(document: &str, mut hear: impl FnMut(&[String], Said<'_>) -> Answer<()>) -> Answer<()> {
    let mut reader = Reader::from_str(document.strip_prefix('\u{feff}').unwrap_or(document));
    reader.config_mut().expand_empty_elements = true;
    reader.config_mut().check_comments = true;
    let (mut names, mut open): (Vec<String>, Vec<Open>) = (Vec::new(), Vec::new());
    let mut is_over = false;
    let mut is_first = true;
    loop {
        match reader.read_event().map_err(|_| malformed())? {
            Event::Decl(_) if is_first => {}
            Event::Start(start) if !is_over && open.len() < MAX_DEPTH => {
                if let Some(outer) = open.last_mut() {
                    outer.has_elements = true;
                }
                names.push(name(&start)?);
                open.push(Open { text: String::new(), has_elements: false });
                hear(&names, Said::Begin)?;
            }
            Event::End(_) => {
                let Open { text, has_elements } = open.pop().ok_or_else(malformed)?;
                match has_elements {
                    true if text.trim().is_empty() => hear(&names, Said::End(""))?,
                    true => return Err(malformed()),
                    false => hear(&names, Said::End(&text))?,
                }
                names.pop();
                is_over = open.is_empty();
            }
            Event::Text(text) => add(&mut open, &text.xml_content(XmlVersion::Implicit1_0))?,
            Event::CData(text) => add(&mut open, &text.xml_content(XmlVersion::Implicit1_0))?,
            Event::GeneralRef(named) => match named.resolve_char_ref().map_err(|_| malformed())? {
                Some(character) => add(&mut open, character.encode_utf8(&mut [0; 4]))?,
                None => add(&mut open, resolve_xml_entity(&named).ok_or_else(malformed)?)?,
            },
            Event::Comment(_) | Event::PI(_) => {}
            Event::Eof if is_over => return Ok(()),
            // Among them a document type, whose entities could be made to grow.
            _ => return Err(malformed()),
        }
        is_first = false;
    }
}

/// Its name without a prefix; what stands behind it must be attributes.
fn name(start: &BytesStart<'_>) -> Answer<String> {
    let is_fit = start.attributes().all(|attribute| attribute.is_ok());
    let name = start.local_name().as_ref().to_owned();
    if is_fit && !name.is_empty() { Ok(name) } else { Err(malformed()) }
}

/// Outside of all elements only space may stand.
fn add(open: &mut [Open], text: &str) -> Answer<()> {
    match open.last_mut() {
        Some(element) => element.text.push_str(text),
        None if text.trim().is_empty() => {}
        None => return Err(malformed()),
    }
    Ok(())
}

/// It is no document, or not one of those that are read here.
pub(crate) fn malformed() -> Refusal {
    Refusal::senseless("the document is not well-formed, or is not what this request takes")
        .called("MalformedXML")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is said of elements that end.
    fn said(document: &str) -> Answer<Vec<(String, String)>> {
        let mut all = Vec::new();
        read(document, |names, said| {
            if let Said::End(text) = said {
                all.push((names.join("/"), text.to_owned()));
            }
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn a_document_says_what_stands_in_its_elements_and_not_in_comments() {
        let document = "\u{feff}<?xml version=\"1.0\"?>\n<!-- <a/> -->\n<x:a xmlns:x=\"y\"><b>1&lt;&#x32;<!--3--><![CDATA[<c>]]></b>\
                        <!-- <b>4</b> --><b/></x:a>\n<!-- over -->\n";
        let expected = [("a/b", "1<2<c>"), ("a/b", ""), ("a", "")];
        assert_eq!(said(document).expect("read"), expected.map(|(n, t)| (n.to_owned(), t.to_owned())));
        for bad in [
            "",
            " ",
            "text",
            "<a>",
            "<a><b></a></b>",
            "<a><b>1</b>",
            "<a></a><b></b>",
            "<a></a>x",
            "<a></a>&amp;",
            "x<a></a>",
            "<a>1<b/></a>",
            "<a><!-- </a>",
            "<a><!-- -- --></a>",
            "<a b></a>",
            "<a b=1></a>",
            "<a b='1' b='2'></a>",
            "<a>&none;</a>",
            "<a>&</a>",
            "<a>&#0;</a>",
            "<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>",
            "<a/><?xml version=\"1.0\"?>",
            "</a>",
            "<>x</>",
        ] {
            assert!(said(bad).is_err(), "{bad}");
        }
        let deep = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
        assert!(said(&deep(MAX_DEPTH)).is_ok() && said(&deep(MAX_DEPTH + 1)).is_err());
    }

    proptest! {
        #[test]
        fn what_is_cut_is_no_document(at in 1..120_usize) {
            let whole = "<?xml version=\"1.0\"?><Delete><Object><Key>a&amp;b</Key></Object><!-- c --><Object><Key>d</Key></Object></Delete>";
            prop_assert!(said(whole).is_ok());
            prop_assume!(at < whole.len());
            prop_assert!(said(&whole[..at]).is_err(), "{}", &whole[..at]);
        }

        #[test]
        fn garbage_never_panics(text in "[<>/!\\-&;a#x\\[\\]?\"= ]{0,40}") {
            let _ = said(&text);
        }
    }
}
