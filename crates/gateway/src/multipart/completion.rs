//! Parts become one object: it gets its name where they lie in their places, and is put together where they do not.

use axum::http::HeaderMap;
use tidegate_transfer::endpoint::access::Access;
use tidegate_transfer::manifest::{BLOCK, Entry, Kind};
use tidegate_transfer::store::{Sink, SinkFile};
use tidegate_transfer::sys::fs::fstat;
use tidegate_transfer::sys::identity::identity;

use super::{Lies, MAX_PARTS, Multipart, Part, Stage, State};
use crate::checksums::{Checksums, ObjectSum, Verified};
use crate::conditions::{Conditions, Names, failed};
use crate::document::{Said, malformed, read};
use crate::refusal::{Answer, Refusal};
use crate::upload::{Parents, Place, Upload};
use crate::validators::Validators;

/// Bytes that are read at a time.
const READ: u64 = 8 * BLOCK;

/// What is asked for.
pub(crate) struct Completion {
    parts: Vec<Listed>,
    document: String,
    /// What is said of the object.
    size: Option<u64>,
    sums: Vec<ObjectSum>,
}

/// A part that a document lists.
#[derive(Debug, Default, PartialEq, Eq)]
struct Listed {
    number: u32,
    tag: String,
    /// Names and values.
    sums: Vec<(String, String)>,
}

impl Completion {
    /// Reads what `document` and `headers` say.
    pub fn read(document: &str, headers: &HeaderMap) -> Answer<Self> {
        let size = headers.get("x-amz-mp-object-size").map(|value| value.to_str().unwrap_or_default());
        let unreadable = || Refusal::senseless("the object's size is a number").called("InvalidArgument");
        let size = size.map(|text| text.parse().map_err(|_| unreadable())).transpose()?;
        let parts = listed(document)?;
        Ok(Self { parts, document: document.to_owned(), size, sums: ObjectSum::read(headers)? })
    }
}

/// The parts that a document lists.
fn listed(document: &str) -> Answer<Vec<Listed>> {
    let (mut parts, mut part) = (Vec::new(), Listed::default());
    read(document, |names, said| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        match (&names[..], said) {
            (["CompleteMultipartUpload"], _) => {}
            (["CompleteMultipartUpload", "Part"], Said::Begin) => part = Listed::default(),
            (["CompleteMultipartUpload", "Part"], Said::End(_)) => {
                if part.number == 0 || part.tag.is_empty() || parts.len() == MAX_PARTS as usize {
                    return Err(malformed());
                }
                parts.push(std::mem::take(&mut part));
            }
            (["CompleteMultipartUpload", "Part", name], said) => match (*name, said) {
                ("PartNumber" | "ETag", Said::Begin) => {}
                ("PartNumber", Said::End(text)) if part.number == 0 => {
                    part.number = text.trim().parse().map_err(|_| malformed())?;
                }
                ("ETag", Said::End(text)) if part.tag.is_empty() => {
                    text.trim().trim_matches('"').clone_into(&mut part.tag);
                }
                (name, said) if name.starts_with("Checksum") => {
                    if let Said::End(text) = said {
                        part.sums.push((name.to_owned(), text.to_owned()));
                    }
                }
                _ => return Err(malformed()),
            },
            _ => return Err(malformed()),
        }
        Ok(())
    })?;
    if parts.is_empty() { Err(malformed()) } else { Ok(parts) }
}

/// Parts are taken again once it has failed to make an object of them.
struct Completing<'m>(&'m Multipart);

impl Drop for Completing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if state.stage == Stage::Completing {
            state.stage = Stage::Open;
        }
    }
}

impl State {
    /// Whether a part is just being written to its place in the object.
    fn is_written(&self) -> bool {
        let lies_there = |number| matches!(self.parts.get(number), Some(Part { lies: Lies::Whole(_), .. }));
        !self.placed.iter().all(lies_there)
    }

    /// The parts that are `listed`, if they are those that have arrived, without what the document need not say.
    fn chosen(&self, listed: &[Listed]) -> Answer<Vec<Chosen>> {
        let mut before = 0;
        let chosen = listed.iter().map(|Listed { number, tag, sums }| {
            if *number <= before {
                return Err(Refusal::senseless("parts are listed in their order").called("InvalidPartOrder"));
            }
            before = *number;
            let part = self.parts.get(number).filter(|part| part.tag.trim_matches('"') == tag);
            let part =
                part.filter(|part| sums.iter().all(|(name, sum)| part.sums.has(name, sum) == Some(true)));
            let part = part.ok_or_else(|| {
                Refusal::senseless(format!("part {number} is not what is listed")).called("InvalidPart")
            })?;
            Ok(Chosen::of(part))
        });
        chosen.collect()
    }
}

/// A part of which the object is made.
struct Chosen {
    size: u64,
    sums: Verified,
    lies: Lies,
}

impl Chosen {
    fn of(Part { size, sums, lies, .. }: &Part) -> Self {
        Self { size: *size, sums: sums.clone(), lies: lies.clone() }
    }
}

impl Multipart {
    /// Makes the object of the parts that are listed. Nobody waits for that who does not ask for the same.
    pub fn complete(
        &self,
        access: &Access,
        completion: Completion,
        when: (&Names, &Conditions),
    ) -> Answer<Option<Validators>> {
        let Completion { parts, document, size: said, sums } = completion;
        let (_completing, chosen, is_written) = {
            let mut state = self.state.lock();
            state.goes_on()?;
            let chosen = state.chosen(&parts)?;
            state.stage = Stage::Completing;
            (Completing(self), chosen, state.is_written())
        };
        let size = chosen.iter().map(|part| part.size).sum();
        if said.is_some_and(|said| said != size) {
            let why = format!("the parts come to {size} bytes, which is not the size that was said");
            return Err(Refusal::senseless(why));
        }
        let of_parts: Vec<&Verified> = chosen.iter().map(|part| &part.sums).collect();
        let sums = ObjectSum::check(sums, &document, &of_parts)?;
        when.1.check(access, &self.path)?;
        let place = Place::find(access, &self.path)?;
        if when.1.new && place.replaces {
            return Err(failed("something bears that name"));
        }
        // What somebody still writes to must not get the name.
        let version = match in_place(&chosen) && !is_written && self.lies_at(&place) {
            true => self.publish(access, &place, (size, sums), when),
            false => self.put_together(access, &chosen, (size, sums), when),
        }?;
        self.is_over();
        Ok(version)
    }

    /// Whether the directory that the parts lie beneath is still that of the object.
    fn lies_at(&self, place: &Place) -> bool {
        let directory = place.reached.base.dir(place.rest.split().0);
        let here = self.sink.base().and_then(fstat).map(|stat| identity(&stat));
        directory.and_then(fstat).is_ok_and(|stat| here == Ok(identity(&stat)))
    }

    /// Gives the object its name.
    fn publish(
        &self,
        access: &Access,
        place: &Place,
        (size, sums): (u64, Option<Checksums>),
        when: (&Names, &Conditions),
    ) -> Answer<Option<Validators>> {
        let kind = Kind::File { size, fingerprint: [0; 16] };
        let entry = Entry { kind, mode: place.mode, ..self.whole.clone() };
        // As long as its parts: what was written behind them is of none.
        let file = self.sink.open(&entry, true)?;
        if let Some(sums) = sums {
            let mut sums = Some(sums);
            each(&*file, 0, size, &mut |bytes| {
                access.check_valid()?;
                sums.iter_mut().for_each(|sums| sums.update(bytes));
                Ok(())
            })?;
            sums.map_or(Ok(()), |sums| sums.check().map(drop))?;
        }
        Upload::settle(access, &self.path, &self.sink, &*file, &entry, when).inspect_err(|_| {
            if !self.sink.has_part(&entry) {
                self.is_over();
            }
        })?;
        Ok(Upload::version(access, &self.path))
    }

    fn is_over(&self) {
        self.state.lock().stage = Stage::Over;
    }

    /// Copies the parts into an object, one behind the other.
    fn put_together(
        &self,
        access: &Access,
        chosen: &[Chosen],
        (size, mut sums): (u64, Option<Checksums>),
        when: (&Names, &Conditions),
    ) -> Answer<Option<Validators>> {
        let mut whole = Upload::begin(access, &self.path, Some(size), Parents::Make)?;
        for Chosen { size, lies, .. } in chosen {
            let mut take = |bytes: &[u8]| {
                access.check_valid()?;
                sums.iter_mut().for_each(|sums| sums.update(bytes));
                Ok(whole.write(bytes)?)
            };
            match lies {
                Lies::Whole(offset) => each(&*self.content, *offset, *size, &mut take)?,
                Lies::Alone(entry) => {
                    let kind = Kind::File { size: *size, fingerprint: [0; 16] };
                    let file = self.sink.open(&Entry { kind, ..entry.clone() }, true)?;
                    each(&*file, 0, *size, &mut take)?;
                }
            }
        }
        sums.map_or(Ok(()), |sums| sums.check().map(drop))?;
        whole.finish(access, self.whole.mtime, when)
    }
}

/// Whether parts lie one behind the other in the object.
fn in_place(chosen: &[Chosen]) -> bool {
    let mut end = 0;
    chosen.iter().all(|part| {
        let begin = end;
        end += part.size;
        matches!(part.lies, Lies::Whole(offset) if offset == begin)
    })
}

/// Gives what `file` holds to `take`, piece by piece.
fn each(
    file: &dyn SinkFile,
    offset: u64,
    size: u64,
    take: &mut dyn FnMut(&[u8]) -> Answer<()>,
) -> Answer<()> {
    let mut buffer = vec![0; READ.min(size) as usize];
    let mut at = 0;
    while at < size {
        let length = (size - at).min(READ) as usize;
        file.read_at(offset + at, &mut buffer[..length])?;
        take(&buffer[..length])?;
        at += length as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u32, tag: &str) -> Listed {
        Listed { number, tag: tag.to_owned(), sums: Vec::new() }
    }

    #[test]
    fn lists_of_parts_are_read_with_quotes_in_any_form() {
        let document = "<CompleteMultipartUpload xmlns=\"x\"><!-- <Part><PartNumber>9</PartNumber><ETag>z</ETag></Part> -->\
             <Part><PartNumber>1</PartNumber><ETag>&quot;a&#34;</ETag><ChecksumCRC32>x</ChecksumCRC32></Part>\
             <Part><ETag>\"b\"</ETag><PartNumber> 2 </PartNumber></Part></CompleteMultipartUpload>";
        let first = Listed { sums: vec![("ChecksumCRC32".to_owned(), "x".to_owned())], ..part(1, "a") };
        assert_eq!(listed(document).expect("read"), [first, part(2, "b")]);
        let within = |inner: &str| format!("<CompleteMultipartUpload>{inner}</CompleteMultipartUpload>");
        let one = "<Part><PartNumber>1</PartNumber><ETag>a</ETag></Part>";
        assert_eq!(listed(&within(one)).expect("read"), [part(1, "a")]);
        for bad in [
            "",
            "<",
            one,
            &within(""),
            &within("<Part></Part>"),
            &within("<Part><PartNumber>x</PartNumber><ETag>a</ETag></Part>"),
            &within("<Part><PartNumber>1</PartNumber></Part>"),
            &within("<Part><PartNumber>1</PartNumber><PartNumber>2</PartNumber><ETag>a</ETag></Part>"),
            &within("<Part><PartNumber>1</PartNumber><ETag>a</ETag><ETag>b</ETag></Part>"),
            &within("<Part><PartNumber>1</PartNumber><ETag>a</ETag><Part/></Part>"),
            &within("<PartNumber>1</PartNumber><ETag>a</ETag>"),
            &format!("{}{one}", within(one)),
            &within(one)[..within(one).len() - 27],
        ] {
            assert_eq!(listed(bad).expect_err(bad).code, "MalformedXML", "{bad}");
        }
    }
}
