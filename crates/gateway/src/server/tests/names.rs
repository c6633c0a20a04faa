//! Names that are no UTF-8, or that XML cannot have.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use axum::http::StatusCode;

use super::Site;

const NAMES: [&[u8]; 4] = [b"plain", "größe".as_bytes(), b"gr\xf6\xdfe", b"bell\x07"];

fn site() -> Site {
    let site = Site::new();
    for name in NAMES {
        site.write("runs/x", "");
        std::fs::write(site.root.join("runs").join(OsStr::from_bytes(name)), name).expect("written");
    }
    std::fs::remove_file(site.root.join("runs/x")).expect("removed");
    site
}

#[test]
fn each_dialect_tells_names_of_any_bytes_so_that_they_can_be_asked_for() {
    let site = site();
    let hrefs = ["plain", "gr%C3%B6%C3%9Fe", "gr%F6%DFe", "bell%07"];
    let html = site.ask("GET", "/runs/", &[("accept", "text/html")], "").text();
    let json = site.ask("GET", "/runs/", &[], "").text();
    let dav = site.ask("PROPFIND", "/runs/", &[("depth", "1")], "").text();
    let s3 = site.ask_s3(("GET", "/runs?list-type=2&encoding-type=url"), &[], ("", "")).text();
    for (href, name) in hrefs.iter().zip(NAMES) {
        assert!(html.contains(&format!("<a href=\"./{href}\">")), "{html}");
        assert!(json.contains(&format!("\"href\":\"./{href}\"")), "{json}");
        assert!(dav.contains(&format!("<href>/runs/{href}</href>")), "{dav}");
        assert!(s3.contains(&format!("<Key>{href}</Key>")), "{s3}");
        assert_eq!(site.ask("GET", &format!("/runs/{href}"), &[], "").body, name);
        assert_eq!(site.ask_s3(("GET", &format!("/runs/{href}")), &[], ("", "")).body, name);
    }
    // Where keys are text only those are told that are: others would be asked for in vain.
    let s3 = site.ask_s3(("GET", "/runs?list-type=2"), &[], ("", "")).text();
    assert!(s3.contains("<KeyCount>2</KeyCount>") && s3.contains("<Key>größe</Key>"), "{s3}");
    let target = "/runs?list-type=2&encoding-type=url&prefix=gr%F6&start-after=gr%F5";
    let s3 = site.ask_s3(("GET", target), &[], ("", ""));
    assert!(s3.status == StatusCode::OK && s3.text().contains("<KeyCount>1</KeyCount>"), "{}", s3.text());
    let disposition = |target: &str| {
        let answered = site.ask("GET", target, &[], "");
        answered.headers.get("content-disposition").expect("said").to_str().expect("text").to_owned()
    };
    assert!(disposition("/runs/gr%F6%DFe").ends_with("UTF-8''gr%EF%BF%BD%EF%BF%BDe"));
}

#[test]
fn archives_have_names_of_any_bytes_and_say_only_of_utf_8_that_it_is() {
    let site = site();
    let long = [&b"\xff".repeat(150)[..], b"/gr\xf6\xdfe"].concat();
    let path = site.root.join("runs").join(OsStr::from_bytes(&long));
    std::fs::create_dir(path.parent().expect("one")).expect("made");
    std::fs::write(path, "long").expect("written");
    // More of them than what is said of them at the end fits into memory.
    for number in 0..400 {
        site.write(&format!("runs/many/{number}-{}", "n".repeat(150)), "x");
    }
    let outer = tempfile::tempdir().expect("a directory");
    for format in ["zip", "tar"] {
        let archive = site.ask("GET", &format!("/runs/?archive={format}"), &[], "").body;
        std::fs::write(outer.path().join(format), archive).expect("written");
    }
    let script = r#"
import os, sys, tarfile, zipfile
root = os.fsencode(sys.argv[1])
there = sorted(os.path.relpath(os.path.join(d, f), root) for d, _, files in os.walk(root) for f in files)
packed = zipfile.ZipFile('zip')
assert packed.testzip() is None
infos = [info for info in packed.infolist() if not info.is_dir()]
names = [info.filename.encode('utf-8' if info.flag_bits & 0x800 else 'cp437') for info in infos]
assert sorted(names) == there, set(names) ^ set(there)
assert b'gr\xf6\xdfe' in there and 'größe'.encode() in there and len(there) > 400
assert packed.read(infos[names.index(b'gr\xf6\xdfe')]) == b'gr\xf6\xdfe'
names = [os.fsencode(member.name) for member in tarfile.open('tar') if member.isfile()]
assert sorted(names) == there, set(names) ^ set(there)
"#;
    let ran = Command::new("python3")
        .arg("-c")
        .arg(script)
        .arg(site.root.join("runs"))
        .current_dir(outer.path())
        .output();
    let Ok(ran) = ran else {
        let test = "archives_have_names_of_any_bytes_and_say_only_of_utf_8_that_it_is";
        return testkit::skip(test, "python3 is not installed");
    };
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(
        std::fs::read_dir(&site.state)
            .expect("listed")
            .filter(|entry| {
                entry.as_ref().is_ok_and(|entry| entry.file_name().as_bytes().starts_with(b"scratch"))
            })
            .count(),
        0
    );
}
