//! Documents of requests.

use axum::http::StatusCode;
use data_encoding::BASE64;
use proptest::prelude::*;
use tidegate_fetch::checksum::{Algorithm, Hashers};

use super::Site;

fn md5(text: &str) -> String {
    let mut hashers = Hashers::new([Algorithm::Md5]);
    hashers.update(text.as_bytes());
    BASE64.encode(hashers.finish().get(Algorithm::Md5).expect("made"))
}

fn between<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    text.split_once(from)
        .and_then(|(_, rest)| rest.split_once(to))
        .map(|(inner, _)| inner)
        .expect("it is there")
}

fn removal(keys: &[&str]) -> String {
    let objects: Vec<String> = keys.iter().map(|key| format!("<Object><Key>{key}</Key></Object>")).collect();
    format!("<Delete>{}</Delete>", objects.concat())
}

#[test]
fn a_document_is_held_to_what_vouches_for_it_before_anything_is_done() {
    let site = Site::new();
    let (a, b) = (removal(&["a"]), removal(&["b"]));
    let ask = |signed: &str, body: &str, headers: &[(&str, &str)]| {
        site.write("bucket/a", "a");
        site.write("bucket/b", "b");
        site.ask_s3(("POST", "/bucket?delete"), headers, (signed, body))
    };
    let (of_a, of_b) = (md5(&a), md5(&b));
    for (signed, headers) in [
        (&b, &[][..]),
        (&a, &[("content-md5", &of_b[..])]),
        (&a, &[("content-md5", &of_a[..4])]),
        (&a, &[("x-amz-checksum-crc32", "AAAAAA==")]),
        (&a, &[("repr-digest", "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:")]),
    ] {
        let refused = ask(signed, &a, headers);
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{headers:?}: {refused:?}");
        assert!(site.read("bucket/a").is_some() && site.read("bucket/b").is_some());
    }
    for body in [&a[..a.len() - 9], &format!("{a}{b}"), &format!("{a}x"), ""] {
        assert_eq!(ask(body, body, &[]).status, StatusCode::BAD_REQUEST, "{body}");
        assert!(site.read("bucket/a").is_some() && site.read("bucket/b").is_some());
    }
    let unsigned = [("x-amz-content-sha256", "UNSIGNED-PAYLOAD")];
    assert_eq!(ask("", &a, &unsigned).status, StatusCode::FORBIDDEN, "said twice");
    let done = ask(&a, &a, &[("content-md5", &of_a)]);
    assert!(done.status == StatusCode::OK && done.text().contains("<Deleted><Key>a</Key>"), "{done:?}");
    assert!(site.read("bucket/a").is_none() && site.read("bucket/b").is_some());
}

/// An upload of `parts` in the order given; answers with what its document lists and the request that completes it.
fn upload(site: &Site, key: &str, parts: &[(u32, &str)]) -> (String, String) {
    let begun = site.ask_s3(("POST", &format!("/{key}?uploads")), &[], ("", ""));
    let id = between(&begun.text(), "<UploadId>", "</UploadId>").to_owned();
    let mut listed = Vec::new();
    for (number, content) in parts {
        let target = format!("/{key}?partNumber={number}&uploadId={id}");
        let put = site.ask_s3(("PUT", &target), &[], (content, content));
        let tag =
            put.headers.get("etag").unwrap_or_else(|| panic!("{put:?}")).to_str().expect("text").to_owned();
        listed.retain(|(known, _)| known != number);
        listed.push((*number, format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>")));
    }
    listed.sort_unstable();
    let listed: Vec<String> = listed.into_iter().map(|(_, part)| part).collect();
    let document = format!("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", listed.concat());
    (document, format!("/{key}?uploadId={id}"))
}

#[test]
fn an_upload_is_completed_by_the_document_that_was_signed_and_by_no_part_of_it() {
    let site = Site::new();
    let (document, target) = upload(&site, "bucket/key", &[(1, "one"), (2, "two"), (3, "3")]);
    let complete = |signed: &str, body: &str, headers: &[(&str, &str)]| {
        site.ask_s3(("POST", &target), headers, (signed, body))
    };
    let cut = &document[..document.find("</Part>").expect("one") + 7];
    let crc = ("x-amz-checksum-crc32", "AAAAAA==");
    let refusals: [(&str, &str, &[(&str, &str)]); 6] = [
        (&document, cut, &[]),
        (cut, cut, &[]),
        (&document, &document, &[("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==")]),
        (&document, &document, &[crc]),
        (&document, &document, &[("x-amz-mp-object-size", "6")]),
        (&document, &document, &[("x-amz-checksum-type", "COMPOSITE"), crc]),
    ];
    for (signed, body, headers) in refusals {
        let refused = complete(signed, body, headers);
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{headers:?}: {}", refused.text());
        assert_eq!(site.read("bucket/key"), None);
    }
    let whole = BASE64.encode(&crc32(b"onetwo3"));
    let done =
        complete(&document, &document, &[("x-amz-mp-object-size", "7"), ("x-amz-checksum-crc32", &whole)]);
    assert_eq!(
        (done.status, site.read("bucket/key").as_deref()),
        (StatusCode::OK, Some("onetwo3")),
        "{done:?}"
    );
    assert_eq!(complete(&document, &document, &[]).status, StatusCode::NOT_FOUND);
    assert!(!site.root.join("bucket/.tidegate").exists(), "nothing is left");
}

fn crc32(bytes: &[u8]) -> [u8; 4] {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32IsoHdlc);
    digest.update(bytes);
    (digest.finalize() as u32).to_be_bytes()
}

#[test]
fn parts_of_any_sizes_in_any_order_become_one_object() {
    let site = Site::new();
    let part = (1..5_u32, prop::sample::select(vec!["", "a", "four", "FOUR", "longer than four"]));
    proptest!(ProptestConfig::with_cases(20), |(parts in prop::collection::vec(part, 1..7))| {
        let (document, target) = upload(&site, "bucket/key", &parts);
        let done = site.ask_s3(("POST", &target), &[], (&document, &document));
        prop_assert_eq!(done.status, StatusCode::OK, "{:?}", done);
        let mut last = std::collections::BTreeMap::new();
        last.extend(parts.iter().copied());
        let expected: String = last.into_values().collect();
        prop_assert_eq!(site.read("bucket/key"), Some(expected));
        prop_assert!(!site.root.join("bucket/.tidegate").exists());
    });
}

#[test]
fn parts_of_one_size_are_written_once_and_the_object_is_their_file() {
    use std::os::unix::fs::MetadataExt;
    let site = Site::new();
    let (document, target) = upload(&site, "bucket/key", &[(2, "2222"), (1, "1111"), (3, "33"), (4, "4444")]);
    let work = std::fs::read_dir(site.root.join("bucket/.tidegate")).expect("there").next().expect("one");
    let files = std::fs::read_dir(work.expect("read").path()).expect("read");
    let numbers: Vec<u64> = files.map(|file| file.expect("read").metadata().expect("there").ino()).collect();
    assert_eq!(numbers.len(), 1, "parts have no files of their own");
    // What is not listed is not in it.
    let listed = document.replace(
        &document[document.find("<Part><PartNumber>4").expect("there")..],
        "</CompleteMultipartUpload>",
    );
    assert_eq!(site.ask_s3(("POST", &target), &[], (&listed, &listed)).status, StatusCode::OK);
    assert_eq!(site.read("bucket/key").as_deref(), Some("1111222233"));
    assert_eq!(site.root.join("bucket/key").metadata().expect("there").ino(), numbers[0]);
}

#[test]
fn what_is_asked_of_an_object_and_not_kept_neither_writes_nor_removes_it() {
    let site = Site::new();
    site.write("bucket/key", "content");
    let acl = "<AccessControlPolicy/>";
    for (method, target, body) in [
        ("PUT", "/bucket/key?acl", acl),
        ("PUT", "/bucket/key?tagging", "<Tagging/>"),
        ("PUT", "/bucket/key?partNumber=1", "x"),
        ("PUT", "/bucket/key?versionId=1", "x"),
        ("PUT", "/bucket/new?retention", acl),
        ("DELETE", "/bucket/key?tagging", ""),
        ("DELETE", "/bucket/key?versionId=abc", ""),
        ("DELETE", "/bucket?policy", ""),
        ("POST", "/bucket/key?restore", acl),
        ("POST", "/bucket/key?select&select-type=2", acl),
        ("GET", "/bucket/key?attributes", ""),
        ("GET", "/bucket/key?versionId=abc", ""),
        ("GET", "/bucket?logging", ""),
        ("PROPFIND", "/bucket/key", ""),
        ("DELETE", "/bucket", ""),
    ] {
        let refused = site.ask_s3((method, target), &[], (body, body));
        assert!(
            refused.status.is_client_error() || refused.status == StatusCode::NOT_IMPLEMENTED,
            "{target} {refused:?}"
        );
        assert_eq!(site.read("bucket/key").as_deref(), Some("content"), "{method} {target}");
        assert_eq!(site.read("bucket/new"), None, "{method} {target}");
    }
    for target in
        ["/bucket/key?versionId=null&x-id=GetObject", "/bucket/key?response-content-type=a&partNumber=1"]
    {
        assert_eq!(site.ask_s3(("GET", target), &[], ("", "")).text(), "content", "{target}");
    }
    // A directory has no content that could be kept, and a bucket none but its configuration.
    for (target, body) in
        [("/bucket/dir/", "x"), ("/other", "<Configuration/>"), ("/other", "<CreateBucketConfiguration>")]
    {
        assert_eq!(
            site.ask_s3(("PUT", target), &[], (body, body)).status,
            StatusCode::BAD_REQUEST,
            "{target}"
        );
    }
    assert!(!site.root.join("bucket/dir").exists() && !site.root.join("other").exists());
    assert_eq!(site.ask_s3(("PUT", "/bucket/key/"), &[], ("", "")).status, StatusCode::CONFLICT, "a file");
    let body =
        "<CreateBucketConfiguration><LocationConstraint>x</LocationConstraint></CreateBucketConfiguration>";
    assert_eq!(site.ask_s3(("PUT", "/other"), &[], (body, body)).status, StatusCode::OK);
    assert_eq!(site.ask_s3(("DELETE", "/other"), &[], ("", "")).status, StatusCode::NO_CONTENT);
    assert!(!site.root.join("other").exists());
}

#[test]
fn a_request_for_properties_is_a_document_that_is_held_to_its_sum() {
    let site = Site::new();
    site.write("directory/file", "x");
    let all =
        "<?xml version=\"1.0\"?><D:propfind xmlns:D=\"DAV:\"><D:prop><D:getetag/></D:prop></D:propfind>";
    let ask = |body: &str, headers: &[(&str, &str)]| {
        site.ask("PROPFIND", "/directory/", &[&[("depth", "1")], headers].concat(), body)
    };
    for (body, headers) in [("", &[][..]), (all, &[]), (all, &[("content-md5", &md5(all)[..])])] {
        let told = ask(body, headers);
        assert!(
            told.status == StatusCode::MULTI_STATUS && told.text().contains("/directory/file<"),
            "{told:?}"
        );
    }
    for (body, headers) in [
        (&all[..all.len() - 3], &[][..]),
        (&format!("{all}{all}"), &[]),
        ("<prop/>", &[]),
        ("text", &[]),
        (all, &[("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==")]),
    ] {
        assert_eq!(ask(body, headers).status, StatusCode::BAD_REQUEST, "{body}");
    }
    assert_eq!(site.ask("MKCOL", "/new/", &[], all).status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert!(!site.root.join("new").exists());
}
