//! Every store against a real server of its kind.

use crate::common::conformance::{Subject, conforms};
use crate::common::direct_sftp::{self, Direct, NO_SFTP};
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use testkit::nginx::Nginx;
use testkit::vsftpd::{Security, Vsftpd};
use tidegate_fetch::remote::servers::{ServerSettings, Servers};
use tidegate_transfer::sys::sync::Mutex;
use url::Url;

const NO_NGINX: &str = "nginx is not installed";
const NO_VSFTPD: &str = "vsftpd is not installed";

fn settings() -> ServerSettings {
    ServerSettings { timeout: Duration::from_secs(10), ..ServerSettings::default() }
}

fn http(secure: bool) -> Option<Subject> {
    let root = tempfile::tempdir().expect("a directory");
    let nginx = Nginx::start(root.path())?;
    let settings = ServerSettings { ca: secure.then(|| nginx.certificates().ca.clone()), ..settings() };
    let nginx = Arc::new(Mutex::new(nginx));
    let denied = nginx.lock().url("forbidden/x");
    let [for_urls, for_restart, for_count] = [0; 3].map(|_| Arc::clone(&nginx));
    Some(Subject {
        remotes: Box::new(Servers::new(&settings)),
        root,
        url: Box::new(move |path| {
            let nginx = for_urls.lock();
            if secure { nginx.secure_url(path) } else { nginx.url(path) }
        }),
        restart: Some(Box::new(move || for_restart.lock().restart())),
        connections: Some(Box::new(move || for_count.lock().connections())),
        denied: Some(denied),
        written: None,
        _server: Box::new(nginx),
    })
}

fn ftp(security: Security) -> Option<Subject> {
    let root = tempfile::tempdir().expect("a directory");
    fs::write(root.path().join("x.denied"), "secret").expect("written");
    let vsftpd = Vsftpd::start(root.path(), security)?;
    let ca = (security != Security::Clear).then(|| vsftpd.certificates().ca.clone());
    let mut settings = ServerSettings { ca, ..settings() };
    if security == Security::Implicit {
        settings.ftps_implicit_port = vsftpd.port();
    }
    let denied = vsftpd.url("x.denied");
    let vsftpd = Arc::new(Mutex::new(vsftpd));
    let [for_urls, for_restart, for_count] = [0; 3].map(|_| Arc::clone(&vsftpd));
    Some(Subject {
        remotes: Box::new(Servers::new(&settings)),
        root,
        url: Box::new(move |path| for_urls.lock().url(path)),
        restart: Some(Box::new(move || for_restart.lock().restart())),
        connections: Some(Box::new(move || for_count.lock().logins())),
        denied: Some(denied),
        written: None,
        _server: Box::new(vsftpd),
    })
}

fn file() -> Option<Subject> {
    let root = tempfile::tempdir().expect("a directory");
    let dir = Url::from_directory_path(root.path()).expect("a URL");
    Some(Subject {
        remotes: Box::new(Servers::new(&settings())),
        root,
        url: Box::new(move |path| dir.join(path).expect("a URL")),
        restart: None,
        connections: None,
        denied: None,
        written: None,
        _server: Box::new(()),
    })
}

fn sftp() -> Option<Subject> {
    let root = tempfile::tempdir().expect("a directory");
    let direct = Direct::new(&[])?;
    let base = direct_sftp::url(root.path());
    let [for_restart, for_count] = [0; 2].map(|_| Arc::clone(&direct));
    Some(Subject {
        remotes: Box::new(Servers::new(&direct.settings(settings()))),
        root,
        url: Box::new(move |path| Url::parse(&format!("{base}/{path}")).expect("a URL")),
        restart: Some(Box::new(move || for_restart.end_all())),
        connections: Some(Box::new(move || for_count.begun())),
        denied: None,
        written: None,
        _server: Box::new(direct),
    })
}

conforms!(http_in_clear, http(false), NO_NGINX);
conforms!(https, http(true), NO_NGINX);
conforms!(ftp_in_clear, ftp(Security::Clear), NO_VSFTPD);
conforms!(ftps_explicit, ftp(Security::Explicit), NO_VSFTPD);
conforms!(ftps_implicit, ftp(Security::Implicit), NO_VSFTPD);
conforms!(sftp_files, sftp(), NO_SFTP);
conforms!(file_urls, file(), "never");
