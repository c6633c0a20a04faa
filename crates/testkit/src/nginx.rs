//! nginx on loopback, in clear and with TLS, with places that misbehave.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use url::Url;

use super::server::Program;
use super::{Certificates, Server, program};

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

/// What it serves, in clear and with TLS.
struct Site {
    root: PathBuf,
    certificates: Certificates,
    http: String,
    server: String,
}

impl Program for Site {
    const PORTS: usize = 2;

    fn command(&self, dir: &Path, ports: &[u16]) -> Command {
        fs::write(dir.join("conf"), self.configuration(&dir.display().to_string(), ports)).expect("written");
        let mut command = Command::new(program("nginx").expect("it was there a moment ago"));
        command.arg("-c").arg(dir.join("conf")).arg("-p").arg(dir);
        command
    }
}

impl Site {
    fn configuration(&self, dir: &str, ports: &[u16]) -> String {
        let places = PLACES
            .replace("ROOT", &self.root.display().to_string())
            .replace("USERS", &format!("{dir}/users"))
            .replace("CLEAR", &ports[0].to_string());
        let (root, http, server) = (self.root.display(), &self.http, &self.server);
        let one = |listen: String, more: &str| {
            format!(
                "    server {{\n        {listen}\n        root {root};\n{more}\n{server}\n{places}    }}\n"
            )
        };
        let clear = one(format!("listen 127.0.0.1:{};", ports[0]), "");
        let (chain, key) = (self.certificates.chain.display(), self.certificates.key.display());
        let certificate = format!("        ssl_certificate {chain};\n        ssl_certificate_key {key};");
        let tls = one(format!("listen 127.0.0.1:{} ssl;", ports[1]), &certificate);
        // Run by root, a worker would be another user, who may not look into a temporary directory.
        format!(
            "user root;\npid {dir}/pid;\nerror_log stderr;\ndaemon off;\nmaster_process off;\n\
             events {{ worker_connections 1024; }}\n\
             http {{\n    log_format one '$connection $request_method $uri $status $http_range';\n\
             access_log {dir}/access one;\n    client_body_temp_path {dir}/body;\n    proxy_temp_path {dir}/proxy;\n    \
             fastcgi_temp_path {dir}/fastcgi;\n    uwsgi_temp_path {dir}/uwsgi;\n    scgi_temp_path {dir}/scgi;\n    \
             default_type application/octet-stream;\n    sendfile on;\n    tcp_nodelay on;\n    \
             keepalive_requests 100000;\n{http}\n{clear}{tls}}}\n"
        )
    }
}

/// An nginx that serves a directory.
pub struct Nginx(Server<Site>);

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
        let (http, server) = (http.to_owned(), server.to_owned());
        Some(Self(Server::start_in(dir, Site { root: root.to_owned(), certificates, http, server })))
    }

    /// Ends it and starts it again on the same ports: every connection is gone.
    pub fn restart(&mut self) {
        self.0.restart();
    }

    /// Its certificates.
    pub fn certificates(&self) -> &Certificates {
        &self.0.program.certificates
    }

    /// A file in clear.
    pub fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://127.0.0.1:{}/{path}", self.0.port())).expect("a URL")
    }

    /// The same file with TLS.
    pub fn secure_url(&self, path: &str) -> Url {
        Url::parse(&format!("https://localhost:{}/{path}", self.0.ports()[1])).expect("a URL")
    }

    /// What it has been asked: connection, method, path, status, range. It writes a line after each answer.
    pub fn requests(&self) -> Vec<String> {
        let text = fs::read_to_string(self.0.dir().join("access")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// How many connections those requests came on.
    pub fn connections(&self) -> usize {
        let first = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
        self.requests().iter().map(first).collect::<BTreeSet<_>>().len()
    }
}
