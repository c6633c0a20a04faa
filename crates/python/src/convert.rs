//! Between Python's values and ours: three of a kind, quantities, times, errors.

use std::io;
use std::path::Path;
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFrozenSet, PySet, PyString, PyType};
use tidegate_control::{Bounds, Concurrency, Ends, PerStage, Stage};

/// In a second, where a name ends with `_ms` or `_us`.
pub(crate) const MILLISECONDS: f64 = 1e3;
pub(crate) const MICROSECONDS: f64 = 1e6;

/// A `ValueError` of one line.
pub(crate) fn refuse(message: impl AsRef<str>) -> PyErr {
    PyValueError::new_err(message.as_ref().lines().collect::<Vec<_>>().join(" "))
}

/// The exception Python itself would raise for `error` at `file`: `FileNotFoundError` and its kin.
pub(crate) fn unreadable(error: &io::Error, file: &Path) -> PyErr {
    let Some(number) = error.raw_os_error() else { return refuse(format!("{}: {error}", file.display())) };
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default().to_owned();
    PyOSError::new_err((number, text, file.to_owned()))
}

/// The named tuples of the Python layer, which make values in a row readable.
pub(crate) fn named_tuple<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyType>>,
    name: &str,
) -> PyResult<&'py Bound<'py, PyType>> {
    cell.import(py, "tidegate._types", name)
}

/// `PerStage(read, network, write)`.
pub(crate) fn per_stage<'py, T: IntoPyObject<'py>>(
    py: Python<'py>,
    values: PerStage<T>,
) -> PyResult<Bound<'py, PyAny>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let PerStage { read, network, write } = values;
    named_tuple(py, &TYPE, "PerStage")?.call1((read, network, write))
}

/// `Ends(sender, receiver)`.
pub(crate) fn ends<'py, T: IntoPyObject<'py>>(
    py: Python<'py>,
    values: Ends<T>,
) -> PyResult<Bound<'py, PyAny>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    named_tuple(py, &TYPE, "Ends")?.call1((values.sender, values.receiver))
}

/// `PerStage` of `Bounds(min, max)`.
pub(crate) fn all_bounds(py: Python<'_>, bounds: PerStage<Bounds>) -> PyResult<Bound<'_, PyAny>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let one = |bounds: Bounds| named_tuple(py, &TYPE, "Bounds")?.call1((bounds.min, bounds.max));
    per_stage(py, PerStage::new(one(bounds.read)?, one(bounds.network)?, one(bounds.write)?))
}

/// `Oracle(setpoint, goodput_bps)`.
pub(crate) fn oracle(py: Python<'_>, oracle: tidegate_control::Oracle) -> PyResult<Bound<'_, PyAny>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let setpoint = per_stage(py, oracle.setpoint)?;
    named_tuple(py, &TYPE, "Oracle")?.call1((setpoint, oracle.goodput.0))
}

/// Exactly `N` values out of any iterable that has them in order (a tuple, a list, an array).
pub(crate) fn exactly<'py, const N: usize>(value: &Bound<'py, PyAny>) -> Option<[Bound<'py, PyAny>; N]> {
    let is_text = value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>();
    let has_no_order = value.is_instance_of::<PySet>() || value.is_instance_of::<PyFrozenSet>();
    if is_text || has_no_order || value.is_instance_of::<PyDict>() {
        return None;
    }
    let mut values = Vec::with_capacity(N);
    for item in value.try_iter().ok()? {
        if values.len() == N {
            return None;
        }
        values.push(item.ok()?);
    }
    values.try_into().ok()
}

/// The three values of `name`, each through `read`.
pub(crate) fn stages_from<T>(
    value: &Bound<'_, PyAny>,
    name: &str,
    read: impl Fn(&Bound<'_, PyAny>, &str) -> PyResult<T>,
) -> PyResult<PerStage<T>> {
    let [a, b, c] =
        exactly(value).ok_or_else(|| refuse(format!("{name} must be three values: read, network, write")))?;
    let one = |value, stage: Stage| read(value, &format!("{name}.{stage}"));
    Ok(PerStage::new(one(&a, Stage::Read)?, one(&b, Stage::Network)?, one(&c, Stage::Write)?))
}

/// The two values of `name`, each through `read`.
pub(crate) fn ends_from<T>(
    value: &Bound<'_, PyAny>,
    name: &str,
    read: impl Fn(&Bound<'_, PyAny>, &str) -> PyResult<T>,
) -> PyResult<Ends<T>> {
    let [sender, receiver] =
        exactly(value).ok_or_else(|| refuse(format!("{name} must be two values: sender, receiver")))?;
    Ok(Ends {
        sender: read(&sender, &format!("{name}.sender"))?,
        receiver: read(&receiver, &format!("{name}.receiver"))?,
    })
}

/// A number, which Python's `True` would be as well.
pub(crate) fn number<'a, 'py, T>(value: &'a Bound<'py, PyAny>) -> PyResult<T>
where
    T: FromPyObject<'a, 'py, Error = PyErr>,
{
    if value.is_instance_of::<PyBool>() {
        return Err(PyTypeError::new_err("a number is needed, not a bool"));
    }
    value.extract()
}

/// A number, or `None`.
pub(crate) fn number_if_any<'a, 'py, T>(value: &'a Bound<'py, PyAny>) -> PyResult<Option<T>>
where
    T: FromPyObject<'a, 'py, Error = PyErr>,
{
    if value.is_none() { Ok(None) } else { number(value).map(Some) }
}

/// A number of workers.
pub(crate) fn workers(value: &Bound<'_, PyAny>, name: &str) -> PyResult<u16> {
    let number = number::<u16>(value).ok().filter(|&n| n > 0);
    number.ok_or_else(|| refuse(format!("{name} must be a whole number from 1 to 65535")))
}

/// A set-point: three numbers of workers.
pub(crate) fn setpoint(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Concurrency> {
    stages_from(value, name, workers)
}

/// Bounds of all stages: three pairs of the fewest and the most workers.
pub(crate) fn bounds(value: &Bound<'_, PyAny>) -> PyResult<PerStage<Bounds>> {
    stages_from(value, "bounds", |pair, name| {
        let [min, max] = exactly(pair).ok_or_else(|| refuse(format!("{name} must be a pair: min, max")))?;
        let (min, max) = (workers(&min, &format!("{name}.min"))?, workers(&max, &format!("{name}.max"))?);
        if min > max {
            return Err(refuse(format!("{name}.max must not be less than min")));
        }
        Ok(Bounds::new(min, max))
    })
}

/// A finite number that is at least 0.
pub(crate) fn amount(value: &Bound<'_, PyAny>, name: &str) -> PyResult<f64> {
    let number = number::<f64>(value).ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| refuse(format!("{name} must be a finite number of at least 0")))
}

/// A number from 0 to 1.
pub(crate) fn share(value: &Bound<'_, PyAny>, name: &str) -> PyResult<f64> {
    let number = amount(value, name).ok().filter(|number| *number <= 1.0);
    number.ok_or_else(|| refuse(format!("{name} must be from 0 to 1")))
}

/// A count of bits a second or bytes; a fraction is rounded.
pub(crate) fn count(value: &Bound<'_, PyAny>, name: &str) -> PyResult<u64> {
    if let Ok(whole) = number::<u64>(value) {
        return Ok(whole);
    }
    let number = amount(value, name)?;
    if number >= u64::MAX as f64 {
        return Err(refuse(format!("{name} must be less than 2**64")));
    }
    Ok(number.round() as u64)
}

/// A time given as a number of units, of which `per_second` make a second.
pub(crate) fn time(value: &Bound<'_, PyAny>, name: &str, per_second: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(amount(value, name)? / per_second)
        .map_err(|_| refuse(format!("{name} is too long")))
}

/// The length of an epoch in ms, within what `tidegate simulate` takes.
pub(crate) fn epoch_length(ms: f64) -> PyResult<Duration> {
    if (100.0..=60_000.0).contains(&ms) {
        Ok(Duration::from_secs_f64(ms / 1e3))
    } else {
        Err(refuse("epoch_ms must be from 100 to 60000"))
    }
}

/// A number of epochs, within what `tidegate simulate` takes.
pub(crate) fn epoch_count(epochs: i64) -> PyResult<u32> {
    match u32::try_from(epochs) {
        Ok(epochs @ 1..=1_000_000) => Ok(epochs),
        _ => Err(refuse("epochs must be from 1 to 1000000")),
    }
}

/// The one of `choices` that is called `given`.
pub(crate) fn choice<T: Copy>(name: &str, given: &str, choices: &[(&str, T)]) -> PyResult<T> {
    let found = choices.iter().find(|(name, _)| *name == given);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        refuse(format!("{name} must be one of {}, not '{given}'", names.join(", ")))
    })
}

/// A rate that throughput is shown relative to.
pub(crate) fn reference(bps: f64) -> PyResult<f64> {
    match bps.is_finite() && bps > 0.0 {
        true => Ok(bps),
        false => Err(refuse("reference_bps must be more than 0")),
    }
}
