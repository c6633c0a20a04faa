"""Transfers for asyncio: the functions of `tidegate` under the same names, to be awaited.

No thread waits for them. Cancelling the task stops the transfer, and the cancellation is raised once it has stopped; the
same call continues it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from . import _call
from ._options import CopyOptions, EstimateOptions, GetOptions, LsOptions, PutOptions, VerifyOptions
from ._run import ShownProgress, run_async
from ._values import Place
from .results import Estimate, ListedFile, RemoteFile, TransferResult

__all__ = ["copy", "estimate", "get", "hash", "ls", "put", "resolve", "verify"]


@_call.documented("copy")
async def copy(
    source: Place | Iterable[Place],
    destination: Place,
    *,
    progress: ShownProgress = None,
    **options: Unpack[CopyOptions],
) -> TransferResult:
    """Copies files and directories: see `tidegate.copy`."""
    return _call.result(await run_async(_call.copy(source, destination, options), progress))


@_call.documented("verify")
async def verify(
    source: Place | Iterable[Place],
    destination: Place,
    *,
    progress: ShownProgress = None,
    **options: Unpack[VerifyOptions],
) -> TransferResult:
    """Compares the files of a copy: see `tidegate.verify`."""
    return _call.result(await run_async(_call.verify(source, destination, options), progress))


@_call.documented("get")
async def get(
    names: str | Iterable[str],
    directory: Place = ".",
    *,
    progress: ShownProgress = None,
    **options: Unpack[GetOptions],
) -> TransferResult:
    """Gets public data: see `tidegate.get`."""
    return _call.result(await run_async(_call.get(names, directory, options), progress))


@_call.documented("put")
async def put(
    source: Place | Iterable[Place],
    destination: str,
    *,
    progress: ShownProgress = None,
    **options: Unpack[PutOptions],
) -> TransferResult:
    """Puts files to S3 or WebDAV: see `tidegate.put`."""
    return _call.result(await run_async(_call.put(source, destination, options), progress))


@_call.documented("estimate")
async def estimate(source: Place, destination: Place, **options: Unpack[EstimateOptions]) -> Estimate:
    """How fast a path is: see `tidegate.estimate`."""
    return _call.estimated(await run_async(_call.estimate(source, destination, options)))


@_call.documented("ls")
async def ls(place: Place, **options: Unpack[LsOptions]) -> list[ListedFile]:
    """What lies in a directory: see `tidegate.ls`."""
    return _call.listed(await run_async(_call.ls(place, options)))


@_call.documented("get")
async def resolve(names: str | Iterable[str], **options: Unpack[GetOptions]) -> list[RemoteFile]:
    """Which files would be got: see `tidegate.resolve`."""
    return _call.resolved(await run_async(_call.resolve(names, options)))


async def hash(path: Place) -> str:
    """The BLAKE3 hash of a file: see `tidegate.hash`."""
    return _call.hashed(await run_async(_call.hash(path)))
