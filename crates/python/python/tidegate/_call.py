"""What a call says to the command, and what it makes of its answer: the same for those who wait and those who await."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypedDict, TypeVar

from ._asked import Rule, is_rule
from ._core import Run
from ._options import PARTS, CopyOptions, EstimateOptions, GetOptions, LsOptions, PutOptions, VerifyOptions
from ._values import Place, as_json, place, places, text, texts, values
from .errors import UsageError
from .results import Estimate, ListedFile, RemoteFile, TransferResult

Told = list[dict[str, Any]]

# Options with which a command lists something, and moves nothing that a result could tell of.
_LISTS = ("dry_run", "metadata_only")


F = TypeVar("F")


def documented(command: str) -> Callable[[F], F]:
    """Has the docstring of a function tell the options of `command`, and what holds without them."""

    def tell(function: F) -> F:
        parts = [inspect.getdoc(part) or "" for part in PARTS[command]]
        options = "\n".join(part.partition("\n\n")[2] for part in parts)
        function.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nOptions:\n\n{options}\n"
        return function

    return tell


# What has its options in no TypedDict has none.
_NONE = TypedDict("_NONE", {})


@dataclass(frozen=True)
class Call:
    """A command with its options as values, what it is about, and what it is asked by."""

    command: str
    options: dict[str, Any]
    places: list[str]
    declared: type = _NONE
    """The types of its options."""
    rule: Rule | None = None
    """What decides in this process, if something does."""
    directory: str | None = None
    """Where it goes, if that is none of the places."""
    is_between: bool = True
    """Whether it is from some places to another."""

    def begin(self, optimizer: str | None, over: Callable[[], None] | None) -> Run:
        """Begins it, by the rule `optimizer` if there is one; `over` is called when it has ended."""
        said = self.options if optimizer is None else {**self.options, "optimizer": optimizer}
        sources, destination = self.places, self.directory
        if self.is_between and destination is None:
            *sources, destination = sources
        return Run(self.command, sources, destination, as_json(said), over)


def _of(
    command: str,
    declared: type,
    options: Mapping[str, Any],
    own: Mapping[str, Any],
    places: list[str],
    directory: str | None = None,
) -> Call:
    """A call; `own` is what this package says besides what the caller has."""
    given, rule = dict(options), None
    if "optimizer" in declared.__annotations__ and is_rule(given.get("optimizer")):
        rule = given.pop("optimizer")
    return Call(command, {**values(command, declared, given), **own}, places, declared, rule, directory)


def _moves(options: Mapping[str, Any]) -> None:
    """Holds that a command will tell how a transfer ended."""
    for name in _LISTS:
        if name in options:
            raise UsageError(f"{name} is for the command: it gives a list, and not how a transfer ended", "usage")


def copy(source: Place | Iterable[Place], destination: Place, options: Mapping[str, Any]) -> Call:
    _moves(options)
    where = [*places("source", source), place("destination", destination)]
    return _of("copy", CopyOptions, options, {}, where)


def verify(source: Place | Iterable[Place], destination: Place, options: Mapping[str, Any]) -> Call:
    where = [*places("source", source), place("destination", destination)]
    return _of("verify", VerifyOptions, options, {}, where)


def _names(names: str | Iterable[str]) -> list[str]:
    named = texts("names", names)
    if "-" in named:
        raise UsageError("'-' is standard input, which is this program's own: hand over what it lists", "usage")
    return named


def get(names: str | Iterable[str], directory: Place, options: Mapping[str, Any]) -> Call:
    _moves(options)
    return _of("get", GetOptions, options, {}, _names(names), place("directory", directory))


def put(source: Place | Iterable[Place], destination: str, options: Mapping[str, Any]) -> Call:
    _moves(options)
    where = [*places("source", source), text("destination", destination)]
    return _of("put", PutOptions, options, {}, where)


def estimate(source: Place, destination: Place, options: Mapping[str, Any]) -> Call:
    where = [place("source", source), place("destination", destination)]
    return _of("estimate", EstimateOptions, options, {}, where)


def resolve(names: str | Iterable[str], options: Mapping[str, Any]) -> Call:
    return _of("get", GetOptions, options, {"dry_run": True}, _names(names), ".")


def ls(where: Place, options: Mapping[str, Any]) -> Call:
    return replace(_of("ls", LsOptions, options, {}, [place("place", where)]), is_between=False)


def hash(path: Place) -> Call:
    return Call("hash", {}, [place("path", path)], is_between=False)


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
