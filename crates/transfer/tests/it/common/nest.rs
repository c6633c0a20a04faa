//! Sources, destinations and backup directories that lie in one another, by links and bind mounts too, drawn from a seed:
//! what a run may change, and what it did.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate_control::rng::Rng;
use tidegate_transfer::error::Result;
use tidegate_transfer::filter::rule::{Action, Rule, blank};
use tidegate_transfer::ledger::Failure;
use tidegate_transfer::plan::PlanListener;
use tidegate_transfer::selection::Deletion;
use tidegate_transfer::terms::{Compare, Purpose};
use tidegate_transfer::transfer::route::{From, Setup, To, begin};
use tidegate_transfer::wire::ticket::Claims;

use testkit::mounted::Mounted;

use super::{Fixture, drive};

/// Draws; what is drawn follows from the seed.
struct Draw(Rng);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.below(NAMES.len())]
    }
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A file's content, which no other begins with, by where the file is on the disk.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// What is run.
#[derive(Debug)]
struct Run {
    sources: Vec<String>,
    to: String,
    backup: Option<String>,
    deleting: bool,
    moving: bool,
    route: usize,
    one_file_system: bool,
    /// A name that the rules exclude.
    excluded: Option<&'static str>,
}

impl Run {
    fn rules(&self) -> Vec<Rule> {
        let exclude = |name: &&str| Rule { pattern: name.as_bytes().to_vec(), ..blank(Action::Exclude) };
        self.excluded.iter().map(exclude).collect()
    }

    /// Whether the rules leave `to` out of the source that was `typed` so and lies at `source`.
    fn leaves_out(&self, typed: &str, source: &Path, to: &Path) -> bool {
        let Some(excluded) = self.excluded else { return false };
        let own = (!typed.ends_with('/')).then(|| typed.rsplit('/').next()).flatten();
        let is_on_the_way = |way: &Path| way.iter().any(|name| name == excluded);
        own == Some(excluded) || to.strip_prefix(source).is_ok_and(is_on_the_way)
    }
}

/// A tree with links and mounts in it.
struct Nest {
    f: Fixture,
    directories: Vec<String>,
    files: Vec<String>,
    /// Where something is mounted, and where on the disk that is.
    binds: BTreeMap<PathBuf, PathBuf>,
    mounts: Vec<Mounted>,
    /// The tree without its mounts.
    disk: Option<(PathBuf, Mounted)>,
}

impl Nest {
    fn draw(draw: &mut Draw, mounting: bool) -> Self {
        let f = Fixture::new();
        let (directories, files) = (Vec::new(), Vec::new());
        let (binds, mounts, disk) = (BTreeMap::new(), Vec::new(), None);
        let mut nest = Self { f, directories, files, binds, mounts, disk };
        for name in &NAMES[..2 + draw.below(3)] {
            fs::create_dir(nest.f.root.join(name)).expect("made");
            nest.directories.push((*name).to_owned());
            nest.grow(draw, name, 3);
        }
        for number in 0..draw.below(3) {
            let (target, place) = (nest.any(draw), nest.any(draw));
            let link = nest.f.root.join(place).join(format!("link{number}"));
            if symlink(nest.f.root.join(target), &link).is_ok() {
                let path = link.strip_prefix(&nest.f.root).expect("beneath").to_string_lossy().into_owned();
                nest.directories.push(path);
            }
        }
        // Some files have another name.
        for number in 0..draw.below(4) {
            let (file, place) = (draw.below(nest.files.len().max(1)), nest.any(draw));
            if let Some(file) = nest.files.get(file) {
                let _ = fs::hard_link(
                    nest.f.root.join(file),
                    nest.f.root.join(place).join(format!("hard{number}")),
                );
            }
        }
        let mounts = draw.below(4);
        if mounting && mounts > 0 {
            let place = nest.f.dir("disk");
            let mounted = Mounted::bind(&nest.f.root, &place).expect("mounted, as before");
            let private = Command::new("mount").arg("--make-private").arg(&place).status();
            assert!(private.is_ok_and(|status| status.success()));
            nest.disk = Some((place, mounted));
            (0..mounts).for_each(|_| nest.mount(draw));
        }
        nest
    }

    fn grow(&mut self, draw: &mut Draw, at: &str, depth: usize) {
        for _ in 0..1 + draw.below(4) {
            let path = format!("{at}/{}", draw.name());
            let place = self.f.root.join(&path);
            if place.exists() {
                continue;
            }
            match depth > 0 && draw.chance(65) {
                true => {
                    fs::create_dir(&place).expect("made");
                    self.directories.push(path.clone());
                    self.grow(draw, &path, depth - 1);
                }
                false => {
                    fs::write(&place, &path).expect("written");
                    self.files.push(path);
                }
            }
        }
    }

    /// One directory, by a path on which links may lie.
    fn any(&self, draw: &mut Draw) -> String {
        self.directories[draw.below(self.directories.len())].clone()
    }

    fn mount(&mut self, draw: &mut Draw) {
        let (shown, at) = (self.any(draw), self.any(draw));
        let (shown, at) = (self.f.root.join(shown), self.f.root.join(at));
        let (Ok(shown), Ok(at)) = (shown.canonicalize(), at.canonicalize()) else { return };
        let root = self.f.root.canonicalize().expect("there");
        // What is mounted twice, or over what holds it, is told apart by nobody here.
        let is_apart =
            at != root && !shown.starts_with(&at) && !self.binds.keys().any(|bind| bind.starts_with(&at));
        let on_disk = self.on_disk(&shown);
        if is_apart && let Some(mounted) = Mounted::bind(&shown, &at) {
            self.binds.insert(at, on_disk);
            self.mounts.push(mounted);
        }
    }

    /// Where `path`, of which the last name may not be there, is as links lead.
    fn visible(path: &Path) -> PathBuf {
        let inner = |path: &Path| Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
        path.canonicalize().ok().or_else(|| inner(path)).unwrap_or_else(|| path.to_path_buf())
    }

    /// Where it is on the disk.
    fn on_disk(&self, path: &Path) -> PathBuf {
        let visible = Self::visible(path);
        let over = self.binds.iter().filter(|(at, _)| visible.starts_with(at));
        match over.max_by_key(|(at, _)| at.components().count()) {
            Some((at, shown)) => shown.join(visible.strip_prefix(at).expect("beneath")),
            None => visible,
        }
    }

    /// All files on the disk, by where they are there.
    fn contents(&self) -> Files {
        let root = self.f.root.canonicalize().expect("there");
        let top = self.disk.as_ref().map_or(&root, |(place, _)| place);
        let moved =
            |(path, content): (PathBuf, _)| (root.join(path.strip_prefix(top).expect("beneath")), content);
        files(top).into_iter().map(moved).collect()
    }

    fn typed(&self, path: &str, here: bool) -> Vec<u8> {
        match here {
            true => self.f.root.join(path).as_os_str().as_bytes().to_vec(),
            false => path.as_bytes().to_vec(),
        }
    }

    fn run(&self, run: &Run, purpose: Purpose) -> Result<Vec<Failure>> {
        let owner = self.f.endpoint.address(&Claims::OWNER).expect("an address");
        let rules = run.rules();
        let deletion = Deletion {
            rules: rules.clone(),
            most: Some(u64::MAX),
            backup: run.backup.clone().map(Into::into),
            ..Deletion::default()
        };
        let plan = (purpose == Purpose::Plan).then(|| PlanListener::new(|_| {}));
        let (deletion, moving) = (run.deleting.then_some(deletion), run.moving);
        let mut setup = Setup { deletion, moving, plan, ..self.f.setup() };
        setup.terms.purpose = purpose;
        setup.selection.one_file_system = run.one_file_system;
        setup.selection.rules = rules;
        if moving {
            setup.terms.compare = Compare::Checksum;
        }
        let sources = |here| run.sources.iter().map(|path| self.typed(path, here)).collect();
        let from = match run.route {
            0 => From::Local(sources(true)),
            _ => From::Endpoint(owner.clone(), sources(false)),
        };
        let to = match run.route {
            1 => To::Local(self.typed(&run.to, true)),
            _ => To::Endpoint(owner.with_path(&*run.to)),
        };
        drive(begin(&from, &to, &setup)?, self.f.setpoint).map(|(_, failures)| failures)
    }
}

fn drawn(draw: &mut Draw, nest: &Nest) -> Run {
    let deleting = draw.chance(60);
    let source = |draw: &mut Draw| format!("{}{}", nest.any(draw), if draw.chance(60) { "/" } else { "" });
    let sources: Vec<String> = (0..1 + draw.below(2)).map(|_| source(draw)).collect();
    // Mostly such that the names alone speak for it.
    let apart = |path: &String| !sources.iter().any(|source| path.starts_with(source.trim_end_matches('/')));
    let mut to = nest.any(draw);
    let mut kept = nest.any(draw);
    for _ in 0..8 {
        to = if apart(&to) || draw.chance(10) { to } else { nest.any(draw) };
        kept =
            if (apart(&kept) && !kept.starts_with(&to)) || draw.chance(10) { kept } else { nest.any(draw) };
    }
    let new = if draw.chance(15) { "/new" } else { "" };
    let old = if draw.chance(50) { "/old" } else { "" };
    let backs_up = deleting && draw.chance(50);
    // To here it begins at the top of everything, and between endpoints it lies in the destination.
    let route = if backs_up { 0 } else { draw.below(3) };
    let one_file_system = draw.chance(15);
    // Mostly one that lets the destination lie in the source.
    let excluded = match draw.below(10) {
        0..=3 => {
            let below = sources.iter().find_map(|source| to.strip_prefix(source.trim_end_matches('/')));
            let names = || NAMES.iter().copied();
            let on_the_way = below.and_then(|way| names().find(|name| way.split('/').any(|at| at == *name)));
            on_the_way.or_else(|| Some(draw.name()))
        }
        _ => None,
    };
    Run {
        sources,
        to: format!("{to}{new}/"),
        backup: backs_up.then(|| format!("/{kept}{old}")),
        deleting,
        moving: !deleting && draw.chance(60),
        route,
        one_file_system,
        excluded,
    }
}

/// All files on the disk beneath `top`, where nothing is mounted.
fn files(top: &Path) -> Files {
    let mut found = Files::new();
    let mut left = vec![top.to_path_buf()];
    while let Some(at) = left.pop() {
        for entry in fs::read_dir(&at).expect("listed").flatten() {
            let kind = entry.file_type().expect("a kind");
            match kind.is_dir() {
                true if entry.file_name() == ".tidegate" => {}
                true => left.push(entry.path()),
                false if kind.is_file() => {
                    found.insert(entry.path(), fs::read(entry.path()).expect("read"));
                }
                false => {}
            }
        }
    }
    found
}

/// What one seed shows to be wrong.
pub fn wrong(seed: u64, mounting: bool) -> Option<String> {
    let mut draw = Draw(Rng::new(seed));
    let nest = Nest::draw(&mut draw, mounting);
    let run = drawn(&mut draw, &nest);
    let root = nest.f.root.canonicalize().expect("there");
    let place = |path: &str| nest.on_disk(&root.join(path.trim_matches('/')));
    let sources: Vec<PathBuf> = run.sources.iter().map(|path| place(path)).collect();
    let (to, backup) = (place(&run.to), run.backup.as_deref().map(&place));
    // What is mounted beneath a source is a part of it.
    let named: Vec<PathBuf> =
        run.sources.iter().map(|path| Nest::visible(&root.join(path.trim_matches('/')))).collect();
    let within = nest.binds.iter().filter(|(at, _)| named.iter().any(|named| at.starts_with(named)));
    let shown: Vec<PathBuf> = within.map(|(_, shown)| shown.clone()).collect();
    let before = nest.contents();
    let planned = nest.run(&run, Purpose::Plan).map(|failures| failures.len());
    let after_plan = nest.contents();
    let ran = nest.run(&run, Purpose::Copy);
    let after = nest.contents();
    let told = |what: &str, path: &Path| {
        let path = path.strip_prefix(&root).unwrap_or(path).display();
        Some(format!("seed {seed}: {what} {path}: {run:?}, binds {:?}, dry {planned:?}, {ran:?}", nest.binds))
    };
    if before != after_plan {
        return told("a dry run changed something beneath", &root);
    }
    if ran.is_err() && before != after {
        return told("what was refused changed something beneath", &root);
    }
    if !run.moving && planned.is_err() != ran.is_err() {
        return told("a dry run says something else of", &root);
    }
    let contents: BTreeSet<&Vec<u8>> = after.values().collect();
    let beneath = |path: &Path, tops: &[PathBuf]| tops.iter().any(|top| path.starts_with(top));
    for (path, content) in &before {
        let stays = after.get(path) == Some(content);
        let of_destination = path.starts_with(&to);
        let is_part = |(at, typed): (&PathBuf, &String)| {
            path.starts_with(at) && !(of_destination && run.leaves_out(typed, at, &to))
        };
        let of_source = sources.iter().zip(&run.sources).any(is_part);
        let of_backup = backup.as_ref().is_some_and(|backup| path.starts_with(backup));
        let may_be_moved = run.moving && (of_source || beneath(path, &shown));
        if of_source && !run.moving && !stays {
            return told("a file of the source is not what it was:", path);
        }
        if (may_be_moved || run.backup.is_some())
            && !of_backup
            && !of_destination
            && !contents.contains(content)
        {
            return told("its content is nowhere:", path);
        }
        if run.backup.is_some() && of_destination && !contents.contains(content) {
            return told("its content was not kept:", path);
        }
        if !stays && !of_destination && !of_backup && !may_be_moved {
            return told("a file that is nobody's changed:", path);
        }
    }
    for path in after.keys().filter(|path| !before.contains_key(*path)) {
        let is_kept = backup.as_ref().is_some_and(|backup| path.starts_with(backup));
        if !path.starts_with(&to) && !is_kept {
            return told("a file is where none belongs:", path);
        }
    }
    None
}
