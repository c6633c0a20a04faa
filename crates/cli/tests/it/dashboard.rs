//! The dashboard in a real browser, of a real service with real transfers.

use crate::common;
use std::process::Stdio;

use crate::common::browser::Browser;
use crate::common::service::Service;
use crate::common::{World, eventually};
use testkit::skip;

/// The width of a phone.
const PHONE: u32 = 390;

/// Opens a view on a phone and on a large screen; nothing may stick out.
fn look(browser: &mut Browser, base: &str, view: &str, seen: &str, name: &str) {
    for (width, dark) in [(1280, false), (PHONE, true), (PHONE, false)] {
        browser.size(width, 900, dark);
        browser.open(&format!("{base}/#{view}"));
        browser.until(seen);
        let wide = browser.script("document.documentElement.scrollWidth");
        assert!(wide.as_u64().is_some_and(|wide| wide <= u64::from(width)), "{view} is {wide} px wide");
        browser.picture(&format!("{name}-{width}{}", if dark { "-dark" } else { "" }));
    }
    browser.size(1280, 900, false);
}

#[test]
fn the_dashboard_shows_jobs_estimates_and_paths() {
    let Some(mut browser) = Browser::start() else {
        return skip("the_dashboard_shows_jobs_estimates_and_paths", "there is no Chromium to look with");
    };
    let world = World::new();
    let endpoint = world.endpoint("there", &[]);
    world.fill("small", 200_000, 1);
    world.fill("long", 24 << 20, 2);
    let service = Service::start(&world, "svc", &[]);
    let base = service.url.clone();
    let has = |text: &str| format!("document.querySelector('main').innerText.includes({text:?})");

    // Nobody is signed in; the link does it.
    browser.size(1280, 900, false);
    browser.open(&base);
    browser.until("location.pathname === '/login' && !!document.querySelector('#token')");
    browser.picture("login");
    browser.open(&service.link);
    browser.until("location.pathname === '/' && document.title.startsWith('Jobs')");
    look(&mut browser, &base, "/jobs", &has("No jobs yet"), "jobs-empty");
    look(&mut browser, &base, "/paths", &has("Nothing is remembered yet"), "paths-empty");

    // A job by the form.
    browser.open(&format!("{base}/#/jobs"));
    browser.until("!!document.querySelector('.heading button')");
    browser.script("document.querySelector('.heading button').click()");
    browser.until("document.activeElement.id === 'source'");
    let (source, destination) = (world.text("small"), endpoint.at("in/"));
    browser.script(&format!(
        "document.querySelector('#source').value = {source:?}; \
         document.querySelector('#destination').value = {destination:?}; \
         document.querySelector('#new-job').requestSubmit()"
    ));
    browser.until("!!document.querySelector('.job .badge.done')");
    assert_eq!(world.read("there/in/small"), world.read("small"));
    let page = browser.script("document.body.innerText");
    assert!(!page.to_string().contains(endpoint.secret()), "the ticket's secret is shown");

    // One that runs for a while, seen live.
    let slow = ["submit", "long", &endpoint.at("slow"), "--option=--limit-link=8Mbit/s", "--no-optimization"];
    assert_eq!(service.run(&world, &slow).code, 0);
    let lines = "document.querySelectorAll('.chart path.line').length >= 6";
    look(&mut browser, &base, "/jobs/2", lines, "job-live");
    look(&mut browser, &base, "/jobs", "!!document.querySelector('.job .badge.running')", "jobs");
    browser.until(&has(" left"));
    browser.open(&format!("{base}/#/jobs/2"));
    browser.until(lines);
    browser.until(
        "[...document.querySelectorAll('.legend b')].some((value) => value.textContent.includes('bit/s'))",
    );
    // The keyboard moves the cursor of a chart.
    browser.until("document.querySelector('.chart path.line.network').getAttribute('d').includes('L')");
    browser.script("document.querySelector('.chart').focus()");
    browser.press("Home");
    browser.until("document.querySelector('.chart .cursor').getAttribute('visibility') === 'visible'");
    browser.script(
        "[...document.querySelectorAll('button')].find((button) => button.textContent === 'Cancel').click()",
    );
    browser.until("!!document.querySelector('.badge.cancelled')");
    eventually(|| service.job(&world, 2)["state"] == "cancelled");

    // An estimate, really measured, of so much that no machine moves it sooner than it is sampled.
    let query = format!("/estimate?source={}&destination={}", "/data", encoded(&endpoint.at("")));
    browser.open(&format!("{base}/#{query}"));
    browser.until("!!document.querySelector('#bytes')");
    browser.script("document.querySelector('#bytes').value = '100 TB'");
    browser.script("document.querySelector('#model').value = 'dinda'");
    browser.script("document.querySelector('form').requestSubmit()");
    browser.until("document.querySelectorAll('.chart circle.dot.sample').length >= 3");
    browser.until("!!document.querySelector('.chart circle.mark') && !!document.querySelector('.answer b')");
    browser.until("/Dinda|No model/.test(document.querySelector('.card[aria-label=Estimate]').textContent)");
    browser.picture("estimate");
    browser.size(PHONE, 900, false);
    browser.until(&format!("document.documentElement.scrollWidth <= {PHONE}"));
    browser.picture("estimate-390");

    // What is remembered of the path.
    look(&mut browser, &base, "/paths", "!!document.querySelector('.job .route')", "paths");
    let path = browser.script("document.querySelector('a.job').getAttribute('href').slice(1)");
    let path = path.as_str().expect("a path").to_owned();
    let seen = "document.querySelectorAll('.chart').length >= 2 && !!document.querySelector('table')";
    look(&mut browser, &base, &path, seen, "path");

    let foreign: Vec<String> = browser
        .requests()
        .into_iter()
        .filter(|url| !url.starts_with(&base) && url != "about:blank")
        .collect();
    assert!(foreign.is_empty(), "asked elsewhere: {foreign:?}");
    let errors = browser.errors();
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(service.terminate(), 0);
}

#[test]
fn failed_jobs_are_tried_again_from_the_page() {
    let test = "failed_jobs_are_tried_again_from_the_page";
    let Some(mut browser) = Browser::start() else {
        return skip(test, "there is no Chromium to look with");
    };
    let world = World::new();
    world.fill("data", 10_000, 1);
    let endpoint = world.endpoint("there", &[]);
    // A port that is ours, and that nobody answers at.
    let nobody = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None)
        .expect("a socket");
    rustix::net::bind(&nobody, &std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0))
        .expect("bound");
    let name = rustix::net::getsockname(&nobody).expect("named");
    let nobody_at = std::net::SocketAddr::try_from(name).expect("an address").to_string();
    let destination = |name: &str| endpoint.at(name).replace(&endpoint.place(), &nobody_at);
    let service = Service::start(&world, "svc", &[]);
    let base = service.url.clone();
    for name in ["one", "two"] {
        let submit = ["submit", "data", &destination(name), "--retry-for", "0s", "--no-optimization"];
        assert_eq!(service.run(&world, &submit).code, 0);
    }
    let failed_after = |id: u64, attempts: u64| {
        eventually(|| {
            let job = service.job(&world, id);
            job["state"] == "failed" && job["attempts"].as_u64() == Some(attempts)
        });
    };
    failed_after(1, 1);
    failed_after(2, 1);
    browser.open(&service.link);
    browser.until("location.pathname === '/' && document.title.startsWith('Jobs')");
    let failed = "!!document.querySelector('.job .badge.failed')";
    look(&mut browser, &base, "/jobs?state=failed", failed, "jobs-failed");
    let refused = "document.querySelector('main').innerText.includes('Connection refused (given up after')";
    look(&mut browser, &base, "/jobs/1", refused, "job-failed");
    let press = |browser: &mut Browser, button: &str| {
        let find = format!(
            "[...document.querySelectorAll('button')].find((one) => !one.hidden && one.textContent === {button:?})"
        );
        browser.until(&format!("!!{find}"));
        browser.script(&format!("{find}.click()"));
    };
    // Alone, and then with the other one, which failed for the same reason.
    press(&mut browser, "Try again");
    failed_after(1, 2);
    failed_after(2, 1);
    press(&mut browser, "Try all with this cause again");
    browser.until("document.querySelector('main').innerText.includes('2 jobs will be tried again.')");
    failed_after(1, 3);
    failed_after(2, 2);
    browser.until(refused);
    // What failed for another job is tried again with that one, and not by itself.
    let job = |name: &str, more: &str| {
        let destination = destination(name);
        format!(
            "[[job]]\nname = {name:?}\nsource = \"data\"\ndestination = {destination:?}\nretry_for_s = 0\n\
             optimization = false\n{more}\n"
        )
    };
    world.write("two.toml", job("a", "") + &job("b", "after = [\"a\"]"));
    assert_eq!(service.run(&world, &["submit", "two.toml"]).code, 0);
    failed_after(3, 1);
    browser.open(&format!("{base}/#/jobs/4"));
    browser.until("document.querySelector('main').innerText.includes('it waited for job 3, which failed')");
    let buttons = "[...document.querySelectorAll('main button')].filter((one) => !one.hidden).length";
    assert_eq!(browser.script(buttons), 0);
    browser.picture("job-doomed");
    let held = service.run(&world, &["job", "4", "--retry"]);
    assert!(
        held.code == 1 && held.err.contains("job 3, which failed: have that one tried again\n"),
        "{held:?}"
    );
    let errors = browser.errors();
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn movers_of_many_hosts_are_rows_of_the_page() {
    let Some(mut browser) = Browser::start() else {
        return skip("movers_of_many_hosts_are_rows_of_the_page", "there is no Chromium to look with");
    };
    let world = World::new();
    // More than one mover claims at once.
    for file in 0..2000 {
        world.fill(format!("src/{file}"), 8_000, file);
    }
    let endpoint = world.endpoint("there", &[]);
    world.ok(&["remote", "add", "dtn", &endpoint.address]);
    world.ok(&["remote", "pool", "site", "dtn:/"]);
    let service = Service::start(&world, "svc", &[]);
    let base = service.url.clone();
    let words = ["spread", "src/", "site:/in/", "--movers", "2", "-q", "--option=--limit-link=8Mbit/s"];
    let spread = service.command(&world, &words).stdout(Stdio::piped()).spawn().expect("started");
    browser.open(&service.link);
    browser.until("location.pathname === '/' && document.title.startsWith('Jobs')");
    let rows = "document.querySelectorAll('[aria-label=Movers] tbody tr').length === 2";
    // Its page says that there is none before all is listed.
    browser.until("document.querySelector('a[href=\"#/jobs/1\"]') !== null");
    browser.open(&format!("{base}/#/jobs/1"));
    browser.until(rows);
    let text = "document.querySelector('[aria-label=Movers]').innerText";
    browser
        .until(&format!("{text}.includes('bit/s') && {text}.includes('dtn:/') && {text}.includes(' ago')"));
    look(&mut browser, &base, "/jobs/1", rows, "job-movers");
    assert!(common::wait(spread).code == 0);
    browser.until("!!document.querySelector('.badge.done')");
    browser.until("document.querySelector('.facts').innerText.includes(' of ')");
    let errors = browser.errors();
    assert!(errors.is_empty(), "{errors:?}");
}

/// A text as it may stand in a query.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
