//! What a job says of its estimate and of its rule, held against what there is when it is submitted.

use std::borrow::Cow;
use std::time::Duration;

use data_encoding::BASE64;
use tidegate_contract::rule_line::is_program;
use tidegate_control::optimizer::policy::{ActionChoice, Learned};
use tidegate_control::optimizer::{Optimizer, OptimizerError, OptimizerOptions, build, needs_policy};
use tidegate_control::policy::Policy;
use tidegate_control::throughput_model::ModelSelection;
use tidegate_control::{ByteCount, Utility};
use tidegate_spec::address::{Route, scheme};
use tidegate_spec::control::ControlSpec;
use tidegate_spec::estimate::{DAY, EstimateSpec, HistorySpec, SampledTerms, SamplingSpec};
use tidegate_spec::setup::Setup;

use super::request::Request;
use super::spec::Spec;
use super::stream_rule::StreamRule;
use super::values::well_formed;
use crate::estimate::{EstimateRequest, Program};
use crate::names::name_of;
use crate::sampler::SamplerKind;
use crate::sampler::iperf3::Server;

/// The most bytes of a policy; the largest that is trained here has 3 MB.
const MAX_POLICY: usize = 8 << 20;

/// How the digest of a policy begins.
const DIGEST: &str = "blake3:";

/// What stands for a rule that goes on learning.
fn begins(policy: Policy, seed: u64, _: Utility) -> Box<dyn Optimizer> {
    Box::new(Learned::new(policy, ActionChoice::Sampled, seed))
}

impl Request {
    /// The rule asked for in its options.
    pub fn optimizer(&self) -> Option<&str> {
        self.options.text("optimizer")
    }

    /// The rule by which globus-url-copy is to choose its streams, if that moves its data and one was asked for.
    pub(crate) fn stream_rule(&self) -> Result<Option<StreamRule>, String> {
        match self.spec()? {
            Spec::GridFtp(spec) => StreamRule::of(&spec),
            _ => Ok(None),
        }
    }

    /// Whether what moves its data sets its streams by what it sees, so that nobody need measure the path before.
    pub fn adapts(&self) -> bool {
        match self.spec() {
            Ok(Spec::GridFtp(spec)) => StreamRule::of(&spec).ok().flatten().is_some_and(|rule| rule.adapts()),
            Ok(spec) => spec.control().is_some_and(ControlSpec::adapts),
            Err(_) => false,
        }
    }

    /// Whether it says how its path is to be sampled, and so wants it to be.
    pub(crate) fn wants_samples(&self) -> bool {
        self.always_sample
            || self.sampler.is_some()
            || self.iperf3.is_some()
            || self.sample_ms.is_some()
            || self.sample_bytes.is_some()
            || self.threshold.is_some()
            || self.model != ModelSelection::default()
    }

    /// What is asked of the estimator for so many bytes and up to so many streams, or what makes no sense in it.
    pub fn estimate(&self, bytes: ByteCount, most: u16) -> Result<EstimateRequest, String> {
        let source = self.sources.first().ok_or("it has no source")?;
        let terms = match self.spec()? {
            Spec::Copy(copy) => SampledTerms {
                data_plane: copy.plane.data_plane,
                verify: copy.plane.verify,
                limit_network: copy.plane.limit_network,
                limit_link: copy.plane.limit_link,
            },
            Spec::Get(get) => SampledTerms {
                limit_network: get.requests.limit_network,
                limit_link: get.requests.limit_rate,
                ..SampledTerms::default()
            },
            Spec::Put(put) => {
                SampledTerms { limit_network: put.requests.limit_network, ..SampledTerms::default() }
            }
            Spec::GridFtp(_) => SampledTerms::default(),
        };
        // History keeps what came from one archive apart from what came from another.
        let source = match self.is_archive() {
            true => self.pair()?.source.to_string(),
            false => source.clone(),
        };
        let history_age = self.history_age_s.map_or(DAY, Duration::from_secs);
        let sampling = SamplingSpec {
            sampler: self.sampler,
            iperf3: self.iperf3.clone(),
            sample_time: self.sample_ms.map(Duration::from_millis),
            sample_size: self.sample_bytes,
            threshold: self.threshold,
            model: Some(self.model),
            always_sample: self.always_sample,
            tcp_buffer: self.buffer_bytes,
            history: HistorySpec { use_history: self.use_history, history_age },
        };
        Ok(EstimateRequest {
            x509proxy: self.x509proxy.clone(),
            files: self.sources.iter().skip(1).cloned().collect(),
            spec: EstimateSpec { sampling, max_streams: most.max(1), terms },
            ..EstimateRequest::new(source, self.destination.clone(), bytes)
        })
    }

    /// Whether what is said of the estimate makes sense.
    pub(super) fn check_estimate(&self) -> Result<(), String> {
        let asked = self.estimate(self.bytes.unwrap_or(ByteCount(1)), 1)?;
        asked.amount().map_err(|error| error.to_string())?;
        asked.doubling(1).map_err(|error| error.to_string())?;
        if let Some(server) = &self.iperf3 {
            well_formed("iperf3", server)?;
            Server::parse(server).map_err(|error| error.to_string())?;
        }
        let is_got = self.route() == Ok(Route::Get);
        if self.sampler == Some(SamplerKind::GridFtp) && is_got {
            return Err("a server that files are got from is not sampled by gridftp: leave the sampler out"
                .to_owned());
        }
        let asks = self.sampler.is_some() || self.iperf3.is_some();
        let is_named = |address: &String| scheme(address).is_none() && name_of(address).is_some();
        // What a name stands for is known to the service only.
        if asks && !self.sources.iter().chain([&self.destination]).any(is_named) {
            asked.sampler(&Program::ours(Setup::default())).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Whether its rule is one that starts no program: whoever may submit jobs may not run what he likes.
    pub(super) fn check_no_program(&self) -> Result<(), String> {
        match self.optimizer().is_some_and(is_program) {
            true => Err("a job starts no program of its own as its rule (exec:, python:): run `tidegate copy` with it, \
                         or submit what it has learned as a policy"
                .to_owned()),
            false => Ok(()),
        }
    }

    /// Whether there is such a rule, and it has what it decides by.
    pub(super) fn check_rule(&self, spec: &Spec) -> Result<(), String> {
        // Whoever runs the job has what learns; here it is enough to know that it can begin.
        let mut options = OptimizerOptions { online: Some(begins), ..OptimizerOptions::default() };
        let name = match (spec, spec.control()) {
            (Spec::GridFtp(spec), _) => spec.optimizer.clone().unwrap_or_else(|| "auto".to_owned()),
            (_, Some(control)) => control.named()?,
            (_, None) => return Ok(()),
        };
        let name = &name;
        match (needs_policy(name), &self.policy) {
            (false, None) => {}
            (false, Some(_)) => {
                return Err(format!(
                    "the rule {name} decides by no policy: give --optimizer policy, or none"
                ));
            }
            (true, None) => {
                return Err(format!("--optimizer {name} needs a policy: the content of a policy file"));
            }
            (true, Some(text)) => options.policy = Some(read_policy(text)?),
        }
        build(name, &options).map(drop).map_err(|error| match error {
            OptimizerError::Recipe { name, recipe } => {
                format!("the policy was trained by the recipe {recipe}, not {name}")
            }
            error => error.to_string(),
        })
    }

    /// The content of its policy, if it came with one.
    pub(crate) fn policy_content(&self) -> Option<Vec<u8>> {
        let text = self.policy.as_deref().filter(|text| !text.starts_with(DIGEST))?;
        BASE64.decode(text.as_bytes()).ok()
    }

    /// The same with the digest of its policy in place of the content, as it is kept and shown.
    pub(crate) fn with_policy_named(&self) -> Cow<'_, Self> {
        match self.policy_content() {
            Some(content) => {
                let policy = Some(format!("{DIGEST}{}", blake3::hash(&content).to_hex()));
                Cow::Owned(Self { policy, ..self.clone() })
            }
            None => Cow::Borrowed(self),
        }
    }

    /// Has a rule that was learned decide by the content of a policy file.
    #[must_use]
    pub fn with_policy(self, content: &[u8]) -> Self {
        Self { policy: Some(BASE64.encode(content)), ..self }
    }
}

fn read_policy(text: &str) -> Result<Policy, String> {
    if text.len() / 4 * 3 > MAX_POLICY + 2 {
        return Err(format!("its policy has more than {} MiB", MAX_POLICY >> 20));
    }
    let content = BASE64.decode(text.as_bytes());
    let content = content.map_err(|_| "its policy is not the content of a policy file in base64")?;
    Policy::from_bytes(&content).map_err(|error| format!("its policy: {error}"))
}

#[cfg(test)]
mod tests {
    use tidegate_control::BitRate;
    use tidegate_control::throughput_model::ModelSelection;
    use tidegate_control::throughput_model::sampling::Threshold;

    use tidegate_transfer::terms::{DataPlane, Verify};

    use super::*;

    const POLICY: &[u8] = include_bytes!("../../../control/policies/universal.safetensors");

    fn with(options: &str) -> Request {
        let options = serde_json::from_str(options).expect("options");
        Request { options, ..Request::transfer("/a", "tg://T@h/b") }
    }

    #[test]
    fn a_job_is_estimated_as_it_will_be_moved() {
        let request = Request {
            use_history: true,
            sample_ms: Some(500),
            history_age_s: Some(7),
            threshold: Some(Threshold::Relative(0.2)),
            model: ModelSelection::DynamicOrder,
            ..with(r#"{"limit_network": "90Mbit/s", "data_plane": "clear", "verify": "block"}"#)
        };
        assert_eq!(request.check(), Ok(()));
        let made = request.estimate(ByteCount(5000), 12).expect("asked");
        assert_eq!(
            (made.bytes, made.spec.max_streams, made.spec.sampling.history.use_history),
            (ByteCount(5000), 12, true)
        );
        let SamplingSpec { sample_time, history, threshold, model, .. } = made.spec.sampling;
        assert_eq!(
            (sample_time, history.history_age),
            (Some(Duration::from_millis(500)), Duration::from_secs(7))
        );
        assert_eq!((threshold, model), (request.threshold, Some(ModelSelection::DynamicOrder)));
        let limit = Some(BitRate::mbps(90));
        let terms = SampledTerms {
            data_plane: DataPlane::Clear,
            verify: Verify::Block,
            limit_network: limit,
            limit_link: None,
        };
        assert_eq!(made.spec.terms, terms);
    }

    #[test]
    fn advice_that_makes_no_sense_is_refused_in_one_line() {
        let fine = Request::transfer("/a", "tg://T@h/b");
        let get = Request::transfer("ftp://h/a", "/b");
        for (request, wanted) in [
            (Request { sample_ms: Some(1), ..fine.clone() }, "400ms"),
            (
                Request { sample_ms: Some(500), sample_bytes: Some(ByteCount::mib(1)), ..fine.clone() },
                "not both",
            ),
            (Request { threshold: Some(Threshold::Relative(2.0)), ..fine.clone() }, "threshold"),
            (Request { iperf3: Some("-c".into()), ..fine.clone() }, "iperf3 server"),
            (Request { sampler: Some(SamplerKind::GridFtp), ..fine.clone() }, "gridftp"),
            (Request { sampler: Some(SamplerKind::GridFtp), ..get }, "not sampled"),
            (with(r#"{"verify": "sha1"}"#), "sha1"),
            (with(r#"{"limit_network": "much"}"#), "much"),
            (with(r#"{"optimizer": "fastest"}"#), "fastest"),
            (with(r#"{"optimizer": "exec:./rule.py"}"#), "a job starts no program"),
            (with(r#"{"optimizer": "python:rule:Rule"}"#), "a job starts no program"),
            (with(r#"{"optimizer": "policy", "policy": "/etc/passwd"}"#), "\"policy\" is no option of a job"),
            (with(r#"{"optimizer": "policy"}"#), "needs a policy"),
            (with(r#"{"optimizer": "policy"}"#).with_policy(b"nothing"), "its policy"),
            (fine.with_policy(POLICY), "no policy"),
            (Request { policy: Some("!".into()), ..with(r#"{"optimizer": "policy"}"#) }, "base64"),
            (with(r#"{"share": "greedy"}"#), "greedy"),
            (with(r#"{"share": "fair", "optimizer": "aimd"}"#), "--share"),
            (with(r#"{"aimd_epsilon": "1%"}"#), "--optimizer aimd"),
            (with(r#"{"aimd_epsilon": "2", "optimizer": "aimd"}"#), "epsilon must be"),
        ] {
            let error = request.check().expect_err(wanted).to_string();
            assert!(error.contains(wanted) && !error.contains('\n'), "{wanted}: {error}");
        }
        assert_eq!(with(r#"{"share": "background"}"#).check(), Ok(()));
        // Another name of a host is no sampler's business before the name is known.
        let named = Request { sampler: Some(SamplerKind::Native), ..Request::transfer("dtn:/a", "/b") };
        assert_eq!(named.check(), Ok(()));
    }

    #[test]
    fn the_content_of_a_policy_travels_and_its_digest_is_kept() {
        let request = with(r#"{"optimizer": "policy"}"#).with_policy(POLICY);
        assert_eq!(request.policy_content().as_deref(), Some(POLICY));
        let kept = request.with_policy_named().into_owned();
        assert!(kept.policy.as_deref().is_some_and(|policy| policy.starts_with(DIGEST)), "{:?}", kept.policy);
        assert_eq!((kept.policy_content(), &*kept.with_policy_named()), (None, &kept));
        assert!(format!("{request:?}").len() < 1000);
    }
}
