//! Chromium without a window, spoken to by its debugging pipe: no driver and no port.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The programs that may be there.
const NAMES: [&str; 2] = ["chromium-headless-shell", "chromium"];
/// The longest wait for an answer of the browser or for something to be seen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: Option<String>,
    last: u64,
    /// Everything that it told without being asked.
    pub events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Starts one, if there is one.
    pub fn start() -> Option<Self> {
        let name = NAMES.iter().find(|name| testkit::program(name).is_some())?;
        let profile = tempfile::tempdir().expect("a directory");
        // The pipe is to be at descriptors 3 and 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", name])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--remote-debugging-pipe", "--no-first-run"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let to = child.stdin.take().expect("piped");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, from) = channel();
        thread::spawn(move || {
            let mut message = Vec::new();
            while out.read_until(0, &mut message).is_ok_and(|count| count > 0) {
                let value = serde_json::from_slice(message.strip_suffix(b"\0").unwrap_or(&message));
                message.clear();
                if value.is_ok_and(|value| sender.send(value).is_err()) {
                    break;
                }
            }
        });
        let mut browser =
            Self { child, to, from, session: None, last: 0, events: Vec::new(), _profile: profile };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attached =
            browser.call("Target.attachToTarget", &json!({"targetId": target["targetId"], "flatten": true}));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Calls a method of the protocol.
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.try_call(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The same; what the browser says if it cannot.
    fn try_call(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).and_then(|()| self.to.flush()).expect("the browser reads");
        loop {
            let value = self.from.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{method}: {error}"));
            if value["id"] == self.last {
                return if value["error"].is_null() { Ok(value["result"].clone()) } else { Err(value) };
            }
            self.events.push(value);
        }
    }

    /// What a script gives.
    pub fn script(&mut self, text: &str) -> Value {
        self.try_script(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn try_script(&mut self, text: &str) -> Result<Value, Value> {
        let params = json!({"expression": text, "awaitPromise": true, "returnByValue": true});
        let answer = self.try_call("Runtime.evaluate", &params)?;
        assert!(answer["exceptionDetails"].is_null(), "{text}: {answer}");
        Ok(answer["result"]["value"].clone())
    }

    /// Waits until a script gives true. A page that gives way to the next one gives nothing.
    pub fn until(&mut self, text: &str) {
        let end = Instant::now() + PATIENCE;
        while self.try_script(text) != Ok(json!(true)) {
            if Instant::now() > end {
                let seen = self.script("document.body.innerText");
                panic!("it never came true: {text}\n{seen}\n{:?}", self.errors());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Opens an address.
    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({"url": url}));
    }

    /// Sets the size of the window, and light or dark.
    pub fn size(&mut self, width: u32, height: u32, dark: bool) {
        let mobile = width < 600;
        let params = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile});
        self.call("Emulation.setDeviceMetricsOverride", &params);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// Presses a key.
    pub fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", &json!({"type": kind, "key": key, "code": key}));
        }
    }

    /// Keeps a picture of the page as `name` in the directory of `TIDEGATE_SCREENSHOTS`, if that is set.
    pub fn picture(&mut self, name: &str) {
        let Some(directory) = std::env::var_os("TIDEGATE_SCREENSHOTS") else { return };
        let size = self.call("Page.getLayoutMetrics", &json!({}))["cssContentSize"].clone();
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
        let params = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let data =
            self.call("Page.captureScreenshot", &params)["data"].as_str().unwrap_or_default().to_owned();
        let bytes = data_encoding::BASE64.decode(data.as_bytes()).expect("base64");
        std::fs::write(Path::new(&directory).join(format!("{name}.png")), bytes).expect("written");
    }

    /// Errors that the page met: exceptions, and what the browser complained of.
    pub fn errors(&mut self) -> Vec<Value> {
        self.script("1");
        let bad = ["Runtime.exceptionThrown", "Log.entryAdded"];
        self.events.iter().filter(|event| bad.iter().any(|name| event["method"] == *name)).cloned().collect()
    }

    /// Every address that was asked for.
    pub fn requests(&self) -> Vec<String> {
        let sent = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.filter_map(|event| event["params"]["request"]["url"].as_str().map(str::to_owned)).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
