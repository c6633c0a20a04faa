//! The stand-in archive of `standin/`, as a child of the test.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_fetch::archive::{ArchiveSettings, Archives, ResolveOptions};
use tidegate_fetch::record::{Named, Record};
use tidegate_transfer::error::Error;

/// Where `python3 -m standin` is found.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn python(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(["-B", "-m", "standin"]).args(arguments).current_dir(repository()).stdin(Stdio::null());
    command
}

/// Whether there is a Python to run it; says so if not.
pub fn is_there(test: &str) -> bool {
    let found = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return true;
    }
    if let Some(log) = std::env::var_os("TIDEGATE_SKIP_LOG") {
        let log = std::fs::OpenOptions::new().append(true).create(true).open(log);
        let said = log.and_then(|mut log| writeln!(log, "{test}: python3 is not installed"));
        said.expect("the skip log is writable");
    }
    false
}

/// A made data set.
pub struct DataSet {
    pub root: TempDir,
    /// What `runs.json` says.
    pub runs: Vec<Value>,
}

impl DataSet {
    pub fn make(options: &[&str]) -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let place = root.path().to_str().expect("a plain path");
        let made = python(&[&["make", "--root", place], options].concat()).output().expect("python3 runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let text = std::fs::read_to_string(root.path().join("runs.json")).expect("runs.json was made");
        let mut table: Value = serde_json::from_str(&text).expect("JSON");
        let Value::Array(runs) = table["runs"].take() else { panic!("a list of runs") };
        Self { root, runs }
    }

    /// The first run of a shape.
    pub fn shape(&self, shape: &str) -> &Value {
        self.runs.iter().find(|run| run["shape"] == shape).expect("every shape is made")
    }
}

/// Two of every shape, for all tests of this program.
pub fn data() -> &'static DataSet {
    static DATA: OnceLock<DataSet> = OnceLock::new();
    DATA.get_or_init(|| DataSet::make(&["--runs", "24", "--mb", "0.01", "--seed", "7"]))
}

/// A run's accession by the name of its column.
pub fn id<'a>(run: &'a Value, column: &str) -> &'a str {
    run["columns"][column].as_str().expect("a column")
}

/// The accession of the first run of a shape.
pub fn run_of(shape: &str) -> &'static str {
    id(data().shape(shape), "run_accession")
}

pub struct Standin {
    child: Child,
    urls: BTreeMap<String, String>,
}

impl Drop for Standin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Standin {
    /// Serves a data set with faults.
    pub fn start(data: &DataSet, options: &[&str]) -> Self {
        let root = data.root.path().to_str().expect("a plain path");
        let mut child = python(&[&["--root", root], options].concat())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs");
        let mut line = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let urls = serde_json::from_str(&line).expect("it starts and says where it is");
        Self { child, urls }
    }

    /// A base URL by its key in the line that it prints.
    pub fn url(&self, key: &str) -> &str {
        &self.urls[key]
    }

    /// Leads a command to it by the environment.
    #[allow(dead_code, reason = "for the tests of the command")]
    pub fn lead(&self, command: &mut Command) {
        command.envs(self.environment());
    }

    /// What leads `tidegate` to it.
    #[allow(dead_code, reason = "for the tests of the command")]
    pub fn environment(&self) -> [(&'static str, &str); 4] {
        [
            ("TIDEGATE_ENA_URL", "ena_url"),
            ("TIDEGATE_EUTILS_URL", "eutils_url"),
            ("TIDEGATE_SDL_URL", "sdl_url"),
            ("TIDEGATE_AWS_URL", "aws_url"),
        ]
        .map(|(variable, key)| (variable, self.url(key)))
    }

    pub fn settings(&self) -> ArchiveSettings {
        ArchiveSettings {
            ena_url: self.url("ena_url").to_owned(),
            eutils_url: self.url("eutils_url").to_owned(),
            sdl_url: self.url("sdl_url").to_owned(),
            aws_url: self.url("aws_url").to_owned(),
            timeout: Duration::from_secs(10),
            backoff: Duration::from_millis(5),
            ena_rate: 0.0,
            ncbi_rate: Some(0.0),
            ..ArchiveSettings::default()
        }
    }

    /// Resolves a list to its end.
    pub fn resolve(&self, list: &[&str], wish: ResolveOptions) -> Outcome {
        resolve(self.settings(), list, wish)
    }

    /// How many requests each interface has had.
    pub fn requests(&self) -> BTreeMap<String, u64> {
        let url = url::Url::parse(&self.urls["requests_url"]).expect("a URL");
        let address = url.socket_addrs(|| None).expect("an address")[0];
        let mut stream = TcpStream::connect(address).expect("it listens");
        write!(stream, "GET {} HTTP/1.0\r\nConnection: close\r\n\r\n", url.path()).expect("it hears");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str(body).expect("counts")
    }
}

/// What a list came to.
#[derive(Debug, Default)]
pub struct Outcome {
    pub records: Vec<Record>,
    pub problems: Vec<(String, Error)>,
    pub notes: Vec<String>,
}

impl Outcome {
    /// The runs that have records, in their order, once each.
    pub fn runs(&self) -> Vec<String> {
        let mut runs: Vec<String> =
            self.records.iter().map(|record| record.group.as_deref().expect("a run").to_owned()).collect();
        runs.sort();
        runs.dedup();
        runs
    }

    pub fn paths(&self) -> Vec<String> {
        self.records.iter().map(|record| record.path.to_string()).collect()
    }

    /// The one problem there is.
    pub fn problem(&self) -> &Error {
        assert!(self.records.is_empty(), "{:?}", self.records);
        let [(_, error)] = &self.problems[..] else { panic!("one problem, not {:?}", self.problems) };
        error
    }
}

pub fn resolve(settings: ArchiveSettings, list: &[&str], wish: ResolveOptions) -> Outcome {
    let archives = Arc::new(Archives::new(settings).expect("good settings"));
    let list: Vec<String> = list.iter().map(|line| (*line).to_owned()).collect();
    let mut outcome = Outcome::default();
    for named in archives.resolve(list.into_iter(), wish) {
        match named {
            Named::Record(record) => outcome.records.push(*record),
            Named::Problem(name, error) => outcome.problems.push((name, error)),
            Named::Note(note) => outcome.notes.push(note),
        }
    }
    outcome
}
