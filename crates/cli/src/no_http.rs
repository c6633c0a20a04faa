//! What stands for [`over_http`](crate::over_http) where the program is built without it.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tidegate_transfer::endpoint::Endpoint;

pub use self::{NoArgs as HttpArgs, NoRenewal as Renewal, NotServed as OverHttp};

/// No options.
#[derive(Debug, Args)]
pub struct NoArgs {}

/// What is never made.
pub enum NotServed {}

/// No certificates.
#[derive(Clone, Default)]
pub struct NoRenewal;

impl NoArgs {
    pub fn private(&self) -> impl Iterator<Item = PathBuf> {
        std::iter::empty()
    }

    pub fn serve(&self, _endpoint: &Arc<Endpoint>, _host: &str) -> anyhow::Result<Option<NotServed>> {
        Ok(None)
    }
}

impl NotServed {
    pub fn renewal(&self) -> NoRenewal {
        match *self {}
    }

    pub fn stop(self) {
        match self {}
    }
}

impl NoRenewal {
    pub fn is_none(&self) -> bool {
        true
    }

    pub fn renew_and_tell(&self) {}
}
