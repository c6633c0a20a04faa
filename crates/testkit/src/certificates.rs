//! Certificates of nobody in particular.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

/// A throw-away authority's certificate, and one of its for `localhost`, `127.0.0.1` and `::1`, as files.
pub struct Certificates {
    pub ca: PathBuf,
    pub chain: PathBuf,
    pub key: PathBuf,
}

impl Certificates {
    pub fn make(dir: &Path) -> Self {
        let mut authority = CertificateParams::new(Vec::<String>::new()).expect("no names");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "a throw-away authority");
        let key = KeyPair::generate().expect("a key");
        let ca = authority.self_signed(&key).expect("signed").pem();
        let issuer = Issuer::new(authority, key);
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        let mut server = CertificateParams::new(names).expect("names");
        server.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        let key = KeyPair::generate().expect("a key");
        let chain = server.signed_by(&key, &issuer).expect("signed").pem();
        let write = |name: &str, text: &str| {
            let path = dir.join(name);
            fs::write(&path, text).expect("written");
            path
        };
        Self {
            ca: write("ca.pem", &ca),
            chain: write("chain.pem", &chain),
            key: write("key.pem", &key.serialize_pem()),
        }
    }
}
