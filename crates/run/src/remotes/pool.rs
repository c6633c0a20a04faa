//! Several endpoints over one file system under one name, each with its part of the work.

use std::fmt;
use std::str::FromStr;

use tidegate_transfer::error::{Error, usage};
use tidegate_transfer::wire::ticket::Address;

/// What the text of a pool begins with, where names are kept.
pub const SCHEME: &str = "pool:";

/// Most endpoints of one, and the largest weight.
const MAX_MEMBERS: usize = 256;
const MAX_WEIGHT: u32 = 1000;

/// An endpoint of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where the tree is, as a user writes it: `name:/path` or a ticket.
    pub place: String,
    /// Its part beside the others'.
    pub weight: u32,
}

impl Member {
    /// Without its secret, for people.
    pub fn public(&self) -> String {
        match Address::parse(self.place.as_bytes()) {
            Ok(address) => address.public(),
            Err(_) => self.place.clone(),
        }
    }
}

impl FromStr for Member {
    type Err = Error;

    /// Reads `PLACE` or `PLACE=WEIGHT`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
        let (place, weight) = match text.rsplit_once('=').filter(|(_, weight)| number(weight)) {
            Some((place, weight)) => (place, weight.parse().unwrap_or(u32::MAX)),
            None => (text, 1),
        };
        if !(1..=MAX_WEIGHT).contains(&weight) {
            return Err(usage(format!("the weight of an endpoint of a pool is 1 to {MAX_WEIGHT}")));
        }
        if place.is_empty() || place.contains(char::is_whitespace) {
            return Err(usage("an endpoint of a pool is NAME:/path or a ticket, without blanks"));
        }
        Ok(Self { place: place.to_owned(), weight })
    }
}

/// Endpoints that serve one tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// They, in the order in which they were named.
    pub members: Vec<Member>,
}

impl Pool {
    /// Of these.
    pub fn new(members: Vec<Member>) -> Result<Self, Error> {
        if members.is_empty() || members.len() > MAX_MEMBERS {
            return Err(usage(format!("a pool has 1 to {MAX_MEMBERS} endpoints, and not {}", members.len())));
        }
        for (at, member) in members.iter().enumerate() {
            if members[..at].iter().any(|earlier| earlier.place == member.place) {
                return Err(usage(format!("{} is in the pool twice", member.public())));
            }
        }
        Ok(Self { members })
    }

    /// Reads what [`whole`](Self::whole) wrote.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let members = text.strip_prefix(SCHEME).unwrap_or(text).split_whitespace().map(str::parse);
        Self::new(members.collect::<Result<_, _>>()?)
    }

    /// As it is kept, with the secrets of tickets.
    pub fn whole(&self) -> String {
        let members = self.members.iter().map(|member| format!("{}={}", member.place, member.weight));
        format!("{SCHEME}{}", members.collect::<Vec<_>>().join(" "))
    }
}

/// Without secrets, for people.
impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = self.members.iter().map(|member| match member.weight {
            1 => member.public(),
            weight => format!("{}={weight}", member.public()),
        });
        write!(f, "pool of {}", members.collect::<Vec<_>>().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_read_as_it_was_kept_and_told_without_secrets() {
        let pool = Pool::parse("pool:dtn1:/archive dtn2:/a=b dtn3:/archive=12").expect("a pool");
        let weights: Vec<_> = pool.members.iter().map(|member| (&member.place[..], member.weight)).collect();
        assert_eq!(weights, [("dtn1:/archive", 1), ("dtn2:/a=b", 1), ("dtn3:/archive", 12)]);
        assert_eq!(Pool::parse(&pool.whole()).as_ref(), Ok(&pool));
        assert_eq!(pool.to_string(), "pool of dtn1:/archive dtn2:/a=b dtn3:/archive=12");
        for wrong in ["", "a:/b=0", "a:/b=1001", "a:/b=99999999999", "a:/b a:/b=2", "=3"] {
            let error = Pool::parse(wrong).expect_err(wrong);
            assert!(!error.message.contains('\n'), "{error}");
        }
    }
}
