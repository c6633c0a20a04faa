//! `Observation`: what one epoch showed.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tidegate_control::{BitRate, ByteCount, Ends, Observation, Remaining};

use crate::convert::{
    MICROSECONDS, MILLISECONDS, amount, count, ends, ends_from, per_stage, refuse, setpoint, share,
    stages_from, time,
};
use crate::kernel::{cpu, cpu_from, streams, streams_from};

/// What one epoch showed: the only thing a rule ever sees.
///
/// Stages are always in the order read, network, write; ends in the order sender, receiver. Names
/// carry their unit last.
#[pyclass(name = "Observation", module = "tidegate", frozen, eq)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PyObservation(pub(crate) Observation);

#[pymethods]
impl PyObservation {
    #[new]
    #[pyo3(signature = (
        *, concurrency, throughput_bps, staging_free_bytes = None, staging_capacity_bytes = None, at_ms,
        interval_ms = None, loss = None, rtt_us = None, remaining_bytes = None, remaining_files = None,
        standard_error = None, waited = None, draining = None, streams = None, cpu = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords of a constructor")]
    fn new(
        concurrency: &Bound<'_, PyAny>,
        throughput_bps: &Bound<'_, PyAny>,
        staging_free_bytes: Option<&Bound<'_, PyAny>>,
        staging_capacity_bytes: Option<&Bound<'_, PyAny>>,
        at_ms: &Bound<'_, PyAny>,
        interval_ms: Option<&Bound<'_, PyAny>>,
        loss: Option<&Bound<'_, PyAny>>,
        rtt_us: Option<&Bound<'_, PyAny>>,
        remaining_bytes: Option<&Bound<'_, PyAny>>,
        remaining_files: Option<&Bound<'_, PyAny>>,
        standard_error: Option<&Bound<'_, PyAny>>,
        waited: Option<&Bound<'_, PyAny>>,
        draining: Option<&Bound<'_, PyAny>>,
        streams: Option<&Bound<'_, PyAny>>,
        cpu: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let bytes = |value: &Bound<'_, PyAny>, name: &str| count(value, name).map(ByteCount);
        if staging_free_bytes.is_some() != staging_capacity_bytes.is_some() {
            return Err(refuse("staging_free_bytes and staging_capacity_bytes go together"));
        }
        // Where there is none, no stage waits for another.
        let staging = |value: Option<&Bound<'_, PyAny>>, name| match value {
            Some(value) => ends_from(value, name, bytes),
            None => Ok(Ends::default()),
        };
        let staging_free = staging(staging_free_bytes, "staging_free_bytes")?;
        let staging_capacity = staging(staging_capacity_bytes, "staging_capacity_bytes")?;
        if staging_free.sender > staging_capacity.sender || staging_free.receiver > staging_capacity.receiver
        {
            return Err(refuse("staging_free_bytes must not be more than staging_capacity_bytes"));
        }
        let loss = loss.map(|loss| share(loss, "loss")).transpose()?;
        let standard_error =
            standard_error.map(|errors| stages_from(errors, "standard_error", amount)).transpose()?;
        let waited = waited.map(|waited| {
            stages_from(waited, "waited", |value, name| {
                (!value.is_none()).then(|| share(value, name)).transpose()
            })
        });
        let draining = draining.map(|workers| stages_from(workers, "draining", amount)).transpose()?;
        let interval = interval_ms.map(|ms| time(ms, "interval_ms", MILLISECONDS)).transpose()?;
        let left = remaining_bytes.map(|left| bytes(left, "remaining_bytes")).transpose()?;
        let files = remaining_files.map(|files| count(files, "remaining_files")).transpose()?;
        if left.is_some() != files.is_some() {
            return Err(refuse("remaining_bytes and remaining_files go together"));
        }
        let (streams, model_based) = streams.map(streams_from).transpose()?.unzip();
        let all = streams.map_or(0, |streams| streams.count);
        Ok(Self(Observation {
            at: time(at_ms, "at_ms", MILLISECONDS)?,
            interval: interval.unwrap_or(Duration::from_secs(1)),
            concurrency: setpoint(concurrency, "concurrency")?,
            throughput: stages_from(throughput_bps, "throughput_bps", |value, name| {
                count(value, name).map(BitRate)
            })?,
            standard_error: standard_error.unwrap_or_default(),
            waited: waited.transpose()?.unwrap_or_default(),
            draining: draining.unwrap_or_default(),
            staging_free,
            staging_capacity,
            loss,
            rtt: rtt_us.map(|rtt| time(rtt, "rtt_us", MICROSECONDS)).transpose()?,
            streams,
            queued: 0.0,
            held: 0.0,
            model_based: f64::from(model_based.unwrap_or(0)) / f64::from(all.max(1)),
            tries: false,
            ramp: Vec::new(),
            cpu: cpu.map(cpu_from).transpose()?.unwrap_or_default(),
            remaining: left.zip(files).map(|(bytes, files)| Remaining { bytes, files }),
        }))
    }

    /// The end of the interval in ms, counted from the start of the transfer.
    #[getter]
    fn at_ms(&self) -> f64 {
        self.0.at.as_secs_f64() * MILLISECONDS
    }

    /// The time measured in ms; the settling time after a change is left out.
    #[getter]
    fn interval_ms(&self) -> f64 {
        self.0.interval.as_secs_f64() * MILLISECONDS
    }

    /// Workers that were allowed to run, a stage.
    #[getter]
    fn concurrency<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        per_stage(py, self.0.concurrency)
    }

    /// What each stage moved, in bit/s.
    #[getter]
    fn throughput_bps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        per_stage(py, self.0.throughput.map(|rate| rate.0))
    }

    /// The standard error of each throughput, as a share of it; 0 where nobody knows.
    #[getter]
    fn standard_error<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        per_stage(py, self.0.standard_error)
    }

    /// The share of the interval for which a stage's workers had no staging to take from or to fill, in the mean over
    /// them, 0 to 1; None where nobody knows.
    #[getter]
    fn waited<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        per_stage(py, self.0.waited)
    }

    /// Workers of a stage that were let go and finished what they had begun, in the mean over the interval; 0 where nobody
    /// knows.
    #[getter]
    fn draining<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        per_stage(py, self.0.draining)
    }

    /// End-to-end throughput in bit/s: what the slowest stage moved.
    #[getter]
    fn goodput_bps(&self) -> u64 {
        self.0.goodput().0
    }

    /// Free staging at each end in bytes, at the end of the interval.
    #[getter]
    fn staging_free_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let free = self.0.staging_free;
        ends(py, Ends { sender: free.sender.0, receiver: free.receiver.0 })
    }

    /// Size of the staging at each end in bytes.
    #[getter]
    fn staging_capacity_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let capacity = self.0.staging_capacity;
        ends(py, Ends { sender: capacity.sender.0, receiver: capacity.receiver.0 })
    }

    /// Segments retransmitted per segment sent, 0 to 1; None where it cannot be seen.
    #[getter]
    fn loss(&self) -> Option<f64> {
        self.0.loss
    }

    /// Smoothed round-trip time in µs; None where it cannot be seen.
    #[getter]
    fn rtt_us(&self) -> Option<f64> {
        self.0.rtt.map(|rtt| rtt.as_secs_f64() * MICROSECONDS)
    }

    /// What the sender's kernel told of the network streams; None where nobody knows.
    #[getter]
    fn streams<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let model_based = |all: u16| (self.0.model_based * f64::from(all)).round() as u16;
        self.0.streams.map(|told| streams(py, told, model_based(told.count))).transpose()
    }

    /// What each end's processors did; None of an end that nobody knows of.
    #[getter]
    fn cpu<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        cpu(py, self.0.cpu)
    }

    /// Bytes not yet written; None while the whole list is not known.
    #[getter]
    fn remaining_bytes(&self) -> Option<u64> {
        self.0.remaining.map(|remaining| remaining.bytes.0)
    }

    /// Files not yet committed; None while the whole list is not known.
    #[getter]
    fn remaining_files(&self) -> Option<u64> {
        self.0.remaining.map(|remaining| remaining.files)
    }

    fn __repr__(&self) -> String {
        let Observation { at, concurrency: n, throughput: rate, .. } = &self.0;
        format!(
            "<Observation at {:.1} s: read {} × {}, network {} × {}, write {} × {}>",
            at.as_secs_f64(),
            n.read,
            rate.read,
            n.network,
            rate.network,
            n.write,
            rate.write
        )
    }

    /// The keywords it is made of, so that it can be copied and pickled.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        let keywords = PyDict::new(py);
        keywords.set_item("concurrency", self.concurrency(py)?)?;
        keywords.set_item("throughput_bps", self.throughput_bps(py)?)?;
        keywords.set_item("staging_free_bytes", self.staging_free_bytes(py)?)?;
        keywords.set_item("staging_capacity_bytes", self.staging_capacity_bytes(py)?)?;
        keywords.set_item("at_ms", self.at_ms())?;
        keywords.set_item("interval_ms", self.interval_ms())?;
        keywords.set_item("loss", self.loss())?;
        keywords.set_item("rtt_us", self.rtt_us())?;
        keywords.set_item("remaining_bytes", self.remaining_bytes())?;
        keywords.set_item("remaining_files", self.remaining_files())?;
        keywords.set_item("standard_error", self.standard_error(py)?)?;
        keywords.set_item("waited", self.waited(py)?)?;
        keywords.set_item("draining", self.draining(py)?)?;
        keywords.set_item("streams", self.streams(py)?)?;
        keywords.set_item("cpu", self.cpu(py)?)?;
        Ok((PyTuple::empty(py), keywords))
    }
}
