//! A process that may have few descriptors: what peers make it open is bounded, and everything still arrives.

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::common::peer::file;
use crate::common::{Fixture, content, dial, eventually, terms, write};
use rustix::process::{Resource, getrlimit, setrlimit};
use tidegate_control::PerStage;
use tidegate_transfer::error::ErrorKind;
use tidegate_transfer::manifest::BLOCK;
use tidegate_transfer::offer::{OFFER_ENTRIES, Outcome};
use tidegate_transfer::pipeline::proof::Proof;
use tidegate_transfer::spec::{SinkSpec, SourceSpec};
use tidegate_transfer::terms::{DataPlane, Verify};
use tidegate_transfer::wire::frame::{Frame, FrameKind};
use tidegate_transfer::wire::handshake::{self, StreamOpening};
use tidegate_transfer::wire::message::Message;
use tidegate_transfer::wire::request::RequestKind;
use tidegate_transfer::wire::tls::Trust;

/// Of these a third is for one peer.
const DESCRIPTORS: u64 = 384;

fn fixture() -> Fixture {
    let mut limit = getrlimit(Resource::Nofile);
    (limit.current, limit.maximum) = (Some(DESCRIPTORS), Some(DESCRIPTORS));
    setrlimit(Resource::Nofile, limit).expect("lowered");
    Fixture::new()
}

/// How many descriptors of this process lead beneath `directory`.
fn open_beneath(directory: &Path) -> usize {
    let open = fs::read_dir("/proc/self/fd").expect("listed").flatten();
    open.filter(|fd| fs::read_link(fd.path()).is_ok_and(|file| file.starts_with(directory))).count()
}

#[test]
fn files_that_are_begun_and_left_take_few_descriptors_and_are_completed_all_the_same() {
    testkit::alone!();
    let f = fixture();
    let trust =
        Trust::Pinned(f.address.ticket.as_ref().expect("a ticket").fingerprint).client().expect("set up");
    let (outbox, inbox) = dial(&f.address, &trust).expect("let in");
    let sink = SinkSpec::Files { path: b"in/".to_vec(), single: false };
    outbox.send(&RequestKind::Receive { id: [0; 16], sink }.under(terms()).into());
    let Message::Accepted(agreement) = inbox.receive().expect("an answer") else { panic!("not accepted") };
    let token = agreement.read().expect("whole").token;
    outbox.send(&Message::Setpoint(PerStage::all(2)));
    let (files, size) = (2 * OFFER_ENTRIES as u32, 2 * BLOCK);
    for first in [0, OFFER_ENTRIES as u32] {
        let entries = (first..first + OFFER_ENTRIES as u32).map(|id| file(format!("f{id}").as_bytes(), size));
        outbox.send(&Message::Offer { first, entries: entries.collect() });
        while !matches!(inbox.receive().expect("it goes on"), Message::Verdicts { .. }) {}
    }
    let data = content(size, 3);
    let stream = StreamOpening { plane: DataPlane::Tls, token: &token, index: 0 };
    let mut stream = handshake::open_stream(&f.address, &trust, &stream).expect("opened");
    let parts = f.root.join("in/.tidegate").join("00".repeat(16));
    for offset in [0, BLOCK] {
        let block = &data[offset as usize..][..BLOCK as usize];
        let checksum = Proof::of(block, offset, size, Verify::Blake3).checksum;
        for id in 0..files {
            let frame = Frame { kind: FrameKind::Data, length: BLOCK as u32, file: id, checksum, offset };
            stream.write_all(&[&frame.encode()[..], block].concat()).expect("taken");
        }
        if offset == 0 {
            let begun = || fs::read_dir(&parts).is_ok_and(|parts| parts.count() as u32 > files);
            eventually("all are begun", begun);
            let (open, most) = (open_beneath(&parts), DESCRIPTORS as usize / 3 + 4);
            assert!(open <= most, "{open} are open, of {most}");
        }
    }
    outbox.send(&Message::Hashes((0..files).map(|id| (id, 0, *blake3::hash(&data).as_bytes())).collect()));
    let mut done = 0;
    while done < files {
        if let Message::Done(ended) = inbox.receive().expect("it goes on") {
            assert!(ended.iter().all(|(_, outcome)| *outcome == Outcome::Committed), "{ended:?}");
            done += ended.len() as u32;
        }
    }
    for id in 0..files {
        assert!(fs::read(f.root.join(format!("in/f{id}"))).expect("there") == data);
    }
}

#[test]
fn more_paths_than_may_be_open_are_refused_before_any_is() {
    testkit::alone!();
    let f = fixture();
    write(&f.root.join("file"), 10, 1);
    let trust =
        Trust::Pinned(f.address.ticket.as_ref().expect("a ticket").fingerprint).client().expect("set up");
    let (outbox, inbox) = dial(&f.address, &trust).expect("let in");
    let source = SourceSpec::Files(vec![b"file".to_vec(); 60_000]);
    outbox.send(&RequestKind::Send { source }.under(terms()).into());
    match inbox.receive().expect("an answer") {
        Message::Refused(error) => {
            assert!(error.kind == ErrorKind::Busy && error.message.contains("name a directory"), "{error}");
        }
        message => panic!("{message:?}"),
    }
}
