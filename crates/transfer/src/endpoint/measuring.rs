//! iperf3 for a peer that has proved itself: the server side of its own test, and a test between this endpoint and another
//! one that only the peer asks for.
//!
//! Between two endpoints the rules are those of a copy the same way: whoever asks needs a ticket that reads where data
//! comes from and one that writes where it goes to. This endpoint connects to nothing but what proves by its session that
//! it is the endpoint of the ticket.

use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::endpoint::iperf3::Servers;
use crate::endpoint::rights::{may_read, may_write};
use crate::endpoint::{Endpoint, SessionContext, reach};
use crate::error::{Error, ErrorKind, Result};
use crate::spec::Iperf3Test;
use crate::sys::clock::Instant;
use crate::transfer::link::Iperf3Server;
use crate::wire::message::Message;
use crate::wire::session::{Inbox, Outbox};
use crate::wire::ticket::{Address, Claims};

/// How often a program that runs is looked after.
const LOOK: Duration = Duration::from_millis(20);

/// How long a peer may take to read the last message.
const READING: Duration = Duration::from_secs(60);

/// Runs an iperf3 server until its one test is over, the peer leaves, or the time is up.
pub(crate) fn serve(
    endpoint: &Endpoint,
    session: &SessionContext,
    reached: Option<IpAddr>,
    (outbox, inbox): (&Outbox, &Inbox),
    limit: Duration,
) -> Result<()> {
    let Claims { read, write, once, .. } = session.claims;
    // One that holds once is for one path and nothing else, or for this and nothing else.
    if (read || write) == once.is_some() {
        return Err(Error::new(ErrorKind::Denied, "the ticket does not allow an iperf3 server"));
    }
    let servers = servers(endpoint)?;
    let reached = reached
        .ok_or_else(|| Error::new(ErrorKind::Io, "it cannot tell which of its addresses was reached"))?;
    let end = Instant::now() + limit;
    let mut server = servers.start(reached, limit)?;
    outbox.send(&Message::Iperf3 { port: server.port() });
    // The peer says nothing more: a message ends it as its leaving does.
    while server.is_running() && goes_on(endpoint, inbox, end) {}
    Ok(())
}

/// Makes the one-time ticket for a test that another endpoint is to make against this one.
pub fn ticket(
    endpoint: &Endpoint,
    session: &SessionContext,
    reverse: bool,
    (outbox, inbox): (&Outbox, &Inbox),
) -> Result<()> {
    may_move(endpoint, session, reverse)?;
    servers(endpoint)?;
    outbox.send(&Message::Ticket(endpoint.issue_for_iperf3(session)?));
    // Stay until the peer has read it.
    let _ = inbox.receive_within(READING);
    Ok(())
}

/// Makes `test` against the endpoint at `address`.
pub(crate) fn between(
    endpoint: &Endpoint,
    session: &SessionContext,
    address: &Address,
    test: &Iperf3Test,
    (outbox, inbox): (&Outbox, &Inbox),
    limit: Duration,
) -> Result<()> {
    may_move(endpoint, session, !test.reverse)?;
    let servers = servers(endpoint)?;
    let end = Instant::now() + limit;
    let config = &endpoint.config;
    let metadata = &session.account.share.metadata;
    let pki = endpoint.pki();
    let link = reach::open(address, pki.as_ref(), config.allow_local_targets, metadata)?;
    let server = Iperf3Server::ask_over(link, limit)?;
    let report = servers.measure(server.address(), test, || goes_on(endpoint, inbox, end))?;
    outbox.send(&Message::Iperf3Report(report));
    // Stay until the peer has read it.
    let _ = inbox.receive_within(READING);
    Ok(())
}

/// Waits a moment; whether what runs for a peer may run on.
fn goes_on(endpoint: &Endpoint, inbox: &Inbox, end: Instant) -> bool {
    Instant::now() < end
        && !endpoint.activity.draining.load(Relaxed)
        && matches!(inbox.receive_within(LOOK), Ok(None))
}

/// Whether data may flow from here, or to here.
fn may_move(endpoint: &Endpoint, session: &SessionContext, from_here: bool) -> Result<()> {
    match from_here {
        true => may_read(&session.claims),
        false => may_write(endpoint, &session.claims),
    }
}

fn servers(endpoint: &Endpoint) -> Result<&Servers> {
    endpoint.iperf3.as_ref().ok_or_else(|| {
        Error::new(ErrorKind::Denied, "it runs no iperf3 for others: start the endpoint with --iperf3")
    })
}
