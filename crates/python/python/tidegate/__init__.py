"""Tidegate: moves files between hosts with as many readers, streams and writers as the path can use.

    import tidegate

    tidegate.copy("results", "dtn:/incoming/")              # and get, put, verify, estimate, ls, hash
    await tidegate.aio.copy("results", "dtn:/incoming/")    # the same for asyncio
    with tidegate.Endpoint("results") as endpoint: ...      # serves a directory at endpoint.address

For people who work on the rule itself, simulated paths, rules, and what they see (with gymnasium and numpy):

    scenario = tidegate.Scenario.from_file("scenarios/automdt-read.toml")
    env = tidegate.TransferEnv(scenario)        # a gymnasium.Env
    envs = tidegate.TransferVectorEnv(scenario, num_envs=64)
    tidegate.simulate(scenario, "auto")         # what `tidegate simulate --json` says of a rule
    tidegate.LiveEnv(reference_bps=1e9)         # the same environment on a transfer that really runs
    tidegate.export_policy(agent, "policy.safetensors")     # what was learned, for `tidegate copy --policy`

`gymnasium.make` knows `tidegate/Transfer-v0` and `tidegate/Live-v0` where Gymnasium was imported first, and
`tidegate.env:tidegate/Transfer-v0` always. Stages are always in the order read, network, write; names carry their unit
last.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import aio
from ._asked import Rule
from ._core import OPTIMIZERS, Observation, Optimizer, Policy, Scenario, __version__, simulate
from ._endpoint import Endpoint
from ._options import (
    CopyOptions,
    EndpointOptions,
    EstimateOptions,
    GetOptions,
    LsOptions,
    PutOptions,
    VerifyOptions,
)
from ._run import Cancel, ProgressCallback
from ._types import Bounds, CpuLoad, Ends, Oracle, PerStage, Streams, Summary
from ._values import Place
from .errors import (
    CancelledError,
    DirectoryError,
    Error,
    ErrorKind,
    IncompleteError,
    IncompleteUnreachableError,
    NoSpaceError,
    NotFoundError,
    RefusedError,
    UnreachableError,
    UsageError,
)
from .results import Estimate, FailedFile, Files, ListedFile, Plot, Progress, RemoteFile, Sample, TransferResult
from .transfers import copy, estimate, get, hash, ls, put, resolve, verify

if TYPE_CHECKING:
    from .env import TransferEnv
    from .export import export_policy
    from .live_env import LiveEnv
    from .vector_env import TransferVectorEnv

# What needs gymnasium and numpy: who moves files does without, and without the time to load them.
_LEARNING = {
    "LiveEnv": "live_env",
    "TransferEnv": "env",
    "TransferVectorEnv": "vector_env",
    "export_policy": "export",
}

__all__ = [
    "OPTIMIZERS",
    "Bounds",
    "Cancel",
    "CancelledError",
    "CopyOptions",
    "CpuLoad",
    "DirectoryError",
    "Endpoint",
    "EndpointOptions",
    "Ends",
    "Error",
    "ErrorKind",
    "Estimate",
    "EstimateOptions",
    "FailedFile",
    "Files",
    "GetOptions",
    "IncompleteError",
    "IncompleteUnreachableError",
    "ListedFile",
    "LiveEnv",
    "LsOptions",
    "NoSpaceError",
    "NotFoundError",
    "Observation",
    "Optimizer",
    "Oracle",
    "PerStage",
    "Place",
    "Plot",
    "Policy",
    "Progress",
    "ProgressCallback",
    "PutOptions",
    "RefusedError",
    "RemoteFile",
    "Rule",
    "Sample",
    "Scenario",
    "Streams",
    "Summary",
    "TransferEnv",
    "TransferResult",
    "TransferVectorEnv",
    "UnreachableError",
    "UsageError",
    "VerifyOptions",
    "__version__",
    "aio",
    "copy",
    "estimate",
    "export_policy",
    "get",
    "hash",
    "ls",
    "put",
    "resolve",
    "simulate",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _LEARNING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f".{_LEARNING[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if error.name in ("gymnasium", "numpy"):
            raise ImportError(f"{name} needs {error.name}: pip install gymnasium numpy") from error
        raise


if "gymnasium" in sys.modules:
    from . import _gymnasium as _gymnasium
