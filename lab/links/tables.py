"""Reading a TOML table by the fields of a class: what is missing, unknown or of the wrong kind is named in one line."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, TypeVar

from lab.links import units

Part = TypeVar("Part")


class ScenarioError(ValueError):
    """Why a scenario was refused: its file, the key, and what is wrong."""


@dataclass(frozen=True)
class Kind:
    """How a value is read, which fails with a ValueError that says why, and how it is written."""

    parse: Callable[[Any], Any]
    shown: Callable[[Any], str]


def checked(parse: Callable[[Any], Any], holds: Callable[[Any], bool], why: str) -> Callable[[Any], Any]:
    def parsed(value: Any) -> Any:
        if not holds(found := parse(value)):
            raise ValueError(why)
        return found
    return parsed


def with_unit(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    def parsed(text: Any) -> Any:
        if not isinstance(text, str):
            raise ValueError(f"must be text with a unit, not {text!r}")
        return parse(text)
    return parsed


def is_number(value: Any, *types: type) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)


def whole(least: int = 0) -> Kind:
    return Kind(checked(lambda value: value, lambda value: is_number(value, int) and value >= least,
                        f"must be a whole number from {least} on"), str)


def number(below: float = float("inf")) -> Kind:
    """A plain number from 0 up to, but not including, `below`."""
    limit = "" if below == float("inf") else f" and less than {below:g}"
    return Kind(checked(lambda value: value, lambda value: is_number(value, int, float) and 0 <= value < below,
                        f"must be at least 0{limit}"), repr)


TEXT = Kind(with_unit(str), lambda text: json.dumps(text, ensure_ascii=False))
RATE = Kind(with_unit(units.rate), lambda bps: f'"{bps}bit/s"')
SIZE = Kind(with_unit(units.size), lambda size: f'"{size}B"')
DURATION = Kind(with_unit(units.duration), lambda seconds: f'"{seconds:.6f}s"')
POSITIVE, SOME = (Kind(checked(kind.parse, lambda value: value > 0, "must be more than 0"), kind.shown)
                  for kind in (RATE, SIZE))
LASTING = Kind(checked(DURATION.parse, lambda seconds: seconds >= 1e-3, "must be at least 1ms"), DURATION.shown)


def key(name: str, kind: "Kind | type", default: Any = MISSING) -> Any:
    """A field with the key it has in a file, `table.key` if it lies deeper, of a kind or a class of such fields."""
    return field(default=default, metadata={"key": name, "kind": kind})


class Table:
    """One table of a file; `done` refuses the keys that nobody asked for."""

    def __init__(self, file: str, name: str, values: object) -> None:
        self.file = file
        self.name = name
        if not isinstance(values, Mapping):
            raise ScenarioError(f"{file}: {name}: must be a table")
        self.values: Mapping[str, Any] = values
        self.asked: set[str] = set()
        self.below: dict[str, Table] = {}

    def key(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key

    def fail(self, key: str, why: str) -> ScenarioError:
        return ScenarioError(f"{self.file}: {self.key(key)}: {why}")

    def that(self, holds: bool, key: str, why: str) -> None:
        if not holds:
            raise self.fail(key, why)

    def has(self, key: str) -> bool:
        self.asked.add(key)
        return key in self.values

    def table(self, key: str) -> "Table":
        """An absent one reads as empty."""
        if key not in self.below:
            self.below[key] = Table(self.file, self.key(key), self.values[key] if self.has(key) else {})
        return self.below[key]

    def tables(self, key: str) -> list["Table"]:
        entries = self.values[key] if self.has(key) else []
        self.that(isinstance(entries, list), key, "must be a list of tables")
        found = {f"{key}[{i}]": entry for i, entry in enumerate(entries)}
        self.below |= {name: Table(self.file, self.key(name), entry) for name, entry in found.items()}
        return [self.below[name] for name in found]

    def value(self, key: str, kind: "Kind | type", default: Any) -> Any:
        if not self.has(key):
            self.that(default is not MISSING, key, "is missing")
            return default
        if isinstance(kind, type):
            return self.table(key).filled(kind)
        try:
            return kind.parse(self.values[key])
        except ValueError as error:
            raise self.fail(key, str(error)) from None

    def filled(self, kind: type[Part]) -> Part:
        """One of that class, by the keys of its fields."""
        found = {}
        for each in dataclasses.fields(kind):  # type: ignore[arg-type]
            if each.metadata:
                where, _, name = each.metadata["key"].rpartition(".")
                table = self.table(where) if where else self
                found[each.name] = table.value(name, each.metadata["kind"], each.default)
        return kind(**found)

    def done(self) -> None:
        for key in self.values:
            self.that(key in self.asked, key, "is not known here")
        for table in self.below.values():
            table.done()


def lines(part: object, within: str = "") -> str:
    """The same fields as a file has them, a key a line; what is None is left out."""
    text = ""
    for each in dataclasses.fields(part):  # type: ignore[arg-type]
        value = getattr(part, each.name)
        if each.metadata and value is not None:
            name, kind = within + each.metadata["key"], each.metadata["kind"]
            text += lines(value, f"{name}.") if isinstance(kind, type) else f"{name} = {kind.shown(value)}\n"
    return text
