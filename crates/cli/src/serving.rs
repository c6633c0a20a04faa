//! An endpoint in a Rust program's process: a directory that is served for as long as a value lives.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tidegate_run::drive::raise_file_limit;
use tidegate_run::remotes;
use tidegate_run::settings::StateArgs;
use tidegate_transfer::endpoint::{Config, Endpoint as Served};
use tidegate_transfer::error::Error;
use tidegate_transfer::wire::ticket::Claims;

use crate::moves::Failure;

/// A directory that is served to those who have its address: what `tidegate endpoint` does.
#[derive(Debug)]
pub struct Endpoint;

/// An endpoint that is to be begun.
#[derive(Clone, Debug)]
pub struct EndpointBuilder {
    root: PathBuf,
    listen: SocketAddr,
    advertise: Option<String>,
    is_writable: bool,
    state: Option<PathBuf>,
}

impl Endpoint {
    /// Of the directory `root`, read alone, and on this host at a port that is free.
    pub fn builder(root: impl Into<PathBuf>) -> EndpointBuilder {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        EndpointBuilder { root: root.into(), listen, advertise: None, is_writable: false, state: None }
    }
}

impl EndpointBuilder {
    /// Where it listens, as `0.0.0.0:7117` for other hosts.
    #[must_use]
    pub fn listen(mut self, at: SocketAddr) -> Self {
        self.listen = at;
        self
    }

    /// How others reach it, `HOST` or `HOST:PORT`, if not by where it listens.
    #[must_use]
    pub fn advertise(mut self, place: impl Into<String>) -> Self {
        self.advertise = Some(place.into());
        self
    }

    /// Whoever has its address may put files there, too.
    #[must_use]
    pub fn writable(mut self) -> Self {
        self.is_writable = true;
        self
    }

    /// Where key and secret are kept, in place of the usual directory: with them the address stays the same.
    #[must_use]
    pub fn state(mut self, directory: impl Into<PathBuf>) -> Self {
        self.state = Some(directory.into());
        self
    }

    /// Begins to serve, on threads of its own.
    ///
    /// # Errors
    /// The directory is not there, or it cannot listen.
    pub fn start(self) -> Result<Serving, Failure> {
        self.serving().map_err(|error| Failure::of(error.kind, error.to_string()))
    }

    fn serving(self) -> Result<Serving, Error> {
        raise_file_limit();
        let advertise = self.advertise.map(|place| place.parse()).transpose()?;
        // No peer finds the tickets that this user has for other endpoints.
        let private = remotes::file().ok().and_then(|file| Some(file.parent()?.to_path_buf()));
        let config = Config {
            listen: self.listen,
            private: private.into_iter().collect(),
            read_only: !self.is_writable,
            advertise,
            ..Config::local(self.root, StateArgs::at(self.state).state_dir()?)
        };
        let endpoint = Served::bind(config)?;
        let address = endpoint.address(&Claims { write: self.is_writable, ..Claims::FULL })?.to_string();
        let served = Arc::clone(&endpoint);
        let thread = Some(thread::spawn(move || served.serve()));
        Ok(Serving { endpoint, address, thread })
    }
}

/// An endpoint that serves. Dropped, it takes nobody new, and what is under way goes on to its end.
pub struct Serving {
    endpoint: Arc<Served>,
    address: String,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// Its address, with a ticket for all that it serves; a path is appended to it. It is a secret.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Takes nobody new, and waits until what is under way has ended.
    pub fn stop(mut self) {
        self.endpoint.drain();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.endpoint.drain();
    }
}

// Its address has a ticket.
tidegate_contract::opaque!(Serving);

#[cfg(test)]
mod tests {
    use std::fs;

    use tidegate_contract::error_kind::ErrorKind;

    use super::*;
    use crate::moves::Transfer;

    #[test]
    fn a_directory_is_served_until_it_is_stopped() {
        let home = tempfile::tempdir().expect("a directory");
        let at = |name: &str| home.path().join(name);
        fs::create_dir(at("root")).expect("made");
        fs::write(at("root/a"), "content").expect("written");
        let begun = |is_writable: bool| {
            let builder = Endpoint::builder(at("root")).state(at("state"));
            let builder = if is_writable { builder.writable() } else { builder };
            builder.start().expect("serves")
        };
        let copy = |from: String, to: String| {
            Transfer::builder(from, to).state(at("other")).retry_for(std::time::Duration::ZERO).start()
        };
        let there = at("there/").display().to_string();
        let serving = begun(false);
        let summary = copy(format!("{}a", serving.address()), there.clone()).expect("begun").wait();
        assert_eq!(summary.expect("arrived").files.ok, 1);
        let put = copy(at("root/a").display().to_string(), format!("{}b", serving.address()));
        let refused = put.expect("begun").wait().expect_err("it is read alone");
        assert!(refused.kind == ErrorKind::Denied, "{refused:?}");
        assert!(!format!("{serving:?}").contains(serving.address()));
        let address = serving.address().to_owned();
        serving.stop();
        let gone = copy(format!("{address}a"), there).expect("begun").wait().expect_err("nobody is there");
        assert_eq!(gone.kind, ErrorKind::Connection, "{gone:?}");
        let serving = begun(true);
        let put = copy(at("root/a").display().to_string(), format!("{}b", serving.address()));
        assert!(put.expect("begun").wait().is_ok_and(|summary| summary.verified));
        assert_eq!(fs::read(at("root/b")).expect("there"), b"content");
    }

    #[test]
    fn what_cannot_be_served_is_refused_in_one_line() {
        let home = tempfile::tempdir().expect("a directory");
        let builder = |root: &str| Endpoint::builder(home.path().join(root)).state(home.path().join("state"));
        for (builder, wanted) in [
            (builder("none"), "none"),
            (builder("").advertise("a host"), "HOST[:PORT]"),
            (builder("").listen(SocketAddr::from(([203, 0, 113, 7], 0))), "203.0.113.7"),
        ] {
            let why = builder.start().expect_err(wanted).to_string();
            assert!(why.contains(wanted) && !why.contains('\n'), "{why}");
        }
    }
}
