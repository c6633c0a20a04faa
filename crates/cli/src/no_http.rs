//! What stands for [`over_http`](crate::over_http) where the program is built without it.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tidegate_transfer::endpoint::Endpoint;

/// No options.
#[derive(Debug, Args)]
pub struct HttpArgs {}

/// What is never made.
pub enum OverHttp {}

/// No certificates.
#[derive(Clone, Default)]
pub struct Renewal;

impl HttpArgs {
    pub fn private(&self) -> impl Iterator<Item = PathBuf> {
        std::iter::empty()
    }

    pub fn serve(&self, _endpoint: &Arc<Endpoint>, _host: &str) -> anyhow::Result<Option<OverHttp>> {
        Ok(None)
    }
}

impl OverHttp {
    pub fn renewal(&self) -> Renewal {
        match *self {}
    }

    pub fn stop(self) {
        match self {}
    }
}

impl Renewal {
    pub fn is_none(&self) -> bool {
        true
    }

    pub fn renew_and_tell(&self) {}
}
