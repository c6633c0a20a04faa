//! A session with a server: requests go out one behind the other, and answers are told apart by their numbers.

use std::collections::HashSet;
use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tidegate_transfer::error::{Error, ErrorKind};

use super::attributes::Attributes;
use super::packet::{LENGTH, MAX_PACKET};
use super::reply::{Abilities, Lengths, Name, SftpReply, Status};
use super::request::{Request, hello};
use super::trouble::SftpTrouble;
use crate::remote::carrier::{SftpChannel, SftpProcess};

/// Requests are gathered up to that many bytes before they are sent.
const GATHERED: usize = 64 << 10;

/// Most answers that nobody waits for any more.
const MAX_ABANDONED: usize = 4096;

/// Bytes that may be under way at a time: what the window of an SSH channel holds, twice.
pub(crate) const WINDOW: u64 = 4 << 20;

/// A session.
pub(crate) struct Session {
    input: BufReader<UnixStream>,
    process: Box<dyn SftpProcess>,
    timeout: Duration,
    next: u32,
    /// Requests that were not sent yet.
    gathered: Vec<u8>,
    /// Numbers of answers that nobody waits for.
    abandoned: HashSet<u32>,
    /// What the server can.
    pub abilities: Abilities,
    /// How long requests may be.
    pub lengths: Lengths,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("abilities", &self.abilities).finish_non_exhaustive()
    }
}

impl Session {
    /// Greets the server at the other end, which may be silent for `timeout`.
    pub fn greet(channel: SftpChannel, timeout: Duration) -> Result<Self, SftpTrouble> {
        let SftpChannel { stream, process } = channel;
        let ours = |error: std::io::Error| SftpTrouble::of_stream(&error, timeout);
        stream.set_read_timeout(Some(timeout)).map_err(ours)?;
        stream.set_write_timeout(Some(timeout)).map_err(ours)?;
        let mut session = Self {
            input: BufReader::with_capacity(GATHERED, stream),
            process,
            timeout,
            next: 0,
            gathered: hello(),
            abandoned: HashSet::new(),
            abilities: Abilities::default(),
            lengths: Lengths::default(),
        };
        session.flush()?;
        let packet = session.packet()?;
        let abilities = Abilities::read(&packet);
        session.abilities =
            abilities.ok_or(SftpTrouble::Senseless("what came first is no greeting of SFTP 3"))?;
        if session.abilities.limits
            && let SftpReply::Extended(answer) = session.call(&Request::Limits)?
        {
            session.lengths = Lengths::read(&answer).unwrap_or_default();
        }
        Ok(session)
    }

    /// Asks, and answers with the number that the answer will have.
    pub fn ask(&mut self, request: &Request<'_>) -> Result<u32, SftpTrouble> {
        let id = self.next;
        self.next = id.wrapping_add(1);
        self.gathered.extend_from_slice(&request.encode(id));
        if self.gathered.len() >= GATHERED {
            self.flush()?;
        }
        Ok(id)
    }

    /// Sends what was gathered.
    fn flush(&mut self) -> Result<(), SftpTrouble> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let sent = self.input.get_ref().write_all(&self.gathered);
        self.gathered.clear();
        sent.map_err(|error| self.lost(&error))
    }

    /// Nobody waits for the answer with that number any more.
    pub fn abandon(&mut self, id: u32) {
        self.abandoned.insert(id);
    }

    /// Whether it may be used for something else: answers that nobody waits for are few.
    pub fn is_clean(&self) -> bool {
        self.abandoned.len() < MAX_ABANDONED
    }

    /// The next answer that somebody waits for.
    pub fn hear(&mut self) -> Result<(u32, SftpReply), SftpTrouble> {
        self.flush()?;
        loop {
            let packet = self.packet()?;
            let read = SftpReply::read(&packet);
            let (id, reply) = read.ok_or(SftpTrouble::Senseless("what came is no answer of SFTP"))?;
            if !self.abandoned.remove(&id) {
                return Ok((id, reply));
            }
        }
    }

    /// A packet, without its length.
    fn packet(&mut self) -> Result<Vec<u8>, SftpTrouble> {
        let mut length = [0; LENGTH];
        self.input.read_exact(&mut length).map_err(|error| self.lost(&error))?;
        let length = u32::from_be_bytes(length) as usize;
        if length == 0 || length > MAX_PACKET {
            return Err(SftpTrouble::Senseless("what came is no packet of SFTP"));
        }
        let mut packet = vec![0; length];
        self.input.read_exact(&mut packet).map_err(|error| self.lost(&error))?;
        Ok(packet)
    }

    /// Asks and waits for the answer.
    pub fn call(&mut self, request: &Request<'_>) -> Result<SftpReply, SftpTrouble> {
        let id = self.ask(request)?;
        self.answer(id)
    }

    /// Waits for the answer with that number, where no other is waited for.
    pub fn answer(&mut self, id: u32) -> Result<SftpReply, SftpTrouble> {
        match self.hear()? {
            (heard, reply) if heard == id => Ok(reply),
            _ => Err(SftpTrouble::Senseless("an answer came to what was not asked")),
        }
    }

    /// Asks all of it at once, and answers in the same order.
    pub fn all(&mut self, requests: &[Request<'_>]) -> Result<Vec<SftpReply>, SftpTrouble> {
        let ids = requests.iter().map(|request| self.ask(request)).collect::<Result<Vec<u32>, _>>()?;
        let mut replies = vec![None; ids.len()];
        for _ in &ids {
            let (id, reply) = self.hear()?;
            let slot = ids.iter().position(|&asked| asked == id).and_then(|at| replies.get_mut(at));
            *slot.ok_or(SftpTrouble::Senseless("an answer came to what was not asked"))? = Some(reply);
        }
        let replies: Option<Vec<SftpReply>> = replies.into_iter().collect();
        replies.ok_or(SftpTrouble::Senseless("two answers came to one question"))
    }

    /// A request that is answered with a status.
    pub fn done(&mut self, request: &Request<'_>) -> Result<(), SftpTrouble> {
        self.call(request)?.done()
    }

    /// What a name or a handle is of.
    pub fn attributes(&mut self, request: &Request<'_>) -> Result<Attributes, SftpTrouble> {
        self.call(request)?.attributes()
    }

    /// Opens something.
    pub fn handle(&mut self, request: &Request<'_>) -> Result<Vec<u8>, SftpTrouble> {
        self.call(request)?.handle()
    }

    /// Closes what was opened; nobody waits for it.
    pub fn close(&mut self, handle: &[u8]) -> Result<(), SftpTrouble> {
        let id = self.ask(&Request::Close(handle))?;
        self.abandon(id);
        Ok(())
    }

    /// Why the stream ended: what carries it may know more.
    fn lost(&mut self, error: &std::io::Error) -> SftpTrouble {
        let trouble = SftpTrouble::of_stream(error, self.timeout);
        match &trouble {
            SftpTrouble::Lost(_) => self.process.complaint().map_or(trouble, SftpTrouble::Lost),
            _ => trouble,
        }
    }
}

/// What came is of another kind than was asked for.
pub(crate) const OTHER: SftpTrouble =
    SftpTrouble::Senseless("an answer came of another kind than was asked for");

impl SftpReply {
    /// That all is well.
    pub fn done(self) -> Result<(), SftpTrouble> {
        match self {
            Self::Status(status) if status.code == Status::OK => Ok(()),
            Self::Status(status) => Err(SftpTrouble::Status(status)),
            _ => Err(OTHER),
        }
    }

    pub fn attributes(self) -> Result<Attributes, SftpTrouble> {
        match self {
            Self::Attributes(attributes) => Ok(attributes),
            Self::Status(status) => Err(SftpTrouble::Status(status)),
            _ => Err(OTHER),
        }
    }

    pub fn handle(self) -> Result<Vec<u8>, SftpTrouble> {
        match self {
            Self::Handle(handle) => Ok(handle),
            Self::Status(status) => Err(SftpTrouble::Status(status)),
            _ => Err(OTHER),
        }
    }

    /// Some of a file; `None` at its end.
    pub fn data(self) -> Result<Option<Vec<u8>>, SftpTrouble> {
        match self {
            Self::Data(data) => Ok(Some(data)),
            Self::Status(status) if status.code == Status::END => Ok(None),
            Self::Status(status) => Err(SftpTrouble::Status(status)),
            _ => Err(OTHER),
        }
    }

    /// Some of a directory; `None` at its end.
    pub fn names(self) -> Result<Option<Vec<Name>>, SftpTrouble> {
        match self {
            Self::Names(names) => Ok(Some(names)),
            Self::Status(status) if status.code == Status::END => Ok(None),
            Self::Status(status) => Err(SftpTrouble::Status(status)),
            _ => Err(OTHER),
        }
    }
}

/// That there is nothing that reaches hosts by ssh.
pub(crate) fn no_carrier() -> SftpTrouble {
    SftpTrouble::Lost(Error::new(ErrorKind::Usage, "hosts are not reached by ssh here"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::sftp::packet::Packet;

    struct Nothing;

    impl SftpProcess for Nothing {
        fn complaint(&mut self) -> Option<Error> {
            None
        }
    }

    /// A session with a server that sends those packets, whatever it is asked.
    fn with(packets: &[Vec<u8>]) -> Result<Session, SftpTrouble> {
        let (stream, theirs) = UnixStream::pair().expect("a pair");
        (&theirs).write_all(&packets.concat()).expect("sent");
        theirs.shutdown(std::net::Shutdown::Write).expect("ended");
        std::mem::forget(theirs);
        Session::greet(SftpChannel { stream, process: Box::new(Nothing) }, Duration::from_secs(5))
    }

    fn greeting() -> Vec<u8> {
        Packet::new(2).u32(3).finish()
    }

    fn data(id: u32, data: &[u8]) -> Vec<u8> {
        Packet::new(103).u32(id).string(data).finish()
    }

    #[test]
    fn answers_find_their_questions_in_any_order() {
        let mut session = with(&[greeting(), data(2, b"c"), data(0, b"a"), data(1, b"b")]).expect("greeted");
        let read = Request::Read { handle: b"h", offset: 0, length: 1 };
        let replies = session.all(&[read; 3]).expect("answered");
        let wanted = [b"a", b"b", b"c"].map(|data| SftpReply::Data(data.to_vec()));
        assert_eq!(replies, wanted);
    }

    #[test]
    fn what_nobody_waits_for_is_passed_over() {
        let mut session = with(&[greeting(), data(0, b"a"), data(1, b"b")]).expect("greeted");
        let read = Request::Read { handle: b"h", offset: 0, length: 1 };
        let first = session.ask(&read).expect("asked");
        session.abandon(first);
        assert_eq!(session.call(&read).expect("answered"), SftpReply::Data(b"b".to_vec()));
    }

    #[test]
    fn nonsense_ends_a_session_and_costs_no_memory() {
        let banner = b"Welcome to the host\n".to_vec();
        for packets in [
            vec![banner],
            vec![Packet::new(2).u32(4).finish()],
            vec![b"\0\0\0\0".to_vec()],
            vec![b"\xff\xff\xff\xff\x02".to_vec()],
        ] {
            assert!(matches!(with(&packets), Err(SftpTrouble::Senseless(_))));
        }
        assert!(matches!(with(&[]), Err(SftpTrouble::Lost(_))));
        let read = Request::Read { handle: b"h", offset: 0, length: 1 };
        for packet in [data(9, b"a"), Packet::new(99).u32(0).finish()] {
            let mut session = with(&[greeting(), packet]).expect("greeted");
            assert!(matches!(session.call(&read), Err(SftpTrouble::Senseless(_))));
        }
        let mut session = with(&[greeting(), data(0, b"a"), data(0, b"a")]).expect("greeted");
        assert!(session.all(&[read; 2]).is_err());
    }

    #[test]
    fn a_silent_server_ends_within_the_time() {
        let (stream, theirs) = UnixStream::pair().expect("a pair");
        let channel = SftpChannel { stream, process: Box::new(Nothing) };
        let greeted = Session::greet(channel, Duration::from_millis(50));
        assert!(matches!(greeted, Err(SftpTrouble::Silent(_))));
        drop(theirs);
    }
}
