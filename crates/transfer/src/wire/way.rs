//! How a connection to an endpoint comes about: dialled by whoever wants one, or brought by somebody who has a way there.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::sys::net::{self, TcpStream};
use crate::wire::greeting::Spoken;
use crate::wire::joined::Neighbour;
use crate::wire::ticket::Address;

/// Where the host of `address` is to be found.
pub fn resolve(address: &Address) -> Result<Vec<SocketAddr>> {
    net::resolve(&address.host, address.port)
        .map_err(|error| Error::connection("cannot find", address.place(), error))
}

/// Brings connections to one endpoint, which proves itself on them as on any other.
pub trait Carrier: std::fmt::Debug + Send + Sync {
    /// A new connection, within `patience`.
    fn connection(&self, patience: Duration) -> io::Result<TcpStream>;
}

/// How connections to one endpoint are had.
#[derive(Clone, Debug)]
pub enum Way {
    /// By dialling the first of these that answers.
    Dial(Vec<SocketAddr>),
    /// From whoever brings them; with what is spoken there, where that is known.
    Carried(Arc<dyn Carrier>, Option<Spoken>),
}

impl Way {
    /// Dials the host of `address`, wherever it may be found by now.
    pub fn to(address: &Address) -> Result<Self> {
        resolve(address).map(Self::Dial)
    }

    /// The same to where a connection was found to lead: a name may lead elsewhere by now, and there nobody knows the
    /// session.
    pub(crate) fn settled(&self, found: SocketAddr) -> Self {
        match self {
            Self::Dial(_) => Self::Dial(vec![found]),
            Self::Carried(..) => self.clone(),
        }
    }

    /// What is spoken there, where that is known beforehand.
    pub(crate) fn spoken(&self) -> Option<&Spoken> {
        match self {
            Self::Dial(_) => None,
            Self::Carried(_, spoken) => spoken.as_ref(),
        }
    }

    /// A connection, within `patience` for each that is tried.
    pub(crate) fn connect(&self, patience: Duration) -> io::Result<TcpStream> {
        match self {
            Self::Carried(carrier, _) => carrier.connection(patience),
            Self::Dial(candidates) => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                for candidate in candidates {
                    match net::connect(candidate, patience) {
                        Ok(socket) => return Ok(socket),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }
}

/// Who brings connections to which endpoints; all others are dialled. And which of them are in this process.
#[derive(Clone, Debug, Default)]
pub struct Carriers {
    ways: Vec<(String, Way)>,
    neighbours: Vec<(String, Arc<dyn Neighbour>)>,
}

impl Carriers {
    /// Has `carrier` bring all connections to the endpoint at `address`. If it is known what is `spoken` there, nothing waits
    /// for the endpoint to say so.
    pub fn carry(&mut self, address: &Address, carrier: Arc<dyn Carrier>, spoken: Option<Spoken>) {
        self.ways.push((address.place(), Way::Carried(carrier, spoken)));
    }

    /// Has what is sent to the endpoint at `address`, which is this `neighbour`, handed over to it.
    pub fn join(&mut self, address: &Address, neighbour: Arc<dyn Neighbour>) {
        self.neighbours.push((address.place(), neighbour));
    }

    /// The endpoint at `address`, if it is in this process.
    pub fn neighbour(&self, address: &Address) -> Option<&Arc<dyn Neighbour>> {
        let place = address.place();
        self.neighbours.iter().find(|(known, _)| *known == place).map(|(_, neighbour)| neighbour)
    }

    /// How the endpoint at `address` is reached.
    pub fn way(&self, address: &Address) -> Result<Way> {
        let place = address.place();
        match self.ways.iter().find(|(known, _)| *known == place) {
            Some((_, way)) => Ok(way.clone()),
            None => Way::to(address),
        }
    }
}
