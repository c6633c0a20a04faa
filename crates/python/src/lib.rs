//! `tidegate._core`: the command, the simulator, the rules and what they see, for Python.
//!
//! The package `tidegate` (in `python/`) is a thin layer above this: it turns runs of commands into functions,
//! `paths::Paths` into Gymnasium environments, `connection::PyConnection` into a file system of fsspec, and re-exports the
//! rest. Only the public interfaces of the crates beneath are used, so Python and the command are one program.
//!
//! Nothing here panics on what Python hands in: every value is checked on its way in, and what is
//! wrong with it becomes a one-line exception.

use pyo3::prelude::*;

// What crosses the border.
mod convert;

mod kernel;

// The classes that wrap one thing of `tidegate-control` each.
mod observation;
mod scenario;

mod policy;

mod optimizer;

mod simulation;

// The environments: how a path is seen, one episode, and many at once.
mod view;

mod episode;

mod paths;

// Transfers, and the program itself; files of a place.
mod run;

mod connection;

/// The compiled part of the package `tidegate`.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("FEATURES", view::FEATURES)?;
    module.add("INFORMATION", episode::INFORMATION)?;
    module.add("OPTIMIZERS", tidegate_control::optimizer::NAMES)?;
    module.add_class::<observation::PyObservation>()?;
    module.add_class::<scenario::PyScenario>()?;
    module.add_class::<optimizer::PyOptimizer>()?;
    module.add_class::<policy::PyPolicy>()?;
    module.add_class::<view::PyView>()?;
    module.add_class::<paths::Paths>()?;
    module.add_function(wrap_pyfunction!(simulation::simulate, module)?)?;
    module.add_class::<run::PyRun>()?;
    module.add_class::<connection::PyConnection>()?;
    module.add("MAX_CONTENT", tidegate_transfer::wire::files::MAX_CONTENT)?;
    module.add_function(wrap_pyfunction!(run::main, module)?)?;
    module.add_function(wrap_pyfunction!(run::program_is_at, module)?)?;
    Ok(())
}
