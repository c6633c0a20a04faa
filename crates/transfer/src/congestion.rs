//! Which congestion control streams have: what is asked for, and what the kernel lets them have.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::sys::net::TcpStream;
use crate::sys::tcp;

/// What is said of a name that the kernel does not know.
const NOT_THERE: &str = "the kernel has no such congestion control";

/// Longest name, as the kernel has it.
const MAX_NAME: usize = 15;
/// What the names of those begin with that go by a model of the path.
const MODEL_BASED: &str = "bbr";
/// One that goes by losses.
const LOSS_BASED: &str = "cubic";

/// Which congestion control is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Congestion {
    /// One that goes by losses, and another where packets are lost though nothing queues.
    #[default]
    Auto,
    /// Whatever the system has.
    System,
    /// The one that the kernel knows by this name.
    Named(CongestionName),
}

/// A congestion control's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CongestionName(String);

/// What both ends agree on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CongestionTerms {
    /// What is asked for.
    pub asked: Congestion,
    /// Whether one that goes by a model of the path runs under a pace, as it would take what others have.
    pub bounded: bool,
}

/// Nobody asks for anything.
impl Default for CongestionTerms {
    fn default() -> Self {
        Self { asked: Congestion::System, bounded: false }
    }
}

impl CongestionName {
    /// As it is asked of the kernel.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What is tried where packets are lost by chance.
    pub(crate) fn model_based() -> Self {
        Self(MODEL_BASED.to_owned())
    }

    /// What streams have on these terms that nobody gives anything else.
    pub(crate) fn plain(terms: &CongestionTerms) -> Self {
        terms
            .first()
            .unwrap_or_else(|| Self(tcp::system_congestion().unwrap_or_else(|_| LOSS_BASED.to_owned())))
    }

    /// Whether what the kernel calls so goes by a model of the path, and not by losses.
    pub(crate) fn goes_by_a_model(name: &str) -> bool {
        name.starts_with(MODEL_BASED)
    }

    /// Whether it does.
    pub(crate) fn is_model_based(&self) -> bool {
        Self::goes_by_a_model(&self.0)
    }

    /// Why the kernel of this host does not let streams have it, if it does not.
    fn refusal(&self) -> Option<String> {
        let error = tcp::try_congestion(&self.0).err()?;
        Some(match error.kind() {
            std::io::ErrorKind::NotFound => NOT_THERE.to_owned(),
            std::io::ErrorKind::PermissionDenied => {
                "net.ipv4.tcp_allowed_congestion_control does not allow it".to_owned()
            }
            _ => error.to_string(),
        })
    }
}

impl FromStr for CongestionName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        match (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_plain) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!(
                "no congestion control '{}': choose auto, system, or a name such as cubic or bbr",
                text.chars().take(40).collect::<String>().escape_debug()
            )),
        }
    }
}

impl FromStr for Congestion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "system" => Ok(Self::System),
            name => name.parse().map(Self::Named),
        }
    }
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Auto => "auto",
            Self::System => "system",
            Self::Named(name) => &name.0,
        })
    }
}

impl TryFrom<String> for Congestion {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Congestion> for String {
    fn from(congestion: Congestion) -> Self {
        congestion.to_string()
    }
}

impl Congestion {
    /// Refuses a name that streams of this host cannot have.
    pub fn check_here(&self) -> Result<()> {
        let Self::Named(name) = self else { return Ok(()) };
        name.refusal().map_or(Ok(()), |why| {
            let there = tcp::congestion_controls().join(", ");
            let why = format!("--congestion {}: {why}: there are {there}", name.0);
            Err(Error::new(ErrorKind::Usage, why))
        })
    }

    /// What connections to servers of others are given, right after they are made.
    ///
    /// # Errors
    /// This host has nothing of that name.
    pub fn for_servers(&self) -> Result<Option<CongestionName>> {
        self.check_here()?;
        if *self == Self::Auto {
            tracing::debug!(
                "connections to servers keep the system's congestion control: it is not seen what they lose"
            );
        }
        Ok(match self {
            Self::Named(name) => Some(name.clone()),
            Self::Auto | Self::System => None,
        })
    }
}

impl CongestionTerms {
    /// What a stream is given before it carries anything; `None` for what the system gives it.
    pub(crate) fn first(&self) -> Option<CongestionName> {
        match &self.asked {
            Congestion::Named(name) => Some(name.clone()),
            Congestion::System => None,
            Congestion::Auto => {
                let takes_all =
                    tcp::system_congestion().is_ok_and(|name| CongestionName::goes_by_a_model(&name));
                (self.bounded && takes_all).then(|| CongestionName(LOSS_BASED.to_owned()))
            }
        }
    }

    /// What the other end said of it that its streams cannot have.
    pub(crate) fn hear(&self, refused: Option<&Error>) {
        match (&self.asked, refused) {
            (_, None) => {}
            (Congestion::Named(_), Some(why)) => tracing::warn!("at the other end {}", why.message),
            (_, Some(why)) => tracing::debug!("at the other end {}", why.message),
        }
    }

    /// Takes of what a peer asks for what the kernel of this host lets streams have, and tells why no more. A name that is not
    /// listed is not asked of the kernel: it might load a module for it.
    pub(crate) fn agree(&mut self) -> Option<Error> {
        let name = match &self.asked {
            Congestion::Named(name) => name.clone(),
            Congestion::Auto => CongestionName::model_based(),
            Congestion::System => return None,
        };
        let there = tcp::congestion_controls();
        let why = match there.contains(&name.0) {
            true => name.refusal()?,
            false => NOT_THERE.to_owned(),
        };
        if matches!(self.asked, Congestion::Named(_)) {
            self.asked = Congestion::System;
        }
        let (there, instead) = (there.join(", "), CongestionName::plain(self));
        let why = format!("{}: {why}: there are {there}, and streams have {}", name.0, instead.0);
        Some(Error::new(ErrorKind::Denied, why))
    }
}

/// Gives a connection the congestion control of that name; one that cannot have it keeps what it has.
pub fn give(socket: &TcpStream, name: &CongestionName) {
    if let Err(error) = tcp::set_congestion(socket, &name.0) {
        tracing::debug!("a connection keeps its congestion control, and not {}: {error}", name.0);
    }
}
