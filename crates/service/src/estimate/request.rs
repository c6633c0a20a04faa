//! What is asked of an estimate, read strictly: it may come from anybody with a token.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_control::throughput_model::ModelSelection;
use tidegate_control::throughput_model::sampling::{SamplingConfig, Threshold};
use tidegate_control::{BitRate, ByteCount};
use tidegate_spec::plane::PlaneSpec;
use tidegate_transfer::terms::{DataPlane, Verify};
use tidegate_transfer::throttle::Limits;

use crate::history::Conditions;
use crate::names::Names;
use crate::object::object;
use crate::sampler::gridftp::GridFtp;
use crate::sampler::iperf3::{self, Helper, Iperf3, Other, Server};
use crate::sampler::native::{End, Native};
use crate::sampler::ranges::Ranges;
use crate::sampler::{Amount, Failure, Sampler, SamplerError, SamplerKind, gridftp};
use tidegate_spec::address;
use tidegate_spec::pair::{Pair, Site};

use super::Program;

/// Most streams that are tried unless told otherwise; the same as a transfer's own default.
const MAX_STREAMS: u16 = 32;
/// Most streams that may be asked for.
const CEILING: u16 = 512;

/// How old an answer of the history may be unless told otherwise: paths have their hours, and a day has them all.
const AGE: Duration = Duration::from_secs(86_400);

/// How many streams between these two, and how long for so many bytes?
///
/// Serialised it holds secrets, as the addresses do.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EstimateRequest {
    /// A URL, or a path of this host.
    pub source: String,
    /// A URL, or a path of this host.
    pub destination: String,
    /// How much is to be moved.
    pub bytes: ByteCount,
    /// What measures; by the addresses if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampler: Option<SamplerKind>,
    /// `HOST:PORT` of an iperf3 server at the remote site; without it an endpoint with `--iperf3` is asked to run one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iperf3: Option<String>,
    /// How long each sample is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_ms: Option<u64>,
    /// How much each sample is, instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_bytes: Option<ByteCount>,
    /// What a stream must add for sampling to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Threshold>,
    /// Which models tell what more streams would bring: ours, or those of the papers as published.
    #[serde(default, skip_serializing_if = "ModelSelection::is_default")]
    #[schemars(extend("default" = ModelSelection::default()))]
    pub model: ModelSelection,
    /// Most streams.
    #[serde(default = "most_streams")]
    #[schemars(range(min = 1, max = CEILING))]
    pub most_streams: u16,
    /// Whether the history may answer.
    #[serde(default)]
    pub use_history: bool,
    /// How old that answer may be.
    #[serde(default = "history_age_s")]
    pub history_age_s: u64,
    /// Samples even where that costs more than it can bring.
    #[serde(default)]
    pub always_sample: bool,
    /// The buffer of each connection, for iperf3 and GridFTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_bytes: Option<ByteCount>,
    /// The credential for GridFTP servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x509proxy: Option<PathBuf>,
    /// What else of the source there is for `ranges` to read, beside the first.
    #[serde(skip)]
    pub files: Vec<String>,
    /// How the transfer will go, where it differs from the default.
    #[serde(default, deserialize_with = "object")]
    pub terms: Terms,
}

/// What a transfer of ours keeps to, and so its samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EstimateTerms")]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// Data streams that are not encrypted.
    #[serde(default)]
    pub clear: bool,
    /// How content is verified, in the words of `--verify`, where that is not as usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// Rate of each stream.
    #[serde(default, rename = "limit_network_bps", skip_serializing_if = "Option::is_none")]
    pub limit_network: Option<BitRate>,
    /// Rate of all streams together.
    #[serde(default, rename = "limit_link_bps", skip_serializing_if = "Option::is_none")]
    pub limit_link: Option<BitRate>,
}

impl Terms {
    /// How the data of a sample is moved.
    fn plane(&self) -> PlaneSpec {
        PlaneSpec {
            data_plane: if self.clear { DataPlane::Clear } else { DataPlane::default() },
            verify: self.verify.unwrap_or_default(),
            limit_network: self.limit_network,
            limit_link: self.limit_link,
            ..PlaneSpec::default()
        }
    }

    /// The limits there are, by name.
    fn limits(&self) -> impl Iterator<Item = (&'static str, BitRate)> {
        let limits = [("network", self.limit_network), ("link", self.limit_link)];
        limits.into_iter().filter_map(|(name, rate)| Some((name, rate?)))
    }

    /// The same by the names that they have where files are got from servers.
    fn limits_of_servers(&self) -> impl Iterator<Item = (&'static str, BitRate)> {
        self.limits().map(|(name, rate)| (if name == "link" { "rate" } else { name }, rate))
    }
}

fn most_streams() -> u16 {
    MAX_STREAMS
}

fn history_age_s() -> u64 {
    AGE.as_secs()
}

impl EstimateRequest {
    /// With every default.
    pub fn new(source: impl Into<String>, destination: impl Into<String>, bytes: ByteCount) -> Self {
        Self {
            source: source.into(),
            destination: destination.into(),
            bytes,
            sampler: None,
            iperf3: None,
            sample_ms: None,
            sample_bytes: None,
            threshold: None,
            model: ModelSelection::default(),
            most_streams: MAX_STREAMS,
            use_history: false,
            history_age_s: AGE.as_secs(),
            always_sample: false,
            buffer_bytes: None,
            x509proxy: None,
            files: Vec::new(),
            terms: Terms::default(),
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
        let amount = match (self.sample_ms, self.sample_bytes) {
            (None, None) => return Ok(None),
            (Some(ms), None) => Amount::Time(Duration::from_millis(ms)),
            (None, Some(bytes)) => Amount::Bytes(bytes),
            (Some(_), Some(_)) => return Err(usage("a sample has a time or a size, not both")),
        };
        amount.checked().map(Some)
    }

    /// What decides on the next sample, for a sampler that opens at most so many streams.
    pub(crate) fn doubling(&self, most: u16) -> Result<SamplingConfig, SamplerError> {
        if !(1..=CEILING).contains(&self.most_streams) {
            return Err(usage("the most streams are from 1 to 512"));
        }
        let config = SamplingConfig::up_to(self.most_streams.min(most));
        let threshold = self.threshold.unwrap_or(config.threshold);
        match threshold {
            Threshold::Relative(share) if !(0.0..=1.0).contains(&share) => {
                Err(usage("the threshold is from 0 to 1 of what the first stream moves, or a rate"))
            }
            _ => Ok(SamplingConfig { threshold, ..config }),
        }
    }

    /// Which sampler measures.
    pub fn kind(&self) -> Result<SamplerKind, SamplerError> {
        if self.is_archive() {
            return Err(usage(
                "a sequence archive is not sampled: a job of accessions names no sampler, and begins as its rule does",
            ));
        }
        let by_server = self.iperf3.is_some().then_some(SamplerKind::Iperf3);
        let known = self.sampler.or(by_server).or_else(|| SamplerKind::of(&self.source, &self.destination));
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
        let Terms { clear, verify, .. } = self.terms;
        match kind {
            Some(SamplerKind::Native) => Conditions {
                clear,
                verify: verify.filter(|verify| *verify != Verify::Blake3).map(|verify| verify.to_string()),
                limits_bps: self.terms.limits().map(|(name, rate)| (name.to_owned(), rate)).collect(),
                mtu_bytes,
                ..Conditions::default()
            },
            Some(SamplerKind::Iperf3 | SamplerKind::GridFtp) => {
                Conditions { buffer_bytes: self.buffer_bytes, mtu_bytes, ..Conditions::default() }
            }
            Some(SamplerKind::Ranges) => Conditions {
                limits_bps: self
                    .terms
                    .limits_of_servers()
                    .map(|(name, rate)| (name.to_owned(), rate))
                    .collect(),
                mtu_bytes,
                ..Conditions::default()
            },
            None => Conditions::default(),
        }
    }

    /// What measures.
    pub fn sampler(&self, ours: &Program) -> Result<Box<dyn Sampler>, SamplerError> {
        let buffer = self.buffer_bytes;
        Ok(match self.kind()? {
            SamplerKind::Native => {
                let ends = (End::of(&self.source), End::of(&self.destination));
                Box::new(Native::new(ours.clone(), ends.0, ends.1, self.terms.plane())?)
            }
            SamplerKind::Iperf3 => {
                let asked = |endpoint: String| Helper { program: ours.clone(), endpoint };
                let ends = (End::of(&self.source), End::of(&self.destination));
                let other = match (self.iperf3.as_deref(), ends) {
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
                let Terms { limit_network: network, limit_link: link, .. } = self.terms;
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
    use tidegate_spec::setup::Setup;

    use super::*;

    fn ours() -> Program {
        let setup = Setup { state: Some("/s".into()), ..Setup::default() };
        Program { path: "tidegate".into(), setup }
    }

    #[test]
    fn a_request_is_read_strictly() {
        let read = |text: &str| serde_json::from_str::<EstimateRequest>(text);
        let least = r#"{"source":"/data","destination":"tg://T@dtn/x","bytes":0}"#;
        let request = read(least).expect("a request");
        assert_eq!((request.most_streams, request.use_history, request.history_age_s), (32, false, 86_400));
        assert!(request.amount().expect("none").is_none());
        let all = r#"{"source":"a","destination":"ftp://b","bytes":10000000000000000,"sampler":"gridftp",
            "sample_bytes":10000000,"threshold":{"absolute_bps":1000000},"model":"published","most_streams":8,
            "use_history":true,
            "history_age_s":60,"always_sample":true,"buffer_bytes":131072,"x509proxy":"/p",
            "terms":{"clear":true,"limit_network_bps":1,"limit_link_bps":2}}"#;
        let request = read(all).expect("a request");
        assert_eq!(request.amount(), Ok(Some(Amount::Bytes(ByteCount(10_000_000)))));
        assert_eq!(request.model, ModelSelection::Published);
        let PlaneSpec { data_plane, limit_network, limit_link, .. } = request.terms.plane();
        assert_eq!(data_plane, DataPlane::Clear);
        assert_eq!((limit_network, limit_link), (Some(BitRate(1)), Some(BitRate(2))));
        for bad in [
            "{}",
            r#"{"source":"a","destination":"b","bytes":-1}"#,
            r#"{"source":"a","destination":"b","bytes":1,"sampler":"ping"}"#,
            r#"{"source":"a","destination":"b","bytes":1,"model":"newton"}"#,
            r#"{"source":"a","destination":"b","bytes":1,"unknown":1}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let ok = EstimateRequest::new("/data", "tg://T@dtn/x", ByteCount(1));
        assert!(ok.sampler(&ours()).is_ok());
        let bad = [
            EstimateRequest { destination: "/copy".into(), ..ok.clone() },
            EstimateRequest { destination: "https://h/x".into(), ..ok.clone() },
            EstimateRequest { sampler: Some(SamplerKind::Ranges), ..ok.clone() },
            EstimateRequest { source: "https://h/x".into(), ..ok.clone() },
            EstimateRequest {
                sampler: Some(SamplerKind::Iperf3),
                destination: "ftp://h/x".into(),
                ..ok.clone()
            },
            EstimateRequest { iperf3: Some("-c".into()), ..ok.clone() },
            EstimateRequest { iperf3: Some("h".into()), source: "tg://T@a".into(), ..ok.clone() },
            EstimateRequest { sampler: Some(SamplerKind::GridFtp), ..ok.clone() },
            EstimateRequest { source: "SRR390728".into(), destination: "/x".into(), ..ok.clone() },
            EstimateRequest { source: "archive://aws".into(), iperf3: Some("h".into()), ..ok.clone() },
        ];
        for request in bad {
            let Err(error) = request.sampler(&ours()) else { panic!("{request:?}") };
            assert_eq!(error.failure, Failure::Usage, "{error}");
        }
        for (ms, bytes) in
            [(Some(1), None), (None, Some(1)), (Some(1000), Some(10 << 20)), (Some(u64::MAX), None)]
        {
            let request = EstimateRequest { sample_ms: ms, sample_bytes: bytes.map(ByteCount), ..ok.clone() };
            assert!(request.amount().is_err(), "{ms:?} {bytes:?}");
        }
        for most_streams in [0, 513] {
            assert!(EstimateRequest { most_streams, ..ok.clone() }.doubling(512).is_err());
        }
        for share in [-0.1, 1.1, f64::NAN] {
            assert!(
                EstimateRequest { threshold: Some(Threshold::Relative(share)), ..ok.clone() }
                    .doubling(512)
                    .is_err()
            );
        }
        assert_eq!(ok.doubling(8).expect("a plan").most, 8);
    }

    #[test]
    fn a_named_endpoint_is_measured_where_it_is() {
        let names = Names::new(|name| match name {
            "dtn" => Ok("tg://SECRET@dtn1:7117/".to_owned()),
            _ => Err("no such name".to_owned()),
        });
        let request =
            EstimateRequest { use_history: true, ..EstimateRequest::new("/data", "dtn:/x", ByteCount(1)) };
        assert!(request.sampler(&ours()).is_err());
        let resolved = request.resolved(&names).expect("known");
        assert_eq!(resolved.pair().map(|pair| pair.to_string()), Ok("local → tg://dtn1:7117".to_owned()));
        assert!(resolved.use_history && resolved.sampler(&ours()).is_ok());
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
