//! Where the files that are put come from.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use tidegate_fetch::remote::servers::ServerSettings;
use tidegate_fetch::remote::shown;
use tidegate_fetch::server_source::ServerOrigin;
use tidegate_run::file_system;
use tidegate_run::place::{as_content, end};
use tidegate_spec::pair::Site;
use tidegate_spec::put::PutLinks;
use tidegate_transfer::error::{Result, usage};
use tidegate_transfer::selection::Selection;
use tidegate_transfer::store::Source;
use tidegate_transfer::store::file_source::FileSource;
use tidegate_transfer::terms::Links;
use tidegate_transfer::transfer::Interrupt;

use super::{Place, PutArgs};
use crate::signals::end_anyway;

/// What is put, all of it in one kind of place.
pub(super) enum PutSources {
    /// Paths of this host.
    Local(Vec<Vec<u8>>),
    /// Files of servers, the first of them at that address.
    Servers(ServerOrigin, String),
}

impl PutSources {
    /// What is `typed`, to be put to `place`; servers are asked as `settings` say.
    pub fn of(typed: &[OsString], place: &Place, settings: &ServerSettings, args: &PutArgs) -> Result<Self> {
        if !typed.iter().any(|source| end(source).is_server()) {
            let path = |source: &OsString| as_content(source.as_bytes()).to_vec();
            return Ok(Self::Local(typed.iter().map(path).collect()));
        }
        let url = |source: &OsString| source.to_str().filter(|_| end(source).is_server()).map(str::to_owned);
        let Some(urls) = typed.iter().map(url).collect::<Option<Vec<_>>>() else {
            return Err(usage("some sources are at servers, and others are not: put them by themselves"));
        };
        end_anyway();
        // Nothing is waited for where it is only said what would be done.
        let retry_for = if args.dry_run { Duration::ZERO } else { args.patience.retry_for };
        let origin = ServerOrigin::new(&urls, ServerSettings { retry_for, ..settings.clone() })?;
        let destination = place.url()?;
        match origin.meets(&destination) {
            Some(source) => Err(usage(format!(
                "{} would be copied onto or into itself at {}: name another destination",
                shown(source),
                shown(&destination)
            ))),
            None => Ok(Self::Servers(origin, urls[0].clone())),
        }
    }

    /// A source of it that offers what is selected.
    pub fn open(
        &self,
        selection: &Selection,
        args: &PutArgs,
        interrupt: &Interrupt,
    ) -> Result<Box<dyn Source>> {
        let links = args.spec.links.map(links);
        Ok(match self {
            Self::Local(paths) => {
                let source = FileSource::local(paths, links.unwrap_or(Links::Follow))?;
                Box::new(source.selecting(selection.clone())?)
            }
            Self::Servers(origin, _) => {
                let links = links.unwrap_or(Links::Skip);
                Box::new(origin.select(selection, links, args.control.max_workers, interrupt)?)
            }
        })
    }

    /// Where they are, as paths are remembered.
    pub fn site(&self) -> Option<Site> {
        match self {
            Self::Local(paths) => {
                file_system::site_of(Path::new(std::ffi::OsStr::from_bytes(paths.first()?)))
            }
            Self::Servers(_, first) => Site::of(first).ok(),
        }
    }

    /// How long the run is begun again where somebody is away: each request is tried again by itself.
    pub fn retry_for(&self, args: &PutArgs) -> Duration {
        match self {
            Self::Local(_) => Duration::ZERO,
            Self::Servers(..) if args.dry_run => Duration::ZERO,
            Self::Servers(..) => args.patience.retry_for,
        }
    }
}

const fn links(rule: PutLinks) -> Links {
    match rule {
        PutLinks::Skip => Links::Skip,
        PutLinks::Follow => Links::Follow,
    }
}
