"""The arguments of a call as values of the command's options, each checked by its type before anything runs.

What is of another type than an option has is a `TypeError`: as a text it could mean something else, and have something
removed that was to stay.
"""

from __future__ import annotations

import json
import math
import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from numbers import Real
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from ._units import Unit
from .errors import UsageError

Place = str | os.PathLike[str]
"""A path of this host, or what the command takes for a place: `tg://…`, `name:/path`, `user@host:path`, a URL."""

# Rules of which the first that fits counts.
_ORDERED = "filter"

# What is a rule, too.
_RULES = ("exclude", "include", "exclude_from", "include_from", _ORDERED)

# The most values of one option, and the most sources.
MAX_VALUES = 1_000_000

# The type of a path object that stands where a place of another host could.
_PLACE = object()

_NAMES: dict[object, str] = {
    _PLACE: "a path",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a text",
    os.PathLike: "a path",
    timedelta: "a timedelta",
    datetime: "a datetime",
    Callable: "a function",
}


def values(command: str, declared: type, given: Mapping[str, Any], without: Iterable[str] = ()) -> dict[str, Any]:
    """What `given` says, by the types that `declared`, a TypedDict, has: numbers, switches that are on, texts and lists of them."""
    known = _types(declared)
    said: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known or name in without:
            raise UsageError(f"{command} has no option {name!r} (see `tidegate {command} --help`)", "usage")
        kinds, repeats = known[name]
        if kinds == (bool,):
            if flag(name, value):
                said[name] = True
        elif repeats:
            said[name] = _several(name, kinds, value)
        elif (text := _text(kinds, value)) is not None:
            said[name] = int(text) if kinds == (int,) else float(text) if kinds == (float,) else text
        else:
            raise _wrong(name, kinds, False, value)
    return said


def as_json(said: Mapping[str, Any]) -> str:
    """The same as the command reads it from a program; rules are one list, in their order."""
    plain: dict[str, Any] = {}
    for name, value in said.items():
        if name in _RULES:
            plain.setdefault(_ORDERED, []).extend(_plain(rule) if name == _ORDERED else {name: _plain(rule)} for rule in value)
        else:
            plain[name] = [_plain(one) for one in value] if isinstance(value, list) else _plain(value)
    return json.dumps(plain)


def _plain(value: Any) -> Any:
    """A value as JSON has it: the bytes of a name that is no UTF-8, and what is no number as a text."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return list(os.fsencode(value))
    return value


def in_keywords(message: str, declared: type) -> str:
    """What the command says of its options, in the words of a call: `--max-workers <N>` is max_workers."""

    def keyword(found: re.Match[str]) -> str:
        name = found[1].replace("-", "_")
        return name if name in _types(declared) else found[0]

    # What is quoted as a command to be typed stays one.
    parts = message.split("`")
    parts[::2] = [_OPTION.sub(keyword, part) for part in parts[::2]]
    return "`".join(parts)


_OPTION = re.compile(r"(?<![\w/-])--([a-z0-9][a-z0-9-]*)(?: <[^>]*>)?")


def flag(name: str, value: object) -> bool:
    """A switch, which neither a text nor a number is."""
    if not isinstance(value, bool):
        raise _wrong(name, (bool,), False, value)
    return value


def whole(name: str, value: object) -> int:
    """A whole number."""
    text = _text((int,), value)
    if text is None:
        raise _wrong(name, (int,), False, value)
    return int(text)


def place(name: str, value: object) -> str:
    """A place."""
    kinds = (str, _PLACE)
    text = _text(kinds, value)
    if text is None:
        raise _wrong(name, kinds, False, value)
    return text


def places(name: str, value: object) -> list[str]:
    """One place, or several."""
    return _several(name, (str, _PLACE), value)


def texts(name: str, value: object) -> list[str]:
    """One text, or several."""
    return _several(name, (str,), value)


def text(name: str, value: object) -> str:
    """A text, and no path: what is none of this host would lose its slashes in one."""
    said = _text((str,), value)
    if said is None:
        raise _wrong(name, (str,), False, value)
    return said


def three(name: str, value: Iterable[Any]) -> list[int]:
    """Numbers of workers, in their order: which a set, the keys of a mapping and bytes have not."""
    if isinstance(value, (str, bytes, bytearray, memoryview, set, frozenset, Mapping)):
        raise TypeError(f"{name} must be three whole numbers, not {type(value).__name__}")
    return [whole(name, number) for number in value]


@cache
def _types(declared: type) -> dict[str, tuple[tuple[object, ...], bool]]:
    """The types of each option's value, and whether there may be several."""
    return {name: _read(hint) for name, hint in get_type_hints(declared, include_extras=True).items()}


def _read(hint: Any) -> tuple[tuple[object, ...], bool]:
    if get_origin(hint) is Literal:
        return (str,), False
    one = isinstance(hint, type) and get_origin(hint) is None
    kinds = tuple(_kind(member) for member in ((hint,) if one else get_args(hint)))
    return tuple(kind for kind in kinds if kind is not Iterable), Iterable in kinds


def _kind(member: Any) -> object:
    return member.__metadata__[0] if get_origin(member) is Annotated else get_origin(member) or member


def _several(name: str, kinds: tuple[object, ...], value: Any) -> list[str]:
    one = _text(kinds, value)
    if one is not None:
        return [one]
    # Bytes are numbers, a mapping would lose its values, and lines of a file end with what ends lines.
    if isinstance(value, (bytes, bytearray, memoryview, Mapping)) or hasattr(value, "read"):
        raise _wrong(name, kinds, True, value)
    try:
        values = list(islice(value, MAX_VALUES + 1))
    except TypeError as error:
        if hasattr(value, "__next__"):
            raise
        raise _wrong(name, kinds, True, value) from error
    if len(values) > MAX_VALUES:
        raise UsageError(f"{name} has more than {MAX_VALUES} values", "usage")
    found = [_text(kinds, one) for one in values]
    said = [one for one in found if one is not None]
    if len(said) < len(values):
        raise _wrong(name, kinds, True, values[found.index(None)])
    if isinstance(value, (set, frozenset)):
        if name == _ORDERED and len(said) > 1:
            raise TypeError(f"{name}: rules count in their order, and a set has none: give a list")
        said.sort()
    return said


def _text(kinds: tuple[object, ...], value: Any) -> str | None:
    """How the command has a value, if it is of one of the types."""
    if isinstance(value, str):
        # What an enumeration of texts shows is its name.
        return _sayable(str.__str__(value)) if str in kinds else None
    if isinstance(value, bool):
        return None
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)}us" if timedelta in kinds else None
    if isinstance(value, datetime):
        return _moment(value) if datetime in kinds else None
    if isinstance(value, os.PathLike):
        path = os.fspath(value)
        if not isinstance(path, str):
            return None
        return _local(_sayable(path)) if _PLACE in kinds else _sayable(path) if os.PathLike in kinds else None
    if int in kinds and hasattr(value, "__index__"):
        try:
            return str(int(operator.index(value)))
        except TypeError:
            return None
    if not isinstance(value, Real):
        return None
    unit = next((kind for kind in kinds if isinstance(kind, Unit)), None)
    return unit.said(float(value)) if unit is not None else repr(float(value)) if float in kinds else None


def _sayable(text: str) -> str:
    """A text that is as it stands in a command line; no name of a file is another one."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise UsageError(f"{text!a} is no text that a file or an option can have: {error.reason}", "usage") from error
    if "\0" in text:
        raise UsageError(f"{text!a} is no text that a file or an option can have: it has a NUL", "usage")
    return text


def _moment(value: datetime) -> str:
    """A point in time with its zone; without one it is local time, as Python has it."""
    try:
        return value.astimezone(UTC).isoformat()
    except (OSError, OverflowError, ValueError) as error:
        raise UsageError(f"{value} is no time that files have: {error}", "usage") from error


def _local(path: str) -> str:
    """A path object, which is of this host, whatever the command would take its text for."""
    if ":" not in path.partition("/")[0]:
        return path
    if not os.path.lexists(path):
        raise UsageError(f"{path} is a path object, and not there: give a text for another host, or './{path}'", "usage")
    return f"./{path}"


def _wrong(name: str, kinds: tuple[object, ...], repeats: bool, value: object) -> TypeError | UsageError:
    units = [kind for kind in kinds if isinstance(kind, Unit)]
    if units and isinstance(value, Real) and not isinstance(value, bool):
        return UsageError(f"{name} must be {units[0].named}, 0 or more, not {value}", "usage")
    wanted = " or ".join(kind.named if isinstance(kind, Unit) else _NAMES[kind] for kind in kinds)
    several = ", or several of them" if repeats else ""
    given = "None" if value is None else repr(value) if isinstance(value, bool) else type(value).__name__
    return TypeError(f"{name} must be {wanted}{several}, not {given}")
