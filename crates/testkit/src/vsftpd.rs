//! vsftpd on loopback: anonymous, in clear, with explicit or with implicit TLS.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use url::Url;

use super::server::Program;
use super::{Certificates, Server, program};

/// How an FTP server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    Clear,
    Explicit,
    Implicit,
}

/// What it serves, and how.
struct Site {
    root: PathBuf,
    security: Security,
    certificates: Certificates,
    more: String,
}

impl Program for Site {
    fn command(&self, dir: &Path, ports: &[u16]) -> Command {
        fs::write(dir.join("conf"), self.configuration(dir, ports[0])).expect("written");
        let mut command = Command::new(program("vsftpd").expect("it was there a moment ago"));
        command.arg(dir.join("conf"));
        // Its sessions are processes too, and end with the group.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
    }
}

impl Site {
    fn configuration(&self, dir: &Path, port: u16) -> String {
        let (empty, log) =
            (dir.join("empty").display().to_string(), dir.join("ftp.log").display().to_string());
        let mut text = format!(
            "listen=YES\nlisten_address=127.0.0.1\nlisten_port={port}\nbackground=NO\nanonymous_enable=YES\n\
             no_anon_password=NO\nlocal_enable=NO\nwrite_enable=NO\nanon_root={}\nsecure_chroot_dir={empty}\n\
             run_as_launching_user=YES\nallow_writeable_chroot=YES\nseccomp_sandbox=NO\nisolate=NO\n\
             isolate_network=NO\nxferlog_enable=YES\nvsftpd_log_file={log}\nlog_ftp_protocol=YES\n\
             dual_log_enable=NO\nsyslog_enable=NO\ndeny_file={{*.denied}}\npasv_enable=YES\n\
             use_localtime=NO\nmdtm_write=NO\n",
            self.root.display(),
        );
        if self.security != Security::Clear {
            let (chain, key) = (self.certificates.chain.display(), self.certificates.key.display());
            text.push_str(&format!(
                "ssl_enable=YES\nrsa_cert_file={chain}\nrsa_private_key_file={key}\nallow_anon_ssl=YES\n\
                 force_anon_data_ssl=YES\nforce_anon_logins_ssl=YES\nssl_ciphers=HIGH\nrequire_ssl_reuse=YES\n"
            ));
        }
        if self.security == Security::Implicit {
            text.push_str("implicit_ssl=YES\n");
        }
        text + &self.more
    }
}

/// A vsftpd that serves a directory to anybody. Files named `*.denied` are not given out.
pub struct Vsftpd(Server<Site>);

impl Vsftpd {
    /// Serves `root`; `None` if there is no vsftpd here.
    pub fn start(root: &Path, security: Security) -> Option<Self> {
        Self::with(root, security, "")
    }

    /// The same, with more lines of configuration.
    pub fn with(root: &Path, security: Security, more: &str) -> Option<Self> {
        program("vsftpd")?;
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("empty")).expect("made");
        let certificates = Certificates::make(dir.path());
        let site = Site { root: root.to_owned(), security, certificates, more: more.to_owned() };
        Some(Self(Server::start_in(dir, site)))
    }

    /// The directory that it serves.
    pub fn root(&self) -> &Path {
        &self.0.program.root
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.0.port()
    }

    /// Its certificates.
    pub fn certificates(&self) -> &Certificates {
        &self.0.program.certificates
    }

    /// Ends it, with every session, and starts it again on the same port.
    pub fn restart(&mut self) {
        self.0.restart();
    }

    /// What it was told and has answered so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.0.dir().join("ftp.log")).unwrap_or_default()
    }

    /// How often somebody has logged in.
    pub fn logins(&self) -> usize {
        self.log().matches("OK LOGIN").count()
    }

    /// A file.
    pub fn url(&self, path: &str) -> Url {
        let scheme = if self.0.program.security == Security::Clear { "ftp" } else { "ftps" };
        Url::parse(&format!("{scheme}://localhost:{}/{path}", self.port())).expect("a URL")
    }
}
