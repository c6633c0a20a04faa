//! Where credentials, region and endpoint of S3 come from: the environment, then the profile in
//! `~/.aws/credentials` and `~/.aws/config`, as AWS' own tools read them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use tidegate_transfer::error::{Error, ErrorKind, Result};

use crate::foreign::io_words;

/// The longest file that is read.
const MAX_FILE: u64 = 1 << 20;

/// Who we are. Shown without the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The access key's name.
    pub key: String,
    /// The secret that belongs to it.
    pub secret: String,
    /// The session token of temporary credentials.
    pub token: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("key", &self.key).finish_non_exhaustive()
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// None means that requests go unsigned.
    pub credentials: Option<Credentials>,
    /// The region, if one is set.
    pub region: Option<String>,
    /// The endpoint, if one is set.
    pub endpoint: Option<String>,
    /// `path` or `virtual`, if set.
    pub style: Option<String>,
}

/// One profile's settings by name.
type Profile = BTreeMap<String, String>;

impl Found {
    /// Looks things up: `variable` tells the environment. Nothing found is no error; a profile that was
    /// asked for and is not there, or that needs more than keys, is one.
    pub fn look_up(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let asked = variable("AWS_PROFILE").or_else(|| variable("AWS_DEFAULT_PROFILE"));
        let name = asked.clone().unwrap_or_else(|| "default".to_owned());
        let home = variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let file = |name: &str, usual: &str| {
            let usual = || Some(home.as_ref()?.join(".aws").join(usual));
            variable(name).map(PathBuf::from).or_else(usual)
        };
        let mut profile = Profile::new();
        let mut known = false;
        let config = match name.as_str() {
            "default" => name.clone(),
            other => format!("profile {other}"),
        };
        for (path, section) in [
            (file("AWS_CONFIG_FILE", "config"), &config),
            (file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), &name),
        ] {
            let Some(path) = path else { continue };
            if let Some(found) = read(&path)?.remove(section) {
                known = true;
                profile.extend(found);
            }
        }
        let mut found = Self {
            credentials: None,
            region: variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION")),
            endpoint: variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL")),
            style: profile.remove("s3.addressing_style").or_else(|| profile.remove("addressing_style")),
        };
        let of_profile = |name: &str| profile.get(name).filter(|value| !value.is_empty()).cloned();
        found.region = found.region.or_else(|| of_profile("region"));
        found.endpoint = found.endpoint.or_else(|| of_profile("s3.endpoint_url"));
        found.endpoint = found.endpoint.or_else(|| of_profile("endpoint_url"));
        if let (Some(key), Some(secret)) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"))
        {
            found.credentials = Some(Credentials { key, secret, token: variable("AWS_SESSION_TOKEN") });
            return Ok(found);
        }
        if let (Some(key), Some(secret)) =
            (of_profile("aws_access_key_id"), of_profile("aws_secret_access_key"))
        {
            found.credentials = Some(Credentials { key, secret, token: of_profile("aws_session_token") });
            return Ok(found);
        }
        let refuse = |why: String| Err(Error::new(ErrorKind::Authentication, why));
        if asked.is_some() && !known {
            return refuse(format!(
                "AWS_PROFILE names the profile {name:?}, which is in neither file of ~/.aws"
            ));
        }
        let foreign = ["sso_session", "sso_start_url", "role_arn", "credential_process", "login_session"];
        if let Some(how) = foreign.iter().find(|how| profile.contains_key(**how)) {
            return refuse(format!(
                "the profile {name:?} gets its keys by {how}, which is not done here: run \
                 `eval \"$(aws configure export-credentials --profile {name} --format env)\"` first"
            ));
        }
        Ok(found)
    }
}

/// The sections of a file; none if it is not there.
fn read(path: &Path) -> Result<BTreeMap<String, Profile>> {
    use std::io::Read;
    let wrong = |why: String| {
        Err(Error::new(ErrorKind::Authentication, format!("cannot read {}: {why}", path.display())))
    };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return wrong(io_words(&error)),
    };
    let mut text = String::new();
    match file.take(MAX_FILE).read_to_string(&mut text) {
        Ok(_) => Ok(sections(&text)),
        Err(error) => wrong(io_words(&error)),
    }
}

/// Reads `[section]`, `name = value`, and values indented below a name, which become `outer.inner`.
fn sections(text: &str) -> BTreeMap<String, Profile> {
    let mut sections = BTreeMap::<String, Profile>::new();
    let mut section = None;
    let mut outer = None;
    for line in text.lines() {
        let content = line.trim();
        if content.is_empty() || content.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = content.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            let words: Vec<&str> = name.split_whitespace().collect();
            section = Some(words.join(" "));
            outer = None;
            sections.entry(words.join(" ")).or_default();
            continue;
        }
        let (Some(section), Some((name, value))) = (&section, content.split_once('=')) else { continue };
        let (name, value) = (name.trim().to_lowercase(), value.trim().to_owned());
        let profile = sections.entry(section.clone()).or_default();
        match (&outer, line.starts_with([' ', '\t'])) {
            (Some(outer), true) => drop(profile.insert(format!("{outer}.{name}"), value)),
            _ => {
                outer = value.is_empty().then(|| name.clone());
                profile.insert(name, value);
            }
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = "\
[default]\naws_access_key_id = ONE\naws_secret_access_key=first/secret=\n\n# a comment\n[other]\n\
aws_access_key_id=TWO\naws_secret_access_key = second\naws_session_token = short lived\n";
    const CONFIG: &str = "\
[default]\nregion = eu-west-1\n[profile other]\nregion=us-west-2\nendpoint_url = http://localhost:1\ns3 =\n  \
addressing_style = path\n  max_concurrent_requests = 3\n[profile login]\nsso_session = x\n";

    fn with(pairs: &[(&str, &str)]) -> Result<Found> {
        let home = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(home.path().join(".aws")).expect("made");
        std::fs::write(home.path().join(".aws/credentials"), CREDENTIALS).expect("written");
        std::fs::write(home.path().join(".aws/config"), CONFIG).expect("written");
        let home = home.path().to_str().expect("text").to_owned();
        Found::look_up(&|name| match name {
            "HOME" => Some(home.clone()),
            name => pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()),
        })
    }

    #[test]
    fn the_environment_comes_before_the_profile() {
        let found = with(&[]).expect("the default profile");
        assert_eq!(found.credentials.as_ref().map(|c| c.secret.as_str()), Some("first/secret="));
        assert_eq!(found.region.as_deref(), Some("eu-west-1"));
        let pairs = [
            ("AWS_ACCESS_KEY_ID", "E"),
            ("AWS_SECRET_ACCESS_KEY", "hush"),
            ("AWS_SESSION_TOKEN", ""),
            ("AWS_REGION", "ap-south-1"),
            ("AWS_ENDPOINT_URL", "http://general"),
            ("AWS_ENDPOINT_URL_S3", "http://special"),
        ];
        let found = with(&pairs).expect("the environment");
        let credentials = found.credentials.expect("some");
        assert_eq!((credentials.key.as_str(), credentials.token.clone()), ("E", None));
        assert!(!format!("{credentials:?}").contains("hush"), "no secret is shown");
        assert_eq!(found.region.as_deref(), Some("ap-south-1"));
        assert_eq!(found.endpoint.as_deref(), Some("http://special"));
    }

    #[test]
    fn a_profile_is_read_from_both_files() {
        let found = with(&[("AWS_PROFILE", "other")]).expect("a profile");
        let credentials = found.credentials.expect("some");
        assert_eq!(credentials.token.as_deref(), Some("short lived"));
        assert_eq!(found.region.as_deref(), Some("us-west-2"));
        assert_eq!(found.endpoint.as_deref(), Some("http://localhost:1"));
        assert_eq!(found.style.as_deref(), Some("path"));
    }

    #[test]
    fn what_cannot_be_had_is_said() {
        let error = with(&[("AWS_PROFILE", "nobody")]).expect_err("not there");
        assert!(error.message.contains("\"nobody\""), "{error}");
        let error = with(&[("AWS_PROFILE", "login")]).expect_err("needs a browser");
        assert!(
            error.message.contains("sso_session") && error.message.contains("export-credentials"),
            "{error}"
        );
    }
}
