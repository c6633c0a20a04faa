"""Copy, get, put, verify, estimate, ls and hash, in this process; `tidegate.aio` has the same for asyncio.

The interpreter's lock is free while a transfer runs. Progress is told, a cancellation heard of and Ctrl-C handled by the
calling thread, ten times a second.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from . import _call
from ._options import CopyOptions, EstimateOptions, GetOptions, LsOptions, PutOptions, VerifyOptions
from ._run import Cancel, ShownProgress, run
from ._values import Place
from .results import Estimate, ListedFile, RemoteFile, TransferResult


@_call.documented("copy")
def copy(
    source: Place | Iterable[Place],
    destination: Place,
    *,
    progress: ShownProgress = None,
    cancel: Cancel | None = None,
    **options: Unpack[CopyOptions],
) -> TransferResult:
    """Copies files and directories, verified and resumable: `tidegate copy`.

    What is interrupted, by `cancel` or by Ctrl-C, continues when the same is called again. Raises a subclass of
    `tidegate.Error` unless everything has arrived.
    """
    return _call.result(run(_call.copy(source, destination, options), progress, cancel))


@_call.documented("verify")
def verify(
    source: Place | Iterable[Place],
    destination: Place,
    *,
    progress: ShownProgress = None,
    cancel: Cancel | None = None,
    **options: Unpack[VerifyOptions],
) -> TransferResult:
    """Compares the files of a copy by content on both sides, and changes nothing: `tidegate verify`.

    Files that are missing or differ are listed by the `failures` of the `IncompleteError` that is raised.
    """
    return _call.result(run(_call.verify(source, destination, options), progress, cancel))


@_call.documented("get")
def get(
    names: str | Iterable[str],
    directory: Place = ".",
    *,
    progress: ShownProgress = None,
    cancel: Cancel | None = None,
    **options: Unpack[GetOptions],
) -> TransferResult:
    """Gets public data by accession, URL (http, https, ftp, s3, gs) or list, verified and resumable: `tidegate get`."""
    return _call.result(run(_call.get(names, directory, options), progress, cancel))


@_call.documented("put")
def put(
    source: Place | Iterable[Place],
    destination: str,
    *,
    progress: ShownProgress = None,
    cancel: Cancel | None = None,
    **options: Unpack[PutOptions],
) -> TransferResult:
    """Puts files and directories into S3 or onto a WebDAV server, verified and resumable: `tidegate put`."""
    return _call.result(run(_call.put(source, destination, options), progress, cancel))


@_call.documented("estimate")
def estimate(
    source: Place, destination: Place, *, cancel: Cancel | None = None, **options: Unpack[EstimateOptions]
) -> Estimate:
    """How many streams a path can use, how fast they are, and how long so many bytes take: `tidegate estimate`.

    What is sampled is sampled by processes of their own, as by the command.
    """
    return _call.estimated(run(_call.estimate(source, destination, options), cancel=cancel))


@_call.documented("ls")
def ls(place: Place, *, cancel: Cancel | None = None, **options: Unpack[LsOptions]) -> list[ListedFile]:
    """What lies in a directory, at an endpoint, at a host that ssh reaches or here, sorted by path: `tidegate ls`.

    With `recursive=True` what lies in its directories as well.
    """
    return _call.listed(run(_call.ls(place, options), cancel=cancel))


@_call.documented("get")
def resolve(names: str | Iterable[str], *, cancel: Cancel | None = None, **options: Unpack[GetOptions]) -> list[RemoteFile]:
    """Which files accessions, URLs and lists come to, and what is known of them, without getting any: `tidegate get --dry-run`.

    Archives and listings are asked; a server is not asked for a file that a URL names.
    """
    return _call.resolved(run(_call.resolve(names, options), cancel=cancel))


def hash(path: Place, *, cancel: Cancel | None = None) -> str:
    """The BLAKE3 hash of a file, here or at an endpoint, in hexadecimal digits: as `b3sum` prints it."""
    return _call.hashed(run(_call.hash(path), cancel=cancel))
