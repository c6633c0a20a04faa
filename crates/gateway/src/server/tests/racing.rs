//! Of several that ask for the same name at once one has it, and conditions hold of what is there when it is given.

use std::thread;

use axum::http::StatusCode;

use super::{Answered, Site};

const NINE: &str = "123456789";
const MD5: (&str, &str) = ("content-md5", "JfnnlDI7RTiF9RgfG2JNCw==");
const NEW: (&str, &str) = ("if-none-match", "*");

impl Site {
    fn completed(&self, key: &str, headers: &[(&str, &str)]) -> Answered {
        let begun = self.ask_s3(("POST", &format!("/{key}?uploads")), &[], ("", "")).text();
        let id = begun.split_once("<UploadId>").and_then(|(_, rest)| rest.split_once('<')).expect("one").0;
        let put = self.ask_s3(("PUT", &format!("/{key}?partNumber=1&uploadId={id}")), &[], (NINE, NINE));
        let tag = put.headers.get("etag").expect("said").to_str().expect("text").to_owned();
        let document = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{tag}</ETag></Part></CompleteMultipartUpload>"
        );
        self.ask_s3(("POST", &format!("/{key}?uploadId={id}")), headers, (&document, &document))
    }

    fn tag(&self, path: &str) -> String {
        self.ask("HEAD", path, &[], "").headers.get("etag").expect("said").to_str().expect("text").to_owned()
    }
}

#[test]
fn of_those_who_create_one_name_at_once_one_has_made_it() {
    let site = Site::new();
    for round in 0..12 {
        let key = format!("bucket/new{round}");
        let path = format!("/{key}");
        for from in ["one", "other", "source"] {
            site.write(&format!("bucket/{from}{round}"), from);
        }
        let moved = |from: &str| {
            let from = format!("/bucket/{from}{round}");
            site.ask("MOVE", &from, &[("destination", &format!("http://h{path}")), ("overwrite", "F")], "")
        };
        let source = format!("/bucket/source{round}");
        let ask: [&(dyn Fn() -> Answered + Sync); 6] = [
            &|| site.ask("PUT", &path, &[MD5, NEW], NINE),
            &|| site.ask_s3(("PUT", &path), &[NEW], (NINE, NINE)),
            &|| site.ask_s3(("PUT", &path), &[NEW, ("x-amz-copy-source", &source)], ("", "")),
            &|| site.completed(&key, &[NEW]),
            &|| moved("one"),
            &|| moved("other"),
        ];
        let answers: Vec<Answered> = thread::scope(|scope| {
            let threads = ask.map(|ask| scope.spawn(ask));
            threads.map(|thread| thread.join().expect("no panic")).into()
        });
        let made = answers.iter().filter(|answered| answered.status.is_success()).count();
        let told: Vec<(StatusCode, String)> = answers.iter().map(|a| (a.status, a.text())).collect();
        assert_eq!(made, 1, "{told:?}");
        assert!(
            answers.iter().all(|a| a.status.is_success() || a.status == StatusCode::PRECONDITION_FAILED),
            "{told:?}"
        );
    }
}

#[test]
fn of_those_who_replace_one_version_at_once_one_has_done_it() {
    let site = Site::new();
    for round in 0..12 {
        site.write("file", format!("version {round}"));
        let tag = site.tag("/file");
        let held = ("if-match", &tag[..]);
        let ask: [&(dyn Fn() -> Answered + Sync); 4] = [
            &|| site.ask("PUT", "/file", &[MD5, held], NINE),
            &|| site.ask("PUT", "/file", &[MD5, held], NINE),
            &|| site.ask("DELETE", "/file", &[held], ""),
            &|| site.ask("MOVE", "/file", &[("destination", "http://h/moved"), held], ""),
        ];
        let answers: Vec<Answered> = thread::scope(|scope| {
            let threads = ask.map(|ask| scope.spawn(ask));
            threads.map(|thread| thread.join().expect("no panic")).into()
        });
        let told: Vec<(StatusCode, String)> = answers.iter().map(|a| (a.status, a.text())).collect();
        assert_eq!(answers.iter().filter(|a| a.status.is_success()).count(), 1, "{told:?}");
    }
}

#[test]
fn conditions_hold_of_every_request_that_changes_something() {
    let site = Site::new();
    let fill = || {
        for name in ["file", "bucket/key", "bucket/source"] {
            site.write(name, "content");
        }
    };
    fill();
    let to = ("destination", "http://h/other");
    let source = ("x-amz-copy-source", "/bucket/source");
    let old = ("if-match", "\"of another version\"");
    let since = ("if-unmodified-since", "Sun, 06 Nov 1994 08:49:37 GMT");
    let lock = ("if", "(<opaquelocktoken:x>)");
    for condition in [old, since, lock, NEW] {
        for refused in [
            site.ask("PUT", "/file", &[MD5, condition], NINE),
            site.ask("DELETE", "/file", &[condition], ""),
            site.ask("MOVE", "/file", &[to, condition], ""),
            site.ask_s3(("PUT", "/bucket/key"), &[condition], (NINE, NINE)),
            site.ask_s3(("PUT", "/bucket/key"), &[condition, source], ("", "")),
            site.ask_s3(("DELETE", "/bucket/key"), &[condition], ("", "")),
            site.completed("bucket/key", &[condition]),
        ] {
            assert_eq!(refused.status, StatusCode::PRECONDITION_FAILED, "{condition:?}: {}", refused.text());
        }
        assert_eq!(site.read("file").as_deref(), Some("content"), "{condition:?}");
        assert_eq!(site.read("bucket/key").as_deref(), Some("content"), "{condition:?}");
    }
    let tag = site.tag("/file");
    assert_eq!(site.ask("PUT", "/file", &[MD5, ("if-match", &tag)], NINE).status, StatusCode::NO_CONTENT);
    let tag = site.tag("/bucket/key");
    assert_eq!(site.completed("bucket/key", &[("if-match", &tag)]).status, StatusCode::OK);
    assert_eq!(site.ask("DELETE", "/file", &[("if-match", "*")], "").status, StatusCode::NO_CONTENT);
    assert_eq!(
        site.ask("PUT", "/file", &[MD5, ("if-match", "*")], NINE).status,
        StatusCode::PRECONDITION_FAILED
    );
    assert_eq!(site.ask("PUT", "/file", &[MD5, NEW], NINE).status, StatusCode::CREATED);
    // What lies in the way is told as before.
    assert_eq!(
        site.ask("MOVE", "/bucket/", &[("destination", "http://h/bucket/in")], "").status,
        StatusCode::CONFLICT
    );
    let overwrite = ("overwrite", "F");
    assert_eq!(
        site.ask("MOVE", "/file", &[("destination", "http://h/bucket"), overwrite], "").status,
        StatusCode::PRECONDITION_FAILED
    );
    assert_eq!(site.ask("MOVE", "/file", &[to, overwrite], "").status, StatusCode::CREATED);
}
