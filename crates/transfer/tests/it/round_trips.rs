//! What does not wait for the other end to answer.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::Duration;

use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::wire::greeting::Spoken;

use crate::common::peer::Server;
use crate::common::{Fixture, eventually, is_error, write};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::transfer::route::{Setup, To, begin};
use tidegate_transfer::wire::greeting::VERSIONS;
use tidegate_transfer::wire::message::Message;
use tidegate_transfer::wire::way::{Carrier, Carriers};

/// Dials a port of this host, and counts.
#[derive(Debug)]
struct Dialling {
    port: u16,
    dialled: Arc<AtomicU32>,
}

impl Carrier for Dialling {
    fn connection(&self, _: Duration) -> io::Result<TcpStream> {
        self.dialled.fetch_add(1, SeqCst);
        TcpStream::connect(("127.0.0.1", self.port))
    }
}

/// Pushes one file to `server`; what it speaks is known or not; answers with why that failed.
fn pushed(server: &Server, spoken: Option<Spoken>, dialled: &Arc<AtomicU32>) -> Error {
    let f = Fixture::new();
    let source = f.dir("source");
    write(&source.join("file"), 10, 1);
    let mut carriers = Carriers::default();
    let carrier = Dialling { port: server.address.port, dialled: Arc::clone(dialled) };
    carriers.carry(&server.address, Arc::new(carrier), spoken);
    let to = To::Endpoint(server.address.clone().with_path("in/"));
    is_error(begin(&f.local(&[source]), &to, &Setup { carriers, ..f.setup() }))
}

#[test]
fn files_are_offered_and_a_connection_is_made_while_the_endpoint_decides() {
    let (say, said) = channel();
    let say = Mutex::new(say);
    let dialled = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&dialled);
    let server = Server::new(move |visit| {
        let offered = matches!(visit.next(), Ok(Message::Offer { .. }));
        eventually("a connection is made ahead", || counted.load(SeqCst) == 2);
        say.lock().send(offered).expect("heard");
        visit.outbox.send(&Message::Refused(Error::new(ErrorKind::NoSpace, "full")));
    });
    let error = pushed(&server, None, &dialled);
    assert!(said.recv().expect("said"), "nothing was offered before the endpoint had accepted");
    assert!(error.kind == ErrorKind::NoSpace && error.message.ends_with("full"), "{error}");
}

#[test]
fn where_the_versions_are_known_the_welcome_is_not_waited_for() {
    let refused = || Message::Refused(Error::new(ErrorKind::NoSpace, "full"));
    let newest = VERSIONS.1;
    // One that says welcome once it was asked, and one that speaks another version than it said.
    for (version, told) in [(newest, "full"), (newest - 1, "did not say welcome")] {
        let server = Server::late(version, move |visit| visit.outbox.send(&refused()));
        let error = pushed(&server, Some(Spoken::ours()), &Arc::default());
        assert!(error.message.ends_with(told) && !error.message.contains('\n'), "{error}");
    }
}
