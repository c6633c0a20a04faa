"""What a call says to the command, and what it makes of its answer: the same for those who wait and those who await."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ._run import Place, words
from .errors import UsageError
from .results import Estimate, ListedFile, RemoteFile, TransferResult

Told = list[dict[str, Any]]

# How a run tells of itself is this package's business.
_JSON = {"json": True}


# Options with which a command lists something, and moves nothing that a result could tell of.
_LISTS = ("dry_run", "metadata_only")


def _moving(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a call that tells how a transfer ended."""
    for name in _LISTS:
        if options.get(name):
            raise UsageError(f"{name} is for the command: it gives a list, and not how a transfer ended", "usage")
    return {**options, **_JSON, "quiet": True}


def _places(source: Place | Iterable[Place]) -> list[Place]:
    return [source] if isinstance(source, (str, os.PathLike)) else list(source)


def copy(source: Place | Iterable[Place], destination: Place, options: Mapping[str, Any]) -> list[str]:
    return words("copy", _moving(options), [*_places(source), destination])


def verify(source: Place | Iterable[Place], destination: Place, options: Mapping[str, Any]) -> list[str]:
    return words("verify", {**options, **_JSON}, [*_places(source), destination])


def _names(names: str | Iterable[str]) -> list[str]:
    named = [names] if isinstance(names, str) else list(names)
    if "-" in named:
        raise UsageError("'-' is standard input, which is this program's own: hand over what it lists", "usage")
    return named


def get(names: str | Iterable[str], directory: Place, options: Mapping[str, Any]) -> list[str]:
    return words("get", _moving(options) | {"outdir": directory}, _names(names))


def put(source: Place | Iterable[Place], destination: str, options: Mapping[str, Any]) -> list[str]:
    return words("put", _moving(options), [*_places(source), destination])


def estimate(source: Place, destination: Place, options: Mapping[str, Any]) -> list[str]:
    return words("estimate", {**options, **_JSON}, [source, destination])


def resolve(names: str | Iterable[str], options: Mapping[str, Any]) -> list[str]:
    return words("get", {**options, **_JSON, "dry_run": True}, _names(names))


def ls(place: Place, options: Mapping[str, Any]) -> list[str]:
    return words("ls", {**options, **_JSON}, [place])


def hash(path: Place) -> list[str]:
    return words("hash", _JSON, [path])


def result(told: Told) -> TransferResult:
    return TransferResult.of_json(told[-1])


def estimated(told: Told) -> Estimate:
    return Estimate.of_json(told[-1])


def listed(told: Told) -> list[ListedFile]:
    return [ListedFile.of_json(line) for line in told]


def resolved(told: Told) -> list[RemoteFile]:
    return [RemoteFile.of_json(line) for line in told]


def hashed(told: Told) -> str:
    blake3: str = told[-1]["blake3"]
    return blake3
