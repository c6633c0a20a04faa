//! An endpoint in this process, for copies from here to here and for the demo.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tidegate_transfer::endpoint::{Config, Endpoint};
use tidegate_transfer::error::Error;
use tidegate_transfer::quota::Allowance;
use tidegate_transfer::sys::thread::{self, JoinHandle};
use tidegate_transfer::wire::ticket::{Address, Claims};
use tidegate_transfer::wire::way::Carriers;

/// Serves until it is dropped, which waits for what runs.
pub struct Loopback {
    endpoint: Arc<Endpoint>,
    serving: Option<JoinHandle<()>>,
}

impl Loopback {
    /// Serves `root` on the loopback.
    pub fn start(root: &Path, state: &Path) -> Result<Self, Error> {
        let config = Config {
            root: root.to_path_buf(),
            follow: Vec::new(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            state: state.join("loopback"),
            private: Vec::new(),
            serves_owner: true,
            read_only: false,
            allow_delete: false,
            clear: true,
            pki: None,
            advertise: None,
            iperf3: None,
            allow_local_targets: true,
            allowance: Allowance::UNLIMITED,
            fleeting: false,
        };
        let endpoint = Endpoint::bind(config)?;
        let serving = {
            let endpoint = Arc::clone(&endpoint);
            thread::spawn(move || endpoint.serve())
        };
        Ok(Self { endpoint, serving: Some(serving) })
    }

    /// Its address, with a full ticket.
    pub fn address(&self) -> Result<Address, Error> {
        self.endpoint.address(&Claims::OWNER)
    }

    /// Has what is sent to it handed over, as it is in this process.
    pub fn join(&self, carriers: &mut Carriers) -> Result<(), Error> {
        carriers.join(&self.address()?, self.endpoint.clone());
        Ok(())
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.endpoint.drain();
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}
