//! What is under way ends with the token that it was begun with.

use std::io;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::StatusCode;
use tidegate_transfer::endpoint::access::revoke;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::Site;

impl Site {
    fn revoke(&self) {
        revoke(&self.state, &self.token.to_word()).expect("revoked");
    }
}

#[test]
fn answers_that_are_under_way_end_when_their_token_is_revoked() {
    let mut site = Site::new();
    site.write("runs/large", vec![7; 2 << 20]);
    for number in 0..400 {
        site.write(&format!("runs/{number}-{}", "n".repeat(200)), "");
    }
    for (method, target, by_link) in [
        ("GET", "/runs/large", false),
        ("GET", "/runs/large", true),
        ("GET", "/runs/", false),
        ("GET", "/runs/?archive=tar", false),
        ("GET", "/runs/?archive=zip", true),
        ("PROPFIND", "/runs/", false),
    ] {
        site.token = site.another_token();
        let bearer = site.bearer();
        let (target, headers) = match by_link {
            true => {
                let mark = if target.contains('?') { '&' } else { '?' };
                (format!("{target}{mark}token={}", site.token.to_word()), vec![])
            }
            false => (target.to_owned(), vec![("authorization", &bearer[..])]),
        };
        let headers = [&headers[..], &[("depth", "1"), ("content-length", "0")]].concat();
        site.runtime.block_on(async {
            let whole = site.begin(method, &target, &headers, Body::empty()).await;
            assert!(to_bytes(whole.into_body(), usize::MAX).await.is_ok(), "{target}");
            let response = site.begin(method, &target, &headers, Body::empty()).await;
            assert!(response.status().is_success());
            let mut pieces = response.into_body().into_data_stream();
            pieces.next().await.expect("a piece").expect("it goes on");
            site.revoke();
            let mut came = 0;
            let ended = loop {
                match pieces.next().await {
                    Some(Ok(_)) => came += 1,
                    ended => break ended,
                }
            };
            // What was made before may be sent.
            assert!(ended.is_some_and(|ended| ended.is_err()) && came <= 2, "{method} {target}: {came}");
        });
    }
}

#[test]
fn what_is_being_put_is_not_there_when_its_token_is_revoked_meanwhile() {
    let site = Site::new();
    site.write("bucket/key", "old");
    let begun = site.ask_s3(("POST", "/bucket/parts?uploads"), &[], ("", ""));
    let text = begun.text();
    let id = text.split_once("<UploadId>").and_then(|(_, rest)| rest.split_once('<')).expect("one").0;
    let part = format!("/bucket/parts?partNumber=1&uploadId={id}");
    let bearer = site.bearer();
    let body = "123456789";
    let plain = vec![
        ("authorization".to_owned(), bearer),
        ("content-md5".to_owned(), "JfnnlDI7RTiF9RgfG2JNCw==".to_owned()),
    ];
    let asked = [
        ("/bucket/key", plain),
        ("/bucket/signed", site.signed(("PUT", "/bucket/signed"), &[], body)),
        (&part[..], site.signed(("PUT", &part), &[], body)),
    ];
    site.runtime.block_on(async {
        let mut answers = Vec::new();
        let mut senders = Vec::new();
        for (target, headers) in &asked {
            let mut headers: Vec<(&str, &str)> =
                headers.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            headers.push(("content-length", "9"));
            let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(1);
            let mut answer = Box::pin(site.begin_owned(
                "PUT",
                target,
                &headers,
                Body::from_stream(ReceiverStream::new(receiver)),
            ));
            // It has taken in what came by the time that there is room for more.
            for piece in ["1234", "5678"] {
                tokio::select! {
                    biased;
                    sent = sender.send(Ok(Bytes::from(piece))) => sent.expect("taken"),
                    _ = &mut answer => panic!("not whole"),
                }
            }
            answers.push(answer);
            senders.push(sender);
        }
        site.revoke();
        for (answer, sender) in answers.into_iter().zip(senders) {
            tokio::spawn(async move {
                let _ = sender.send(Ok(Bytes::from("9"))).await;
            });
            assert!(matches!(answer.await.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN));
        }
    });
    assert_eq!(site.read("bucket/key").as_deref(), Some("old"));
    assert!(!site.root.join("bucket/signed").exists() && !site.root.join("bucket/parts").exists());
    site.served.uploads.sweep();
    assert!(!site.root.join("bucket/.tidegate").exists(), "nothing is left");
}

#[test]
fn what_is_put_where_its_directory_no_longer_is_is_no_success() {
    let site = Site::new();
    let elsewhere = site.root.join("elsewhere");
    site.write("bucket/there", "old");
    let begun = site.ask_s3(("POST", "/bucket/parts?uploads"), &[], ("", ""));
    let text = begun.text();
    let id = text.split_once("<UploadId>").and_then(|(_, rest)| rest.split_once('<')).expect("one").0;
    let body = "123456789";
    let part = site.ask_s3(("PUT", &format!("/bucket/parts?partNumber=1&uploadId={id}")), &[], (body, body));
    let tag = part.headers.get("etag").expect("said").to_str().expect("text").to_owned();
    let status = site.runtime.block_on(async {
        let bearer = site.bearer();
        let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(1);
        let headers = [("authorization", &bearer[..]), ("content-length", "9")];
        let body = Body::from_stream(ReceiverStream::new(receiver));
        let mut answer = Box::pin(site.begin_owned("PUT", "/bucket/key", &headers, body));
        for piece in ["1234", "5678"] {
            tokio::select! {
                biased;
                sent = sender.send(Ok(Bytes::from(piece))) => sent.expect("taken"),
                _ = &mut answer => panic!("not whole"),
            }
        }
        std::fs::rename(site.root.join("bucket"), &elsewhere).expect("moved");
        tokio::spawn(async move { sender.send(Ok(Bytes::from("9"))).await });
        answer.await.status()
    });
    assert!(status.is_client_error(), "{status}");
    let document = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{tag}</ETag></Part></CompleteMultipartUpload>"
    );
    let whole = site.ask_s3(("POST", &format!("/bucket/parts?uploadId={id}")), &[], (&document, &document));
    assert!(!whole.status.is_success() || whole.text().contains("moved or replaced"), "{}", whole.text());
    assert!(!site.root.join("bucket").exists());
}
