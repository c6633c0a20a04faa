//! Kubernetes: an indexed job, a mover a pod.

use std::str::FromStr;

use data_encoding::BASE64;
use serde_json::{Value, json};
use tidegate_transfer::error::{Error, ErrorKind, Result, usage};

use crate::engine::quoting::{double_quoted, plain_word};
use crate::engine::tool::Tool;
use crate::engine::{Engine, Movers, Started, Status, ending};

const KUBECTL: Tool = Tool { program: "kubectl", package: "kubectl" };

/// Where a pod finds its token.
const TOKEN_FILE: &str = "/run/tidegate/token";

/// How often the pod of an index is started anew.
const MAX_RESTARTS: u32 = 20;

/// How long a finished job is kept, in seconds.
const KEPT_S: u32 = 24 * 3600;

/// How long a pod may take to give back what it holds, in seconds.
const NOTICE_S: u32 = 60;

/// What pods see of the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The claim of a volume; without one a directory of the node.
    claim: Option<String>,
    /// Where pods see it.
    path: String,
}

impl FromStr for Mount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (claim, path) = text.split_once(':').map_or((None, text), |(claim, path)| (Some(claim), path));
        if !path.starts_with('/') || path.contains(':') {
            return Err("write /DIR, or CLAIM:/DIR with an absolute path and no other ':'".to_owned());
        }
        if claim.is_some_and(|claim| !plain_word(claim)) {
            return Err("a claim's name is of letters, digits, '.' and '-'".to_owned());
        }
        Ok(Self { claim: claim.map(str::to_owned), path: path.to_owned() })
    }
}

/// An indexed job.
#[derive(Debug)]
pub struct Kubernetes {
    /// The namespace, if not the one of the context.
    pub namespace: Option<String>,
    /// Where the program is from.
    pub image: String,
    /// What pods see.
    pub mounts: Vec<Mount>,
}

impl Kubernetes {
    /// kubectl's options that say where.
    fn place(&self) -> Vec<String> {
        self.namespace.iter().map(|namespace| format!("--namespace={namespace}")).collect()
    }
}

impl Engine for Kubernetes {
    fn render(&self, movers: &Movers) -> Result<String> {
        if !plain_word(&self.image) {
            return Err(usage(format!("--image {:?} is no name of an image", self.image)));
        }
        let (name, count) = (&movers.name, movers.count);
        let at_once = movers.at_once.map_or(count, |limit| limit.min(count));
        let namespace = self
            .namespace
            .as_ref()
            .map_or_else(String::new, |namespace| format!("  namespace: {}\n", double_quoted(namespace)));
        let spread = if movers.share_hosts { "ScheduleAnyway" } else { "DoNotSchedule" };
        let words = movers.arguments(TOKEN_FILE).into_iter();
        let words = words.map(|word| double_quoted(&unexpanded(word))).collect::<Vec<_>>().join(", ");
        let (mut seen, mut volumes) = (String::new(), String::new());
        for (at, mount) in self.mounts.iter().enumerate() {
            let path = double_quoted(&mount.path);
            seen += &format!("        - {{name: data-{at}, mountPath: {path}}}\n");
            volumes += &match &mount.claim {
                Some(claim) => {
                    let claim = double_quoted(claim);
                    format!("      - {{name: data-{at}, persistentVolumeClaim: {{claimName: {claim}}}}}\n")
                }
                None => format!("      - {{name: data-{at}, hostPath: {{path: {path}, type: Directory}}}}\n"),
            };
        }
        Ok(format!(
            r#"# Any mover takes any shard, so a pod that is lost or late holds nothing up. The token is in a secret of this name:
#   kubectl create secret generic {name} --from-file=token=FILE
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
{namespace}  labels: {{app.kubernetes.io/name: tidegate, app.kubernetes.io/instance: {name}}}
spec:
  completionMode: Indexed
  completions: {count}
  parallelism: {at_once}
  backoffLimitPerIndex: {MAX_RESTARTS}
  maxFailedIndexes: {count}
  podReplacementPolicy: Failed
  ttlSecondsAfterFinished: {KEPT_S}
  podFailurePolicy:
    rules:
    - action: FailIndex
      onExitCodes: {{containerName: mover, operator: In, values: [{configuration}]}}
    - action: Ignore
      onPodConditions: [{{type: DisruptionTarget, status: "True"}}]
  template:
    metadata:
      labels: {{app.kubernetes.io/name: tidegate, app.kubernetes.io/instance: {name}}}
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: {NOTICE_S}
      automountServiceAccountToken: false
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: {spread}
        labelSelector: {{matchLabels: {{app.kubernetes.io/instance: {name}}}}}
      containers:
      - name: mover
        image: {image}
        command: [{program}]
        args: [{words}]
        securityContext: {{allowPrivilegeEscalation: false}}
        volumeMounts:
        - {{name: token, mountPath: /run/tidegate, readOnly: true}}
{seen}      volumes:
      - {{name: token, secret: {{secretName: {name}, defaultMode: 256}}}}  # 0400
{volumes}"#,
            image = double_quoted(&self.image),
            program = double_quoted(&unexpanded(&movers.program)),
            configuration = ending::CONFIGURATION,
        ))
    }

    fn start(&self, movers: &Movers) -> Result<Box<dyn Started>> {
        let token = std::fs::read(&movers.token_file)
            .map_err(|error| Error::io("read", movers.token_file.as_bytes(), error))?;
        let place = self.place();
        let place: Vec<&str> = place.iter().map(String::as_str).collect();
        let create = [&["create", "--filename=-", "--output=json"], &place[..]].concat();
        let made = KUBECTL.ask(&create, &self.render(movers)?)?;
        let made: Value = serde_json::from_str(&made).unwrap_or_default();
        // Pods wait for the secret, which goes when the job goes.
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": movers.name,
                "ownerReferences": [{
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": movers.name,
                    "uid": made.pointer("/metadata/uid").cloned().unwrap_or_default(),
                }],
            },
            "data": {"token": BASE64.encode(&token)},
        });
        let mut job = Job { name: movers.name.clone(), place: self.place(), count: movers.count };
        if let Err(error) = KUBECTL.ask(&create, &secret.to_string()) {
            let _ = job.stop();
            return Err(error);
        }
        Ok(Box::new(job))
    }
}

/// A word of a command, in which Kubernetes would expand `$(NAME)`.
fn unexpanded(word: &str) -> String {
    word.replace('$', "$$")
}

/// A job that was made.
struct Job {
    name: String,
    place: Vec<String>,
    count: u32,
}

impl Job {
    fn kubectl(&self, words: &[&str]) -> Result<String> {
        let place = self.place.iter().map(String::as_str);
        KUBECTL.ask(&words.iter().copied().chain(place).collect::<Vec<_>>(), "")
    }
}

impl Started for Job {
    fn name(&self) -> String {
        format!("Kubernetes job {}", self.name)
    }

    fn look(&mut self) -> Result<Status> {
        let selector = format!("--selector=app.kubernetes.io/instance={}", self.name);
        let said = self.kubectl(&["get", "jobs,pods", &selector, "--output=json"])?;
        let said: Value = serde_json::from_str(&said).map_err(|error| {
            Error::new(ErrorKind::Protocol, format!("kubectl said what is no JSON: {error}"))
        })?;
        Ok(status(&said, self.count))
    }

    fn stop(&mut self) -> Result<()> {
        self.kubectl(&["delete", "job", &self.name, "--wait=false", "--ignore-not-found"]).map(drop)
    }
}

/// What a list of one job and its pods comes to.
fn status(said: &Value, count: u32) -> Status {
    let items = || said.pointer("/items").and_then(Value::as_array).into_iter().flatten();
    let of_kind = |kind: &'static str| items().filter(move |item| item["kind"] == kind);
    let Some(job) = of_kind("Job").next() else {
        // It was removed, with its pods.
        return Status { ended: count, ..Status::default() };
    };
    let number = |name: &str| job["status"][name].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    let failed = job["status"]["failedIndexes"].as_str().map_or(0, indexes);
    let over = |kind: &str| {
        let mut conditions = job["status"]["conditions"].as_array().into_iter().flatten();
        conditions.find(|one| one["type"] == kind && one["status"] == "True")
    };
    let (ended, running) = (number("succeeded"), number("ready"));
    let left = count.saturating_sub(ended + failed);
    if let Some(end) = over("Failed").or_else(|| over("Complete")) {
        let why = end["message"].as_str().filter(|why| !why.is_empty() && failed > 0).map(str::to_owned);
        return Status { ended: ended + left, failed, why, ..Status::default() };
    }
    let waits = |pod: &Value| {
        let state = pod.pointer("/status/containerStatuses/0/state/waiting");
        let state = state
            .and_then(|state| Some(format!("{}: {}", state["reason"].as_str()?, state["message"].as_str()?)));
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let place = conditions.find(|one| one["type"] == "PodScheduled" && one["status"] == "False");
        state.or_else(|| place.and_then(|place| place["message"].as_str().map(str::to_owned)))
    };
    let why = of_kind("Pod").find_map(waits);
    Status { running: running.min(left), pending: left - running.min(left), ended, failed, why }
}

/// How many indexes `1,3-5` are.
fn indexes(text: &str) -> u32 {
    let many = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        Some(last.saturating_sub(first) + 1)
    };
    text.split(',').filter_map(many).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubectl_says_is_counted() {
        let job = |status: Value| json!({"kind": "Job", "status": status});
        let pod = json!({"kind": "Pod", "status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]}});
        let said = json!({"items": [job(json!({"active": 4, "ready": 2, "succeeded": 1, "failedIndexes": "1,3-4"})), pod]});
        let seen = status(&said, 8);
        assert_eq!((seen.running, seen.pending, seen.ended, seen.failed), (2, 2, 1, 3));
        assert_eq!(seen.why.as_deref(), Some("0/3 nodes are available"));
        let end = json!([{"type": "Failed", "status": "True", "message": "Job has failed indexes"}]);
        let seen = status(
            &json!({"items": [job(json!({"succeeded": 1, "failedIndexes": "0", "conditions": end}))]}),
            2,
        );
        assert!(seen.is_over());
        assert_eq!((seen.ended, seen.failed, seen.why.as_deref()), (1, 1, Some("Job has failed indexes")));
        assert!(status(&json!({"items": []}), 2).is_over());
    }

    #[test]
    fn a_mount_is_a_directory_or_a_claim() {
        for text in ["/lustre", "claim:/data", "/a b\"$(x)"] {
            assert!(text.parse::<Mount>().is_ok(), "{text}");
        }
        for text in ["lustre", "a b:/data", "claim:data", "/a:/b:/c", ""] {
            assert!(text.parse::<Mount>().is_err(), "{text}");
        }
    }
}
