//! What is asked of an estimate, read strictly: it may come from anybody with a token.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tidegate_control::throughput_model::ModelSelection;
use tidegate_control::throughput_model::sampling::SamplingConfig;
use tidegate_control::{BitRate, ByteCount};
use tidegate_spec::address;
use tidegate_spec::estimate::{EstimateSpec, SampledTerms, SamplingSpec};
use tidegate_spec::options::Options;
use tidegate_spec::pair::{Pair, Site};
use tidegate_transfer::terms::{DataPlane, Verify};
use tidegate_transfer::throttle::Limits;

use crate::history::Conditions;
use crate::names::Names;
use crate::sampler::gridftp::GridFtp;
use crate::sampler::iperf3::{self, Helper, Iperf3, Other, Server};
use crate::sampler::native::{End, Native};
use crate::sampler::ranges::Ranges;
use crate::sampler::{Amount, Failure, Sampler, SamplerError, SamplerKind, gridftp};

use super::Program;

// Serialised it holds secrets, as the addresses do.
/// How many streams between these two, and how long for so many bytes?
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Options")]
#[schemars(!try_from, extend("additionalProperties" = false))]
pub struct EstimateRequest {
    /// A URL, or a path of this host.
    pub source: String,
    /// A URL, or a path of this host.
    pub destination: String,
    /// How much is to be moved.
    pub bytes: ByteCount,
    /// The credential for GridFTP servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x509proxy: Option<PathBuf>,
    /// What else of the source there is for `ranges` to read, beside the first.
    #[serde(skip)]
    pub files: Vec<String>,
    /// How.
    #[serde(flatten)]
    pub spec: EstimateSpec,
}

/// What is read strictly.
impl TryFrom<Options> for EstimateRequest {
    type Error = String;

    fn try_from(mut options: Options) -> Result<Self, String> {
        Ok(Self {
            source: required(&mut options, "source")?,
            destination: required(&mut options, "destination")?,
            bytes: required(&mut options, "bytes")?,
            x509proxy: read(&mut options, "x509proxy")?.flatten(),
            files: Vec::new(),
            spec: options.read()?,
        })
    }
}

/// What is said of `name`, if anything is.
fn read<T: DeserializeOwned>(options: &mut Options, name: &str) -> Result<Option<T>, String> {
    let value = options.take(name).map(serde_json::from_value);
    value.transpose().map_err(|error| format!("{name}: {error}"))
}

fn required<T: DeserializeOwned>(options: &mut Options, name: &str) -> Result<T, String> {
    read(options, name)?.ok_or_else(|| format!("missing field `{name}`"))
}

/// What is said of the limits of samples by ranges: servers have another name for that of all connections together.
fn limits_of_servers(terms: &SampledTerms) -> impl Iterator<Item = (&'static str, BitRate)> {
    terms.limits().map(|(name, rate)| (if name == "link" { "rate" } else { name }, rate))
}

impl EstimateRequest {
    /// With every default.
    pub fn new(source: impl Into<String>, destination: impl Into<String>, bytes: ByteCount) -> Self {
        Self {
            source: source.into(),
            destination: destination.into(),
            bytes,
            x509proxy: None,
            files: Vec::new(),
            spec: EstimateSpec::default(),
        }
    }

    /// The same between the endpoints that are named.
    pub fn resolved(&self, names: &Names) -> Result<Cow<'_, Self>, String> {
        Ok(match (names.resolve(&self.source)?, names.resolve(&self.destination)?) {
            (Cow::Borrowed(_), Cow::Borrowed(_)) => Cow::Borrowed(self),
            (source, destination) => {
                let (source, destination) = (source.into_owned(), destination.into_owned());
                Cow::Owned(Self { source, destination, ..self.clone() })
            }
        })
    }

    /// By what history is kept.
    pub fn pair(&self) -> Result<Pair, SamplerError> {
        Pair::of(&self.source, &self.destination).map_err(|error| usage(&error.to_string()))
    }

    /// How long, or how much, each sample is to be; `None` leaves it to what is seen.
    pub fn amount(&self) -> Result<Option<Amount>, SamplerError> {
        self.spec.sampling.check().map_err(|why| usage(&why))?;
        let SamplingSpec { sample_time, sample_size, .. } = self.spec.sampling;
        Ok(sample_time.map(Amount::Time).or(sample_size.map(Amount::Bytes)))
    }

    /// What decides on the next sample, for a sampler that opens at most so many streams.
    pub(crate) fn doubling(&self, most: u16) -> Result<SamplingConfig, SamplerError> {
        self.spec.check().map_err(|why| usage(&why))?;
        let config = SamplingConfig::up_to(self.spec.max_streams.min(most));
        Ok(SamplingConfig { threshold: self.spec.sampling.threshold.unwrap_or(config.threshold), ..config })
    }

    /// Which models tell what more streams would bring.
    pub(super) fn model(&self) -> ModelSelection {
        self.spec.sampling.model.unwrap_or_default()
    }

    /// Which sampler measures.
    pub fn kind(&self) -> Result<SamplerKind, SamplerError> {
        if self.is_archive() {
            return Err(usage(
                "a sequence archive is not sampled: a job of accessions names no sampler, and begins as its rule does",
            ));
        }
        let by_server = self.spec.sampling.iperf3.is_some().then_some(SamplerKind::Iperf3);
        let known = self
            .spec
            .sampling
            .sampler
            .or(by_server)
            .or_else(|| SamplerKind::of(&self.source, &self.destination));
        known.ok_or_else(|| {
            usage(
                "no sampler speaks to both ends: one is to be tg://, gsiftp:// or ftp://, the other the same or a \
                 path of this host; or http(s)://, s3:// or gs:// to a path; or name an iperf3 server at the remote site",
            )
        })
    }

    /// Whether the source is an archive, by an accession or by its site.
    fn is_archive(&self) -> bool {
        let site = address::scheme(&self.source).is_some_and(|scheme| scheme == Site::ARCHIVE);
        site || address::accession(&self.source).is_some()
    }

    /// Under what samples of that kind are taken, or would be, on a path of that MTU: what has no influence on them is
    /// left out.
    pub fn conditions(&self, kind: Option<SamplerKind>, mtu_bytes: Option<ByteCount>) -> Conditions {
        let terms = &self.spec.terms;
        match kind {
            Some(SamplerKind::Native) => Conditions {
                clear: terms.data_plane == DataPlane::Clear,
                verify: Some(terms.verify)
                    .filter(|verify| *verify != Verify::Blake3)
                    .map(|verify| verify.to_string()),
                limits_bps: terms.limits().map(|(name, rate)| (name.to_owned(), rate)).collect(),
                mtu_bytes,
                ..Conditions::default()
            },
            Some(SamplerKind::Iperf3 | SamplerKind::GridFtp) => {
                Conditions { buffer_bytes: self.spec.sampling.tcp_buffer, mtu_bytes, ..Conditions::default() }
            }
            Some(SamplerKind::Ranges) => Conditions {
                limits_bps: limits_of_servers(terms).map(|(name, rate)| (name.to_owned(), rate)).collect(),
                mtu_bytes,
                ..Conditions::default()
            },
            None => Conditions::default(),
        }
    }

    /// What measures.
    pub fn sampler(&self, ours: &Program) -> Result<Box<dyn Sampler>, SamplerError> {
        let buffer = self.spec.sampling.tcp_buffer;
        Ok(match self.kind()? {
            SamplerKind::Native => {
                let ends = (End::of(&self.source), End::of(&self.destination));
                Box::new(Native::new(ours.clone(), ends.0, ends.1, self.spec.terms.plane())?)
            }
            SamplerKind::Iperf3 => {
                let asked = |endpoint: String| Helper { program: ours.clone(), endpoint };
                let ends = (End::of(&self.source), End::of(&self.destination));
                let other = match (self.spec.sampling.iperf3.as_deref(), ends) {
                    (Some(server), _) => Some(Other::Server(Server::parse(server)?)),
                    (None, (End::Endpoint(source), End::Endpoint(destination))) => {
                        let other = Other::Between(asked(source), iperf3::Endpoint(destination));
                        return Ok(Box::new(Iperf3::new(other, false, buffer)));
                    }
                    (None, (End::Here, End::Endpoint(one)) | (End::Endpoint(one), End::Here)) => {
                        Some(Other::Helper(asked(one)))
                    }
                    (None, (End::Here, End::Here)) => None,
                };
                let other = other.ok_or_else(|| {
                    usage(
                        "iperf3 needs a server at the remote site: run `iperf3 -s` there and name it HOST:PORT",
                    )
                })?;
                let is_here = |address: &str| !address.contains("://") || address.starts_with("file://");
                let reverse = match (is_here(&self.source), is_here(&self.destination)) {
                    (true, false) => false,
                    (false, true) => true,
                    _ => {
                        return Err(usage(
                            "iperf3 measures between this host and a server, or between two endpoints: one end is to be here, \
                             or both tg://",
                        ));
                    }
                };
                Box::new(Iperf3::new(other, reverse, buffer))
            }
            SamplerKind::GridFtp => {
                let options = gridftp::GridFtpOptions { buffer, proxy: self.x509proxy.clone() };
                Box::new(GridFtp::new(&self.source, &self.destination, options)?)
            }
            SamplerKind::Ranges => {
                let SampledTerms { limit_network: network, limit_link: link, .. } = self.spec.terms;
                let limits = Limits { network, link, ..Limits::default() };
                let urls = [&self.source].into_iter().chain(&self.files).cloned().collect();
                Box::new(Ranges::new(ours.clone(), urls, &self.destination, limits)?)
            }
        })
    }
}

fn usage(why: &str) -> SamplerError {
    SamplerError::new(Failure::Usage, why)
}

/// The addresses hold tickets and passwords.
impl fmt::Debug for EstimateRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair = self.pair().map_or_else(|error| error.to_string(), |pair| pair.to_string());
        f.debug_struct("EstimateRequest")
            .field("pair", &pair)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_control::throughput_model::sampling::Threshold;
    use tidegate_spec::estimate::HistorySpec;
    use tidegate_spec::plane::PlaneSpec;
    use tidegate_spec::setup::Setup;

    use super::*;

    fn changed(request: &EstimateRequest, change: impl FnOnce(&mut EstimateSpec)) -> EstimateRequest {
        let mut request = request.clone();
        change(&mut request.spec);
        request
    }

    fn ours() -> Program {
        let setup = Setup { state: Some("/s".into()), ..Setup::default() };
        Program { path: "tidegate".into(), setup }
    }

    #[test]
    fn a_request_is_read_strictly() {
        let read = |text: &str| serde_json::from_str::<EstimateRequest>(text);
        let least = r#"{"source":"/data","destination":"tg://T@dtn/x","bytes":0}"#;
        let request = read(least).expect("a request");
        assert_eq!(request.spec, EstimateSpec::default());
        assert!(request.amount().expect("none").is_none());
        let all = r#"{"source":"a","destination":"ftp://b","bytes":10000000000000000,"sampler":"gridftp",
            "sample_size":10000000,"threshold":{"absolute_bps":1000000},"model":"published","max_streams":8,
            "use_history":true,
            "history_age":60,"always_sample":true,"tcp_buffer":131072,"x509proxy":"/p",
            "data_plane":"clear","limit_network":1,"limit_link":2}"#;
        let request = read(all).expect("a request");
        assert_eq!(request.amount(), Ok(Some(Amount::Bytes(ByteCount(10_000_000)))));
        assert_eq!((request.model(), request.spec.max_streams), (ModelSelection::Published, 8));
        let wanted = HistorySpec { use_history: true, history_age: Duration::from_secs(60) };
        assert_eq!(
            (request.spec.sampling.history, request.x509proxy.as_deref()),
            (wanted, Some("/p".as_ref()))
        );
        let PlaneSpec { data_plane, limit_network, limit_link, .. } = request.spec.terms.plane();
        assert_eq!(data_plane, DataPlane::Clear);
        assert_eq!((limit_network, limit_link), (Some(BitRate(1)), Some(BitRate(2))));
        let again = serde_json::to_string(&read(all).expect("a request")).expect("plain data");
        let again = read(&again).expect("what was written");
        assert_eq!((again.spec, again.bytes), (request.spec, request.bytes));
        for (bad, wanted) in [
            ("{}", "missing field `source`"),
            (r#"{"source":"a","destination":"b"}"#, "missing field `bytes`"),
            (r#"{"source":7,"destination":"b","bytes":1}"#, "source: "),
            (r#"{"source":"a","destination":"b","bytes":-1}"#, "bytes: "),
            (r#"{"source":"a","destination":"b","bytes":1,"sampler":"ping"}"#, "sampler: "),
            (r#"{"source":"a","destination":"b","bytes":1,"model":"newton"}"#, "model: "),
            (r#"{"source":"a","destination":"b","bytes":1,"unknown":1}"#, "\"unknown\" is no option"),
        ] {
            let why = read(bad).expect_err(bad).to_string();
            assert!(why.contains(wanted) && !why.contains('\n'), "{bad}: {why}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let ok = EstimateRequest::new("/data", "tg://T@dtn/x", ByteCount(1));
        assert!(ok.sampler(&ours()).is_ok());
        let bad = [
            EstimateRequest { destination: "/copy".into(), ..ok.clone() },
            EstimateRequest { destination: "https://h/x".into(), ..ok.clone() },
            changed(&ok, |spec| spec.sampling.sampler = Some(SamplerKind::Ranges)),
            EstimateRequest { source: "https://h/x".into(), ..ok.clone() },
            EstimateRequest {
                destination: "ftp://h/x".into(),
                ..changed(&ok, |spec| spec.sampling.sampler = Some(SamplerKind::Iperf3))
            },
            changed(&ok, |spec| spec.sampling.iperf3 = Some("-c".into())),
            EstimateRequest {
                source: "tg://T@a".into(),
                ..changed(&ok, |spec| spec.sampling.iperf3 = Some("h".into()))
            },
            changed(&ok, |spec| spec.sampling.sampler = Some(SamplerKind::GridFtp)),
            EstimateRequest { source: "SRR390728".into(), destination: "/x".into(), ..ok.clone() },
            EstimateRequest {
                source: "archive://aws".into(),
                ..changed(&ok, |spec| spec.sampling.iperf3 = Some("h".into()))
            },
        ];
        for request in bad {
            let Err(error) = request.sampler(&ours()) else { panic!("{request:?}") };
            assert_eq!(error.failure, Failure::Usage, "{error}");
        }
        let time = Duration::from_millis;
        for (sample_time, bytes) in [
            (Some(time(1)), None),
            (None, Some(1)),
            (Some(time(1000)), Some(10 << 20)),
            (Some(time(u64::MAX)), None),
        ] {
            let sample_size = bytes.map(ByteCount);
            let request = changed(&ok, |spec| {
                spec.sampling = SamplingSpec { sample_time, sample_size, ..SamplingSpec::default() };
            });
            assert!(request.amount().is_err(), "{sample_time:?} {bytes:?}");
        }
        for max_streams in [0, 513] {
            assert!(changed(&ok, |spec| spec.max_streams = max_streams).doubling(512).is_err());
        }
        for share in [-0.1, 1.1, f64::NAN] {
            let request = changed(&ok, |spec| spec.sampling.threshold = Some(Threshold::Relative(share)));
            assert!(request.doubling(512).is_err());
        }
        assert_eq!(ok.doubling(8).expect("a plan").most, 8);
    }

    #[test]
    fn a_named_endpoint_is_measured_where_it_is() {
        let names = Names::new(|name| match name {
            "dtn" => Ok("tg://SECRET@dtn1:7117/".to_owned()),
            _ => Err("no such name".to_owned()),
        });
        let request = EstimateRequest::new("/data", "dtn:/x", ByteCount(1));
        let request = changed(&request, |spec| spec.sampling.history.use_history = true);
        assert!(request.sampler(&ours()).is_err());
        let resolved = request.resolved(&names).expect("known");
        assert_eq!(resolved.pair().map(|pair| pair.to_string()), Ok("local → tg://dtn1:7117".to_owned()));
        assert!(resolved.spec.sampling.history.use_history && resolved.sampler(&ours()).is_ok());
        assert!(EstimateRequest::new("/data", "other:/x", ByteCount(1)).resolved(&names).is_err());
        let plain = EstimateRequest::new("/data", "tg://T@h/x", ByteCount(1));
        assert!(matches!(plain.resolved(&names), Ok(Cow::Borrowed(_))));
    }

    #[test]
    fn no_secret_is_shown() {
        let request = EstimateRequest::new("tg://SECRET@a/x", "ftp://u:SECRET@b/y", ByteCount(1));
        assert!(!format!("{request:?}").contains("SECRET"), "{request:?}");
    }
}
