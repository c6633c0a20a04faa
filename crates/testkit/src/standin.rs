//! The stand-in archive of `standin/`, as a child of the test.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

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
    super::skip(test, "python3 is not installed");
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
    pub fn lead(&self, command: &mut Command) {
        command.envs(self.environment());
    }

    /// What leads `tidegate` to it.
    pub fn environment(&self) -> [(&'static str, &str); 4] {
        [
            ("TIDEGATE_ENA_URL", "ena_url"),
            ("TIDEGATE_EUTILS_URL", "eutils_url"),
            ("TIDEGATE_SDL_URL", "sdl_url"),
            ("TIDEGATE_AWS_URL", "aws_url"),
        ]
        .map(|(variable, key)| (variable, self.url(key)))
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
