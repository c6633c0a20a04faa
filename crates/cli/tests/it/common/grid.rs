//! A grid of one authority: certificates of a host and of a user, and proxies, each in a file.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Command;

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};

use super::World;

/// The authority, what it has certified, and where that is.
pub struct Grid<'a> {
    world: &'a World,
    user: Issuer<'static, KeyPair>,
    user_pem: String,
}

impl<'a> Grid<'a> {
    /// In `grid` beneath the world: `authorities` to trust, `host.pem`, and `grid-mapfile`, which knows the user.
    pub fn new(world: &'a World) -> Self {
        std::fs::create_dir_all(world.path("grid/authorities")).expect("made");
        let mut params = params(&[("Authority", DnType::CommonName)]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca_key = key();
        let ca = params.self_signed(&ca_key).expect("signed");
        let authority = Issuer::new(params, ca_key);
        world.write("grid/authority.pem", ca.pem());
        // The name by which an authority is looked up.
        let mut hash = Command::new("openssl");
        hash.args(["x509", "-noout", "-subject_hash", "-in"]).arg(world.path("grid/authority.pem"));
        let hash = hash.output().expect("openssl runs").stdout;
        let hash = String::from_utf8(hash).expect("text").trim().to_owned();
        world.write(format!("grid/authorities/{hash}.0"), ca.pem());
        let policy = "access_id_CA X509 '/O=Test/CN=Authority'\npos_rights globus CA:sign\n\
                      cond_subjects globus '\"/O=Test/*\"'\n";
        world.write(format!("grid/authorities/{hash}.signing_policy"), policy);

        let host_key = key();
        let mut host = self::params(&[("localhost", DnType::CommonName)]);
        host.subject_alt_names = vec![SanType::DnsName("localhost".try_into().expect("a name"))];
        let host = host.signed_by(&host_key, &authority).expect("signed");
        let (user_key, user) = (key(), self::params(&[("User", DnType::CommonName)]));
        let user_pem = user.signed_by(&user_key, &authority).expect("signed").pem();
        let grid = Self { world, user: Issuer::new(user, user_key), user_pem };
        grid.secret("host.pem", &host.pem());
        grid.secret("host.key", &host_key.serialize_pem());
        let name = Command::new("id").arg("-un").output().expect("id runs").stdout;
        let name = String::from_utf8(name).expect("text");
        world.write("grid/grid-mapfile", format!("\"/O=Test/CN=User\" {name}"));
        grid
    }

    /// A proxy of the user in a file of this name, that holds or has expired.
    pub fn proxy(&self, name: &str, holds: bool) -> PathBuf {
        // Another attribute of the same kind.
        let second = DnType::CustomDnType(vec![2, 5, 4, 3]);
        let mut params = params(&[("User", DnType::CommonName), ("4711", second)]);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        if !holds {
            params.not_after = date_time_ymd(2001, 1, 1);
        }
        // ProxyCertInfo (RFC 3820) with the policy that all is inherited.
        let inherits = [0x30, 0x0c, 0x30, 0x0a, 6, 8, 0x2b, 6, 1, 5, 5, 7, 0x15, 1];
        let mut info = CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 14], inherits.to_vec());
        info.set_criticality(true);
        params.custom_extensions = vec![info];
        let key = key();
        let proxy = params.signed_by(&key, &self.user).expect("signed");
        self.secret(name, &(proxy.pem() + &key.serialize_pem() + &self.user_pem))
    }

    fn secret(&self, name: &str, text: &str) -> PathBuf {
        let path = self.world.path(format!("grid/{name}"));
        let mut file = std::fs::OpenOptions::new();
        let mut file = file.write(true).create_new(true).mode(0o600).open(&path).expect("made");
        file.write_all(text.as_bytes()).expect("written");
        path
    }

    /// What a server needs to know.
    pub fn of_server(&self) -> [(&'static str, PathBuf); 4] {
        let path = |name: &str| self.world.path(format!("grid/{name}"));
        [
            ("X509_CERT_DIR", path("authorities")),
            ("X509_USER_CERT", path("host.pem")),
            ("X509_USER_KEY", path("host.key")),
            ("GRIDMAP", path("grid-mapfile")),
        ]
    }
}

/// An RSA key: the grid's programs make none of another kind for those that a user delegates to.
fn key() -> KeyPair {
    let mut openssl = Command::new("openssl");
    openssl.args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]);
    let pem = openssl.output().expect("openssl runs").stdout;
    KeyPair::from_pem(&String::from_utf8(pem).expect("text")).expect("a key")
}

fn params(names: &[(&str, DnType)]) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "Test");
    for (value, kind) in names {
        name.push(kind.clone(), *value);
    }
    params.distinguished_name = name;
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(2049, 1, 1);
    params
}
