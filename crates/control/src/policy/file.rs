//! A policy as a safetensors file: little-endian length, JSON header, raw f32, readable from Python
//! and by anything else that knows the format. Everything that is no weight is in `__metadata__`.
//!
//! Whatever a file holds, reading it ends in a [`Policy`] whose every weight is finite and whose
//! sizes fit its recipe, or in one line that names the tensor or field.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::policy::features::{Actions, Recipe, Scales};
use crate::policy::network::{Network, Shape};
use crate::policy::{Policy, SIGMA_FACTOR};

/// What `format` says in a policy's metadata.
const FORMAT: &str = "tidegate-policy";
/// The version this program writes and reads.
const VERSION: &str = "1";
/// The longest header read; a policy's has a few KiB.
const MAX_HEADER: usize = 1 << 20;
/// Metadata that is not a fact of training.
const FIELDS: [&str; 6] = ["format", "version", "recipe", "scales", "actor", "critic"];

/// Why a policy file was refused; always one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Not this format, or cut off.
    #[error("not a safetensors file: {reason}")]
    Format {
        /// What is wrong.
        reason: &'static str,
    },
    /// A metadata field.
    #[error("field '{field}': {reason}")]
    Field {
        /// Its name.
        field: String,
        /// What is wrong.
        reason: String,
    },
    /// A tensor.
    #[error("tensor '{tensor}': {reason}")]
    Tensor {
        /// Its name.
        tensor: String,
        /// What is wrong.
        reason: String,
    },
}

fn field(field: &str, reason: impl Into<String>) -> PolicyError {
    PolicyError::Field { field: field.to_owned(), reason: reason.into() }
}

#[derive(Serialize, Deserialize)]
struct Header {
    #[serde(rename = "__metadata__", default)]
    metadata: BTreeMap<String, String>,
    #[serde(flatten)]
    tensors: BTreeMap<String, Entry>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

impl Policy {
    /// The file's bytes; the same policy gives the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let json = |shape: Shape| serde_json::to_string(&shape).unwrap_or_default();
        let mut metadata = self.facts.clone();
        metadata.retain(|name, _| !FIELDS.contains(&name.as_str()));
        metadata.insert("format".into(), FORMAT.into());
        metadata.insert("version".into(), VERSION.into());
        metadata.insert("recipe".into(), self.recipe.name().into());
        metadata.insert("scales".into(), serde_json::to_string(&self.scales).unwrap_or_default());
        metadata.insert("actor".into(), json(self.actor.shape()));
        let mut header = Header { metadata, tensors: BTreeMap::new() };
        let mut data = Vec::new();
        let mut add = |name: String, shape: Vec<usize>, values: &[f32]| {
            let begin = data.len();
            data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            let entry = Entry { dtype: "F32".into(), shape, data_offsets: [begin, data.len()] };
            header.tensors.insert(name, entry);
        };
        let mut network = |prefix: &str, network: &Network| {
            for tensor in network.shape().tensors() {
                add(format!("{prefix}.{}", tensor.name), tensor.dims, &network.parameters()[tensor.range]);
            }
        };
        network("actor", &self.actor);
        if let Some(critic) = &self.critic {
            network("critic", critic);
        }
        add("log_sigma".into(), vec![self.log_sigma.len()], &self.log_sigma);
        if let Some(critic) = &self.critic {
            header.metadata.insert("critic".into(), json(critic.shape()));
        }
        let mut text = serde_json::to_string(&header).unwrap_or_default();
        // The data begins at a multiple of eight, as the format asks.
        text.extend(std::iter::repeat_n(' ', text.len().next_multiple_of(8) - text.len()));
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        bytes.extend(data);
        bytes
    }

    /// Reads and checks a file's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PolicyError> {
        let format = |reason| PolicyError::Format { reason };
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or(format("it has no header"))?;
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > MAX_HEADER {
            return Err(format("its header is too long"));
        }
        let (text, data) = rest.split_at_checked(length).ok_or(format("it ends within its header"))?;
        let header: Header =
            serde_json::from_slice(text).map_err(|_| format("its header is not the JSON it must be"))?;
        let file = File { header, data };
        file.expect("format", FORMAT)?;
        file.expect("version", VERSION)?;
        let recipe: Recipe = file.text("recipe")?.parse().map_err(|why: String| field("recipe", why))?;
        let scales: Scales = file.parsed("scales")?;
        if scales.rate_bps.0 == 0 {
            return Err(field("scales", "rate_bps must be more than 0"));
        }
        let bounds = scales.bounds.into_array();
        if bounds.iter().any(|bounds| bounds.min == 0 || bounds.min > bounds.max) {
            return Err(field("scales", "bounds must begin at 1 or more and not end before"));
        }
        let actor = file.network("actor")?;
        let features = recipe.features(&scales);
        let (inputs, heads) = (features.inputs(), features.heads());
        if (actor.shape().inputs, actor.shape().outputs) != (inputs, heads) {
            let why = format!("recipe {recipe} needs {inputs} inputs and {heads} outputs on this path");
            return Err(field("actor", why));
        }
        let deviations = if features.actions() == Actions::Gaussian { heads } else { 0 };
        let log_sigma = file.tensor("log_sigma", &[deviations])?;
        let critic =
            file.header.metadata.contains_key("critic").then(|| file.network("critic")).transpose()?;
        if critic
            .as_ref()
            .is_some_and(|critic| (critic.shape().inputs, critic.shape().outputs) != (inputs, 1))
        {
            return Err(field("critic", format!("it must have {inputs} inputs and 1 output")));
        }
        let mut facts = file.header.metadata;
        facts.retain(|name, _| !FIELDS.contains(&name.as_str()));
        let factor = facts.get(SIGMA_FACTOR).map(|text| text.parse::<f32>());
        if factor.is_some_and(|factor| !factor.is_ok_and(|factor| factor > 0.0 && factor <= 1.0)) {
            return Err(field(SIGMA_FACTOR, "must be a number above 0 and at most 1"));
        }
        Ok(Self { recipe, scales, actor, log_sigma, critic, facts })
    }
}

/// A file whose header was understood.
struct File<'a> {
    header: Header,
    data: &'a [u8],
}

impl File<'_> {
    fn text(&self, name: &str) -> Result<&str, PolicyError> {
        self.header.metadata.get(name).map(String::as_str).ok_or_else(|| field(name, "is missing"))
    }

    fn expect(&self, name: &str, wanted: &str) -> Result<(), PolicyError> {
        let found = self.text(name)?;
        let shown: String = found.chars().take(40).filter(|c| !c.is_control()).collect();
        if found == wanted { Ok(()) } else { Err(field(name, format!("is '{shown}', expected '{wanted}'"))) }
    }

    fn parsed<T: DeserializeOwned>(&self, name: &str) -> Result<T, PolicyError> {
        serde_json::from_str(self.text(name)?).map_err(|error| {
            let why = error.to_string();
            field(name, why.split(" at line").next().unwrap_or_default())
        })
    }

    fn network(&self, name: &str) -> Result<Network, PolicyError> {
        let shape: Shape = self.parsed(name)?;
        if !shape.is_sane() {
            return Err(field(name, "its sizes are out of range"));
        }
        if shape.parameters() > self.data.len() / 4 {
            return Err(field(name, "needs more values than the file holds"));
        }
        let mut parameters = Vec::with_capacity(shape.parameters());
        for tensor in shape.tensors() {
            parameters.extend(self.tensor(&format!("{name}.{}", tensor.name), &tensor.dims)?);
        }
        Network::new(shape, parameters).ok_or_else(|| field(name, "its tensors do not fit its sizes"))
    }

    fn tensor(&self, name: &str, dims: &[usize]) -> Result<Vec<f32>, PolicyError> {
        let wrong = |reason: String| PolicyError::Tensor { tensor: name.to_owned(), reason };
        let entry = self.header.tensors.get(name).ok_or_else(|| wrong("is missing".into()))?;
        if entry.dtype != "F32" {
            return Err(wrong("is not of type F32".into()));
        }
        if entry.shape != dims {
            let shape: Vec<usize> = entry.shape.iter().take(4).copied().collect();
            return Err(wrong(format!("has shape {shape:?}, expected {dims:?}")));
        }
        let [begin, end] = entry.data_offsets;
        let size = dims.iter().product::<usize>() * 4;
        let bytes =
            self.data.get(begin..end).ok_or_else(|| wrong("lies beyond the end of the file".into()))?;
        if bytes.len() != size {
            return Err(wrong(format!("has {} bytes, expected {size}", bytes.len())));
        }
        let values: Vec<f32> = bytes
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect();
        if values.iter().any(|value| !value.is_finite()) {
            return Err(wrong("has a value that is NaN or infinite".into()));
        }
        Ok(values)
    }
}
