//! Where the files that are put come from.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use tidegate_contract::redact;
use tidegate_contract::text::show;
use tidegate_fetch::endpoint_source::{EndpointSettings, EndpointSource};
use tidegate_fetch::remote::servers::ServerSettings;
use tidegate_fetch::remote::shown;
use tidegate_fetch::server_source::{ServerOrigin, lies_beneath};
use tidegate_run::file_system;
use tidegate_run::place::{Place, Sources, end, sources};
use tidegate_run::ssh::target::Target;
use tidegate_run::ssh::{FarHost, Words};
use tidegate_spec::pair::Site;
use tidegate_spec::put::PutLinks;
use tidegate_transfer::error::{Result, usage};
use tidegate_transfer::selection::Selection;
use tidegate_transfer::store::Source;
use tidegate_transfer::store::file_source::FileSource;
use tidegate_transfer::sys::sync::Mutex;
use tidegate_transfer::terms::Links;
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::transfer::file_client::{FileClient, SESSION_PATIENCE};
use tidegate_transfer::wire::ticket::{Address, SCHEME};
use tidegate_transfer::wire::way::Carriers;
use url::Url;

use super::{Place as Destination, PutArgs};
use crate::signals::end_anyway;

/// What is put, all of it in one kind of place.
pub(super) enum PutSources {
    /// Paths of this host.
    Local(Vec<Vec<u8>>),
    /// Paths at an endpoint, or at a host that ssh reaches.
    Far(Box<FarSources>),
    /// Files of servers, the first of them at that address.
    Servers(Box<ServerOrigin>, String),
}

impl PutSources {
    /// What is `typed`, to be put to `place`; servers are asked as `settings` say.
    pub fn of(
        typed: &[OsString],
        place: &Destination,
        settings: &ServerSettings,
        args: &PutArgs,
    ) -> Result<Self> {
        if !typed.iter().any(|source| end(source).is_server()) {
            let far = |place, paths| Self::Far(Box::new(FarSources::new(place, paths)));
            return Ok(match sources(typed)? {
                Sources::Local(paths) => Self::Local(paths),
                Sources::Endpoint(address, paths) => far(FarPlace::Endpoint(address), paths),
                Sources::Ssh(target, paths) => {
                    if args.spec.deletion.is_wanted() {
                        check_mirror(&target, &paths, &place.url()?)?;
                    }
                    far(FarPlace::Ssh(target), paths)
                }
            });
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
        if args.spec.deletion.is_wanted() {
            origin.check_mirror(&destination)?;
        }
        match origin.meets(&destination) {
            Some(source) => Err(usage(format!(
                "{} would be copied onto or into itself at {}: name another destination",
                shown(source),
                shown(&destination)
            ))),
            None => Ok(Self::Servers(Box::new(origin), urls[0].clone())),
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
        let (mirrored, moving) = (args.spec.deletion.is_wanted(), args.spec.deletion.moving);
        Ok(match self {
            Self::Local(paths) => {
                let source = FileSource::local(paths, links.unwrap_or(Links::Follow))?;
                Box::new(source.selecting(selection.clone())?.mirrored(mirrored)?.moved(moving)?)
            }
            Self::Far(_) | Self::Servers(..) if moving => {
                return Err(usage(
                    "--move removes files of this host once they are put, and these are elsewhere: leave it out",
                ));
            }
            Self::Far(far) => Box::new(far.open(selection, links, args, interrupt)?),
            Self::Servers(origin, _) => {
                let links = links.unwrap_or(Links::Skip);
                let source = origin.select(selection, links, args.control.max_workers, interrupt)?;
                Box::new(source.mirrored(mirrored))
            }
        })
    }

    /// Where they are, as paths are remembered.
    pub fn site(&self) -> Option<Site> {
        match self {
            Self::Local(paths) => file_system::site_of(Path::new(OsStr::from_bytes(paths.first()?))),
            Self::Far(far) => Site::of(&far.place.address()).ok(),
            Self::Servers(_, first) => Site::of(first).ok(),
        }
    }

    /// How long the run is begun again where somebody is away: each request is tried again by itself.
    pub fn retry_for(&self, args: &PutArgs) -> Duration {
        match self {
            Self::Local(_) => Duration::ZERO,
            Self::Far(_) | Self::Servers(..) => patience(args),
        }
    }

    /// The first of them, for people.
    pub fn first(&self) -> String {
        match self {
            Self::Local(paths) => paths.first().map(|path| show(path).into_owned()).unwrap_or_default(),
            Self::Far(far) => far.first(),
            Self::Servers(_, first) => redact::public_text(first),
        }
    }

    /// What errors call a host that ssh reaches.
    pub fn words(&self) -> Words {
        match self {
            Self::Far(far) => far.words.clone(),
            Self::Local(_) | Self::Servers(..) => Words::default(),
        }
    }
}

/// Refuses a mirror at `destination` in which what lies at a host that ssh reaches would be removed.
fn check_mirror(target: &Target, paths: &[Vec<u8>], destination: &Url) -> Result<()> {
    let mut url = destination.clone();
    if destination.scheme() != "sftp" || url.set_host(Some(target.host())).is_err() {
        return Ok(());
    }
    for path in paths {
        let place = Place::Ssh(target.clone(), path.clone()).show();
        let home = if path.starts_with(b"/") { "" } else { "/~/" };
        url.set_path(&format!("{home}{}", String::from_utf8_lossy(path).replace('%', "%25")));
        if lies_beneath(&url, destination) {
            let to = shown(destination);
            return Err(usage(format!(
                "--delete would remove {place}, which lies in {to}: name another destination"
            )));
        }
    }
    Ok(())
}

/// How long who has the sources is waited for: not where it is only said what would be done.
fn patience(args: &PutArgs) -> Duration {
    if args.dry_run { Duration::ZERO } else { args.patience.retry_for }
}

/// Paths elsewhere, and the host that they are at while it is reached.
pub(super) struct FarSources {
    place: FarPlace,
    paths: Vec<Vec<u8>>,
    words: Words,
    host: Mutex<Option<FarHost>>,
}

enum FarPlace {
    Endpoint(Address),
    Ssh(Target),
}

impl FarPlace {
    fn address(&self) -> String {
        match self {
            Self::Endpoint(address) => format!("{SCHEME}{}", address.place()),
            Self::Ssh(target) => target.to_string(),
        }
    }
}

impl FarSources {
    fn new(place: FarPlace, paths: Vec<Vec<u8>>) -> Self {
        Self { place, paths, words: Words::default(), host: Mutex::default() }
    }

    fn first(&self) -> String {
        let path = self.paths.first().map_or(&b""[..], Vec::as_slice);
        match &self.place {
            FarPlace::Endpoint(address) => address.clone().with_path(path.to_vec()).public(),
            FarPlace::Ssh(target) => Place::Ssh(target.clone(), path.to_vec()).show(),
        }
    }

    fn open(
        &self,
        selection: &Selection,
        links: Option<Links>,
        args: &PutArgs,
        interrupt: &Interrupt,
    ) -> Result<EndpointSource> {
        let settings = EndpointSettings {
            links,
            most: args.control.max_workers,
            retry_for: patience(args),
            mirrored: args.spec.deletion.is_wanted(),
        };
        let connect = |address: &Address, carriers: &Carriers, pki| {
            FileClient::connect(address, carriers, pki, settings.most, SESSION_PATIENCE, interrupt)
        };
        let source = |client, paths: &[Vec<u8>]| {
            EndpointSource::new(client, paths, selection.clone(), &settings, interrupt)
        };
        match &self.place {
            FarPlace::Endpoint(address) => {
                source(connect(address, &Carriers::default(), args.trust.pki()?)?, &self.paths)
            }
            FarPlace::Ssh(target) => {
                // Of an earlier try nothing is kept.
                *self.host.lock() = None;
                self.words.clear();
                let first = self.paths.first().map_or(&b""[..], Vec::as_slice);
                let far = FarHost::reach(&args.ssh, target, first, &self.words, interrupt)?;
                let paths: Vec<_> = self.paths.iter().map(|path| far.beneath(path)).collect();
                let client = connect(&far.address, &far.carriers, None)?;
                *self.host.lock() = Some(far);
                source(client, &paths)
            }
        }
    }
}

const fn links(rule: PutLinks) -> Links {
    match rule {
        PutLinks::Skip => Links::Skip,
        PutLinks::Follow => Links::Follow,
    }
}
