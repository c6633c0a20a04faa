//! Servers as mirrors: what a source does not have goes once everything has arrived, and files that are moved leave the source.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;
use testkit::moto::Moto;
use testkit::skip;

use crate::common::service::Service;
use crate::common::{Ran, World, finish};
use crate::copy_from_servers::failed;
use crate::put::{start, summary, tidegate};
use crate::put_chosen::dav;
use crate::sftp::Host;

/// Where a mirror lies, and how it is seen.
trait Place {
    fn world(&self) -> &World;
    /// The address of a directory there.
    fn to(&self, directory: &str) -> String;
    fn copy(&self, words: &[&str]) -> Ran;
    /// The files there, relative to its root.
    fn files(&self) -> BTreeSet<String>;
    fn add(&self, name: &str);
    /// Whether its server tells what it has, so that the same is not sent again.
    fn is_comparable(&self) -> bool {
        true
    }
}

struct Bucket(World, Moto);

impl Place for Bucket {
    fn world(&self) -> &World {
        &self.0
    }

    fn to(&self, directory: &str) -> String {
        format!("s3://bucket/{directory}")
    }

    fn copy(&self, words: &[&str]) -> Ran {
        finish(tidegate(&self.0, &self.1).arg("copy").args(words))
    }

    fn files(&self) -> BTreeSet<String> {
        self.1.keys().into_iter().collect()
    }

    fn add(&self, name: &str) {
        self.1.put(name, b"of others");
    }
}

/// A directory of the world that a server gives access to.
struct Directory<'w> {
    world: &'w World,
    root: &'static str,
    address: String,
    run: &'w dyn Fn(&[&str]) -> Ran,
}

impl Place for Directory<'_> {
    fn world(&self) -> &World {
        self.world
    }

    fn to(&self, directory: &str) -> String {
        format!("{}{directory}", self.address)
    }

    fn copy(&self, words: &[&str]) -> Ran {
        (self.run)(&[&["copy"], words].concat())
    }

    fn files(&self) -> BTreeSet<String> {
        self.world.tree(self.root).into_iter().filter(|name| !name.ends_with('/')).collect()
    }

    fn add(&self, name: &str) {
        self.world.write(format!("{}/{name}", self.root), "of others");
    }

    fn is_comparable(&self) -> bool {
        !self.address.starts_with("http")
    }
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn done(place: &dyn Place, words: &[&str]) -> Value {
    let ran = place.copy(&[&["--json", "-q"], words].concat());
    assert!(ran.code == 0 && ran.err.is_empty(), "{words:?}: {ran:?}");
    summary(&ran.out)
}

/// What is so at every server.
fn mirrors(place: &dyn Place) {
    let world = place.world();
    for name in ["src/a", "src/b c#?", "src/sub/c", "src/sub/é", "src/x.tmp"] {
        world.write(name, name);
    }
    world.write("other/file", "beside the tree");
    symlink("a", world.path("src/link")).expect("linked");
    fs::create_dir(world.path("src/empty")).expect("made");
    let root = place.to("m/");
    let from = world.text("src/");
    done(place, &["--delete", "--links=skip", &from, &root]);
    let kept = ["m/a", "m/b c#?", "m/sub/c", "m/sub/é", "m/x.tmp"];
    assert_eq!(place.files(), names(&kept));
    let extra = ["m/old/deep/x", "m/sub/gone", "m/z", "m/y.tmp", "outside"];
    extra.iter().for_each(|name| place.add(name));
    // It is told first, and nothing is done.
    let ran = place.copy(&["-n", "--delete", "--links=skip", &from, &root]);
    let said = "old/deep/x  to delete\nsub/gone  to delete\ny.tmp  to delete\nz  to delete\n\
                0 files, 0 B would be sent, 5 there already, 4 to delete\n";
    assert_eq!((ran.code, &*ran.out), (0, said), "{ran:?}");
    assert_eq!(place.files(), names(&[&kept[..], &extra].concat()));
    // Without being asked, nothing goes; what is excluded stays; no more goes than may.
    done(place, &["--links=skip", &from, &root]);
    let ran =
        place.copy(&["-q", "--delete", "--max-delete=1", "--links=skip", "--exclude=*.tmp", &from, &root]);
    failed(&ran, 1, "deleting stopped at --max-delete 1: 2 more would go");
    assert_eq!(place.files().len(), kept.len() + extra.len() - 1);
    let said = done(place, &["--delete", "--links=skip", "--exclude=*.tmp", &from, &root]);
    assert!(said["files"]["deleted"].as_u64() >= Some(2), "{said}");
    assert_eq!(place.files(), names(&[&kept[..], &["m/y.tmp", "outside"]].concat()));
    // A link that is followed is a file of the source.
    done(place, &["--delete", &from, &root]);
    assert!(place.files().contains("m/link") && !place.files().contains("m/y.tmp"));
    done(place, &["--delete-excluded", "--links=skip", "--exclude=*.tmp", &from, &root]);
    assert!(!place.files().contains("m/x.tmp"));
    // A directory that keeps its name is all that is compared.
    let tree = world.text("src");
    place.add("m/src/gone");
    done(place, &["--delete", "--links=skip", &tree, &root]);
    let now = place.files();
    assert!(now.contains("m/a") && now.contains("m/src/sub/é") && !now.contains("m/src/gone"), "{now:?}");
    // A file that cannot be read keeps everything, and so does an empty source.
    place.add("m/late");
    symlink(world.path("other"), world.path("src/away")).expect("linked");
    let ran = place.copy(&["-q", "--delete", &from, &root]);
    assert!(ran.code == 1 && ran.err.contains("nothing was deleted: "), "{ran:?}");
    assert!(place.files().contains("m/late"));
    fs::create_dir(world.path("nothing")).expect("made");
    let ran = place.copy(&["-q", "--delete", &world.text("nothing/"), &root]);
    failed(&ran, 1, "nothing was deleted: the source is empty; if that is right, say --max-delete N");
    assert!(place.files().contains("m/late"));
    // Over half of many files looks like an accident.
    for n in 0..150 {
        place.add(&format!("m/many/{n}"));
    }
    fs::remove_file(world.path("src/away")).expect("removed");
    let ran = place.copy(&["-q", "--delete", "--links=skip", &from, &root]);
    assert!(ran.code == 1 && ran.err.contains("files at the destination would go, over half"), "{ran:?}");
    let said = done(place, &["--delete", "--max-delete=1000", "--links=skip", &from, &root]);
    assert!(said["files"]["deleted"].as_u64() >= Some(152), "{said}");
    // What the source has and did not send stays.
    assert_eq!(place.files(), names(&[&kept[..], &["m/link", "outside"]].concat()));
    // What is moved leaves the source once it is there; what was there before may be the very same file.
    world.write("src/new", "new");
    if place.is_comparable() {
        let ran = place.copy(&["-q", "--move", "--links=skip", &from, &root]);
        assert_eq!((ran.code, ran.err.matches("it is there already, and may be").count()), (1, 5), "{ran:?}");
        assert!(!world.path("src/new").exists() && world.path("src/sub/c").exists());
        world.write("src/new", "new");
    }
    done(place, &["--move", "--links=skip", &from, &place.to("v/")]);
    assert_eq!(world.tree("src"), ["empty/", "link", "sub/"]);
    assert_eq!(place.files().iter().filter(|name| name.starts_with("v/")).count(), kept.len() + 1);
    failed(&place.copy(&["--move", "--delete", &from, &root]), 2, "'--move' cannot be used with '--delete'");
}

#[test]
fn a_bucket_becomes_what_the_source_is() {
    let Some((world, moto)) = start("a_bucket_becomes_what_the_source_is") else { return };
    mirrors(&Bucket(world, moto));
}

#[test]
fn a_webdav_directory_becomes_what_the_source_is() {
    let world = World::new();
    let Some(nginx) = dav(&world) else {
        return skip("a_webdav_directory_becomes_what_the_source_is", "nginx is not installed");
    };
    let address = nginx.url("dav/").to_string();
    mirrors(&Directory { world: &world, root: "www/dav", address, run: &|words| world.run(words) });
}

#[test]
fn a_directory_of_sftp_becomes_what_the_source_is() {
    let Some(host) = Host::new("sftp, mirrors") else { return };
    fs::create_dir_all(host.world.path("there")).expect("made");
    let address = host.at("there/");
    let place = Directory { world: &host.world, root: "there", address, run: &|words| host.run(words) };
    mirrors(&place);
    // Onto itself nothing is moved, and nothing is lost.
    let all = place.files();
    let ran = place.copy(&["-q", "--move", &host.world.text("there/v/"), &place.to("v/")]);
    assert_eq!((ran.code, place.files()), (1, all), "{ran:?}");
    // What lists a link, or a directory's link, has that name, and whatever lies beneath it is not compared.
    let world = &host.world;
    world.write("far/a", "a");
    world.write("far/d/x", "x");
    symlink("d", world.path("far/l")).expect("linked");
    symlink("nowhere", world.path("far/gone")).expect("linked");
    ["n/l/x", "n/gone", "n/old"].iter().for_each(|name| place.add(name));
    let ran = place.copy(&["-q", "--delete", &host.at("far/"), &place.to("n/")]);
    assert_eq!((ran.code, world.path("there/n/old").exists()), (0, false), "{ran:?}");
    assert_eq!(world.tree("there/n"), ["a", "d/", "d/x", "gone", "l/", "l/x"]);
    // The same to a directory of this host.
    ["here/l/x", "here/gone", "here/old"].iter().for_each(|name| world.write(name, "of others"));
    let ran = place.copy(&["-q", "--delete", &host.at("far/"), &world.text("here/")]);
    assert_eq!((ran.code, world.tree("here")), (0, world.tree("there/n")), "{ran:?}");
    // A source that lies in the mirror is known by any way of writing its host.
    let by_ssh = format!("{}@dtn:{}", host.user, world.text("there/n/d/"));
    for from in [by_ssh.as_str(), &host.at("there/n//d/")] {
        let ran = place.copy(&["-q", "--delete", from, &place.to("n/")]);
        failed(&ran, 2, "--delete would remove");
    }
    assert!(!host.world.path("there/m/old").exists(), "directories that are emptied go");
}

#[test]
fn a_bucket_becomes_what_an_endpoint_or_another_bucket_has() {
    let Some((world, moto)) = start("a_bucket_becomes_what_an_endpoint_or_another_bucket_has") else {
        return;
    };
    let bucket = Bucket(world, moto);
    for name in ["there/tree/a", "there/tree/sub/b", "there/tree/c.tmp"] {
        bucket.0.write(name, name);
    }
    fs::create_dir_all(bucket.0.path("there/nothing")).expect("made");
    let endpoint = bucket.0.endpoint("there", &[]);
    ["m/old", "m/sub/gone", "m/sub/d.tmp", "n"].iter().for_each(|name| bucket.add(name));
    let from = endpoint.at("tree/");
    done(&bucket, &["--delete", "--exclude=*.tmp", &from, "s3://bucket/m/"]);
    let all = ["m/a", "m/sub/b", "m/sub/d.tmp", "n"];
    assert_eq!(bucket.files(), names(&all));
    let ran = bucket.copy(&["-q", "--delete", &endpoint.at("nothing/"), "s3://bucket/m/"]);
    failed(&ran, 1, "nothing was deleted: the source is empty");
    // What lies in the mirror cannot be its source.
    let ran = bucket.copy(&["-q", "--delete", "s3://bucket/m/sub/", "s3://bucket/m/"]);
    failed(&ran, 2, "--delete would remove s3://bucket/m/sub/, which lies in s3://bucket/m/");
    bucket.add("p/late");
    done(&bucket, &["--delete", "s3://bucket/m/", "s3://bucket/p/"]);
    assert_eq!(bucket.files(), names(&[&all[..], &["p/a", "p/sub/b", "p/sub/d.tmp"]].concat()));
    let rules = ["-q", "--delete", "-f", ": .rules", &bucket.0.text("there/tree/"), "s3://bucket/m/"];
    failed(&bucket.copy(&rules), 2, "--delete at a server goes by rules that are known before");
    let move_away = ["-q", "--move", &from, "s3://bucket/q/"];
    failed(&bucket.copy(&move_away), 2, "--move removes files of this host");
}

#[test]
fn a_job_makes_a_mirror_of_a_bucket() {
    let Some((world, moto)) = start("a_job_makes_a_mirror_of_a_bucket") else { return };
    let bucket = Bucket(world, moto);
    bucket.0.write("src/a", "a");
    bucket.add("m/old");
    let environment = [
        ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        ("AWS_ENDPOINT_URL_S3", &bucket.1.endpoint()),
    ];
    let service = Service::start_in(&bucket.0, "serves", &[], &environment);
    let from = bucket.0.text("src/");
    let words = ["submit", &from, "s3://bucket/m/", "--option=--delete", "--wait"];
    let ran = service.run(&bucket.0, &words);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(bucket.files(), names(&["m/a"]));
}
