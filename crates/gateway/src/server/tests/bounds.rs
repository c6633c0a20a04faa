//! What one token may use, and how much of it answers take that nobody reads.

use axum::body::{Body, HttpBody};
use axum::http::StatusCode;
use axum::response::Response;

use super::Site;

/// Each way to ask for much, and what it is signed or sent with.
fn all() -> Vec<(&'static str, &'static str, Vec<(&'static str, &'static str)>, bool)> {
    vec![
        ("GET", "/runs/file-1", vec![], false),
        ("GET", "/runs/", vec![], false),
        ("GET", "/runs/", vec![("accept", "text/html")], false),
        ("PROPFIND", "/runs/", vec![("depth", "1"), ("content-length", "0")], false),
        ("GET", "/runs/?archive=tar", vec![], false),
        ("GET", "/runs/?archive=zip", vec![], false),
        ("GET", "/runs/file-1", vec![], true),
        ("GET", "/", vec![], true),
        ("GET", "/runs?list-type=2", vec![], true),
        ("GET", "/runs?delimiter=/", vec![], true),
    ]
}

async fn begin(
    site: &Site,
    (method, target, headers, is_s3): &(&str, &str, Vec<(&str, &str)>, bool),
) -> Response {
    let headers = match is_s3 {
        true => site.signed((method, target), headers, ""),
        false => {
            let bearer = site.bearer();
            let own = [&headers[..], &[("authorization", &bearer)]].concat();
            own.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        }
    };
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    site.begin(method, target, &headers, Body::empty()).await
}

#[test]
fn answers_that_nobody_reads_hold_little_and_what_does_not_fit_is_told_to_come_again() {
    let site = Site::new();
    // Listed as text this is several hundred kilobytes.
    for number in 0..500 {
        site.write(&format!("runs/{number}-{}", "n".repeat(200)), "");
    }
    site.write("runs/file-1", vec![7; 4 << 20]);
    let used = || site.served.limits.memory();
    for asked in all() {
        site.runtime.block_on(async {
            let mut held = Vec::new();
            for _ in 0..8 {
                let mut response = begin(&site, &asked).await;
                assert!(response.status().is_success(), "{asked:?}: {response:?}");
                // One piece is taken, and then nothing more.
                let frame = std::future::poll_fn(|context| {
                    std::pin::Pin::new(response.body_mut()).poll_frame(context)
                });
                assert!(frame.await.is_some_and(|frame| frame.is_ok()), "{asked:?}");
                held.push(response);
            }
            assert!(used() > 0 && used() <= 8 * (4 << 20), "{asked:?}: {}", used());
            drop(held);
            // The rest is given back by those that made it.
            while used() > 0 {
                tokio::task::yield_now().await;
            }
            let share = site.served.limits.share(&site.token.name().expect("a name"));
            let _all = share.memory(share.left() - 1000).expect("there");
            let refused = begin(&site, &asked).await;
            assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "{asked:?}");
            assert!(refused.headers().contains_key("retry-after"), "{asked:?}");
        });
    }
    let share = site.served.limits.share(&site.token.name().expect("a name"));
    let all = share.memory(share.left() - 1000).expect("there");
    let md5 = [("content-md5", "JfnnlDI7RTiF9RgfG2JNCw==")];
    let body = "123456789";
    for refused in [
        site.ask("PUT", "/runs/new", &md5, body),
        site.ask_s3(("PUT", "/runs/new"), &[], (body, body)),
        site.ask_s3(("POST", "/runs?delete"), &[], (body, body)),
    ] {
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE, "{}", refused.text());
        assert!(refused.headers.contains_key("retry-after"));
    }
    drop(all);
    assert_eq!(site.ask("PUT", "/runs/new", &md5, body).status, StatusCode::CREATED);
    assert!(!site.root.join("runs/.tidegate").exists());
}

#[test]
fn uploads_in_parts_of_one_token_leave_room_for_others() {
    let mut site = Site::new();
    let begin = |site: &Site, number: usize| {
        site.ask_s3(("POST", &format!("/bucket/{number}?uploads")), &[], ("", ""))
    };
    let begun = (0..300).take_while(|number| begin(&site, *number).status.is_success()).count();
    assert_eq!(begun, 64);
    let refused = begin(&site, 0);
    assert_eq!(
        (refused.status, refused.headers.contains_key("retry-after")),
        (StatusCode::SERVICE_UNAVAILABLE, true)
    );
    let another = site.another_token();
    let revoked = std::mem::replace(&mut site.token, another);
    assert_eq!(begin(&site, 0).status, StatusCode::OK, "another token");
    // Those of a token that is not valid any more are over.
    tidegate_transfer::endpoint::access::revoke(&site.state, &revoked.to_word()).expect("revoked");
    site.served.uploads.sweep();
    let left = std::fs::read_dir(site.root.join("bucket/.tidegate")).expect("listed").count();
    assert_eq!(left, 1);
}

#[test]
fn files_that_take_long_to_hash_keep_no_other_token_waiting() {
    let mut site = Site::new();
    site.write("small", "x");
    // It holds nothing, and takes hours to read.
    std::fs::File::create(site.root.join("large")).expect("made").set_len(1 << 42).expect("grown");
    let bearer = site.bearer();
    let headers = [("authorization", &bearer[..])];
    let large = || site.begin_owned("GET", "/large?hash=blake3", &headers, Body::empty());
    let mut waiting: Vec<_> = (0..6).map(|_| Box::pin(large())).collect();
    site.runtime.block_on(async {
        for one in &mut waiting {
            // It is begun.
            for _ in 0..20 {
                tokio::select! {
                    biased;
                    _ = &mut *one => panic!("that was quick"),
                    () = tokio::task::yield_now() => {}
                }
            }
        }
    });
    let another = site.another_token();
    site.token = another;
    let hash = site.ask("GET", "/small?hash=blake3", &[], "").text();
    assert_eq!(hash.trim(), blake3::hash(b"x").to_hex().as_str());
    drop(waiting);
}
