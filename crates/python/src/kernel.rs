//! `Streams` and `CpuLoad`: what an epoch's observation holds of the kernel's own counts, as named tuples.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use tidegate_control::{BitRate, ByteCount, CpuLoad, Ends, Streams};

use crate::convert::{
    MICROSECONDS, amount, count, ends, ends_from, exactly, named_tuple, refuse, share, time,
};

/// `Streams(count, min_rtt_us, …)`, of which so many go by a model of the path.
pub(crate) fn streams(py: Python<'_>, streams: Streams, model_based: u16) -> PyResult<Bound<'_, PyAny>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let Streams { count, min_rtt, delivery_rate, window, busy, receiver_limited, app_limited, spread } =
        streams;
    let min_rtt = min_rtt.map(|rtt| rtt.as_secs_f64() * MICROSECONDS);
    named_tuple(py, &TYPE, "Streams")?.call1((
        count,
        min_rtt,
        delivery_rate.0,
        window.0,
        busy,
        receiver_limited,
        app_limited,
        spread,
        model_based,
    ))
}

/// The same back, from any nine values in that order.
pub(crate) fn streams_from(value: &Bound<'_, PyAny>) -> PyResult<(Streams, u16)> {
    let [number, min_rtt, delivery_rate, window, busy, receiver_limited, app_limited, spread, model_based] =
        exactly(value).ok_or_else(|| refuse("streams must be the nine values of tidegate.Streams"))?;
    let number = few(&number, "streams.count")?;
    let model_based = few(&model_based, "streams.model_based")?;
    if model_based > number {
        return Err(refuse("streams.model_based must not be more than streams.count"));
    }
    let shortest =
        (!min_rtt.is_none()).then(|| time(&min_rtt, "streams.min_rtt_us", MICROSECONDS)).transpose()?;
    let streams = Streams {
        count: number,
        min_rtt: shortest,
        delivery_rate: BitRate(count(&delivery_rate, "streams.delivery_rate_bps")?),
        window: ByteCount(count(&window, "streams.window_bytes")?),
        busy: share(&busy, "streams.busy")?,
        receiver_limited: share(&receiver_limited, "streams.receiver_limited")?,
        app_limited: share(&app_limited, "streams.app_limited")?,
        spread: amount(&spread, "streams.spread")?,
    };
    Ok((streams, model_based))
}

/// A number of streams.
fn few(value: &Bound<'_, PyAny>, name: &str) -> PyResult<u16> {
    u16::try_from(count(value, name)?).map_err(|_| refuse(format!("{name} must be less than 65536")))
}

/// `Ends` of `CpuLoad(ours, idle)` or None.
pub(crate) fn cpu(py: Python<'_>, cpu: Ends<Option<CpuLoad>>) -> PyResult<Bound<'_, PyAny>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let one = |load: Option<CpuLoad>| match load {
        Some(CpuLoad { ours, idle }) => named_tuple(py, &TYPE, "CpuLoad")?.call1((ours, idle)).map(Some),
        None => Ok(None),
    };
    ends(py, Ends { sender: one(cpu.sender)?, receiver: one(cpu.receiver)? })
}

/// The same back.
pub(crate) fn cpu_from(value: &Bound<'_, PyAny>) -> PyResult<Ends<Option<CpuLoad>>> {
    ends_from(value, "cpu", |load, name| {
        if load.is_none() {
            return Ok(None);
        }
        let [ours, idle] =
            exactly(load).ok_or_else(|| refuse(format!("{name} must be two values: ours, idle")))?;
        let ours = share(&ours, &format!("{name}.ours"))?;
        Ok(Some(CpuLoad { ours, idle: share(&idle, &format!("{name}.idle"))? }))
    })
}
