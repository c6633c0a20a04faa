//! nginx on loopback, in clear and with TLS, with places that misbehave.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use url::Url;

use super::{Certificates, Running, free_port, program};

/// Places besides `/`, which are the same files under another rule. `/redirect/x` leads to `/x`, and
/// `/hops/aaa` takes three redirects to `/whole`.
const PLACES: &str = r#"
        location /noranges/ { alias ROOT/; max_ranges 0; }
        location /notag/ { alias ROOT/; etag off; }
        location /nothing/ { alias ROOT/; etag off; add_header Last-Modified ""; }
        location /slow/ { alias ROOT/; limit_rate 64k; }
        location /busy429/ { add_header Retry-After 7 always; return 429; }
        location /busy503/ { add_header Retry-After "Sat, 06 Nov 2094 08:49:37 GMT" always; return 503; }
        location /forbidden/ { return 403; }
        location /gone/ { return 410; }
        location /broken/ { return 500; }
        location /behind/ { return 502; }
        location /never/ { return 501; }
        location /private/ { alias ROOT/; auth_basic private; auth_basic_user_file USERS; }
        location /page/ { default_type text/html; return 200 "<html>An error occurred</html>"; }
        location /redirect/ { rewrite ^/redirect/(.*)$ /$1 redirect; }
        location /permanent/ { rewrite ^/permanent/(.*)$ /$1 permanent; }
        location /hops/ {
            rewrite ^/hops/a(a+)$ /hops/$1 redirect;
            rewrite ^/hops/a$ /whole redirect;
        }
        location /loop/a { return 302 /loop/b; }
        location /loop/b { return 302 /loop/a; }
        location /nowhere/ { return 302 ftp://localhost/x; }
        location /downgrade/ { return 302 http://127.0.0.1:CLEAR/whole; }
        location /elsewhere/ { return 302 http://localhost:CLEAR/echo; }
        location /echo { add_header X-Seen "$http_authorization|$http_x_api_key" always; return 200 "$http_authorization|$http_x_api_key"; }
"#;

/// An nginx that serves a directory.
pub struct Nginx {
    running: Option<Running>,
    dir: tempfile::TempDir,
    root: PathBuf,
    port: u16,
    tls_port: u16,
    pub certificates: Certificates,
}

impl Nginx {
    /// Serves `root`; `None` if there is no nginx here.
    pub fn start(root: &Path) -> Option<Self> {
        Self::with(root, "", "")
    }

    /// The same, with more text for nginx' `http` and `server` sections.
    pub fn with(root: &Path, http: &str, server: &str) -> Option<Self> {
        program("nginx")?;
        let dir = tempfile::tempdir().expect("a directory");
        let certificates = Certificates::make(dir.path());
        // The password is "open sesame".
        fs::write(dir.path().join("users"), "Aladdin:{PLAIN}open sesame\n").expect("written");
        let (port, tls_port) = (free_port(), free_port());
        let mut nginx = Self { running: None, dir, root: root.to_owned(), port, tls_port, certificates };
        for attempt in 0.. {
            nginx.configure(http, server);
            match nginx.run() {
                Ok(()) => break,
                // Somebody else took a port in the meantime, most likely.
                Err(error) if attempt < 3 => {
                    eprintln!("once more: {error}");
                    (nginx.port, nginx.tls_port) = (free_port(), free_port());
                }
                Err(error) => panic!("{error}"),
            }
        }
        Some(nginx)
    }

    fn configure(&self, http: &str, server: &str) {
        let dir = self.dir.path().display();
        let places = PLACES
            .replace("ROOT", &self.root.display().to_string())
            .replace("USERS", &format!("{dir}/users"))
            .replace("CLEAR", &self.port.to_string());
        let (root, port, tls_port) = (self.root.display(), self.port, self.tls_port);
        let one = |listen: String, more: &str| {
            format!(
                "    server {{\n        {listen}\n        root {root};\n{more}\n{server}\n{places}    }}\n"
            )
        };
        let clear = one(format!("listen 127.0.0.1:{port};"), "");
        let (chain, key) = (self.certificates.chain.display(), self.certificates.key.display());
        let certificate = format!("        ssl_certificate {chain};\n        ssl_certificate_key {key};");
        let tls = one(format!("listen 127.0.0.1:{tls_port} ssl;"), &certificate);
        // Run by root, a worker would be another user, who may not look into a temporary directory.
        let text = format!(
            "user root;\npid {dir}/pid;\nerror_log stderr;\ndaemon off;\nmaster_process off;\n\
             events {{ worker_connections 1024; }}\n\
             http {{\n    log_format one '$connection $request_method $uri $status $http_range';\n\
             access_log {dir}/access one;\n    client_body_temp_path {dir}/body;\n    proxy_temp_path {dir}/proxy;\n    \
             fastcgi_temp_path {dir}/fastcgi;\n    uwsgi_temp_path {dir}/uwsgi;\n    scgi_temp_path {dir}/scgi;\n    \
             default_type application/octet-stream;\n    sendfile on;\n    tcp_nodelay on;\n    \
             keepalive_requests 100000;\n{http}\n{clear}{tls}}}\n"
        );
        fs::write(self.dir.path().join("conf"), text).expect("written");
    }

    fn run(&mut self) -> Result<(), String> {
        let nginx = program("nginx").expect("it was there a moment ago");
        let mut command = Command::new(nginx);
        command.arg("-c").arg(self.dir.path().join("conf")).arg("-p").arg(self.dir.path());
        let log = self.dir.path().join("log");
        let mut running = Running::start(&mut command, self.port, &log)?;
        running.wait_for(self.tls_port, &log)?;
        self.running = Some(running);
        Ok(())
    }

    /// Ends it and starts it again on the same ports: every connection is gone.
    pub fn restart(&mut self) {
        self.running = None;
        self.run().expect("started again");
    }

    /// A file in clear.
    pub fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://127.0.0.1:{}/{path}", self.port)).expect("a URL")
    }

    /// The same file with TLS.
    pub fn secure_url(&self, path: &str) -> Url {
        Url::parse(&format!("https://localhost:{}/{path}", self.tls_port)).expect("a URL")
    }

    /// What it has been asked: connection, method, path, status, range. It writes a line after each answer.
    pub fn requests(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dir.path().join("access")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// How many connections those requests came on.
    pub fn connections(&self) -> usize {
        let first = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
        self.requests().iter().map(first).collect::<BTreeSet<_>>().len()
    }
}
