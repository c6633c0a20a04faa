"""Reading a TOML table key by key: what is missing, unknown or of the wrong kind is named in one line."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from lab.links import units

Value = TypeVar("Value")
# For a key that must be there.
REQUIRED: Any = object()


class ScenarioError(ValueError):
    """Why a scenario was refused: its file, the key, and what is wrong."""


class Table:
    """One table of a file; `done` refuses the keys that nobody asked for."""

    def __init__(self, file: str, name: str, values: object) -> None:
        self.file = file
        self.name = name
        if not isinstance(values, Mapping):
            raise ScenarioError(f"{file}: {name}: must be a table")
        self.values: Mapping[str, Any] = values
        self.asked: set[str] = set()

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

    def table(self, key: str, required: bool = False) -> "Table":
        """An absent one reads as empty."""
        if not self.has(key) and required:
            raise self.fail(key, "is missing")
        return Table(self.file, self.key(key), self.values.get(key, {}))

    def tables(self, key: str) -> list["Table"]:
        entries = self.values.get(key, []) if self.has(key) else []
        self.that(isinstance(entries, list), key, "must be a list of tables")
        return [Table(self.file, f"{self.key(key)}[{i}]", entry) for i, entry in enumerate(entries)]

    def written(self, key: str, parse: Callable[[str], Value], default: Value) -> Value:
        if not self.has(key):
            if default is REQUIRED:
                raise self.fail(key, "is missing")
            return default
        text = self.values[key]
        self.that(isinstance(text, str), key, f"must be text with a unit, not {text!r}")
        try:
            return parse(text)
        except ValueError as error:
            raise self.fail(key, str(error)) from None

    def text(self, key: str) -> str:
        text: str = self.written(key, str, REQUIRED)
        return text

    def rate(self, key: str, default: int | None = REQUIRED) -> Any:
        return self.written(key, units.rate, default)

    def positive(self, key: str, default: int | None = REQUIRED) -> Any:
        bps = self.rate(key, default)
        self.that(bps is None or bps > 0, key, "must be more than 0")
        return bps

    def size(self, key: str, default: int = REQUIRED) -> int:
        return self.written(key, units.size, default)

    def duration(self, key: str, default: float | None = REQUIRED) -> Any:
        return self.written(key, units.duration, default)

    def whole(self, key: str, default: int | None = REQUIRED, least: int = 0) -> Any:
        number = self.values.get(key, default) if self.has(key) else default
        if number is REQUIRED:
            raise self.fail(key, "is missing")
        good = number is default or (isinstance(number, int) and not isinstance(number, bool) and number >= least)
        self.that(good, key, f"must be a whole number from {least} on")
        return number

    def number(self, key: str, default: float | None, below: float = float("inf")) -> Any:
        """A plain number from 0 up to, but not including, `below`."""
        number = self.values.get(key, default) if self.has(key) else default
        good = isinstance(number, (int, float)) and not isinstance(number, bool) and 0 <= number < below
        limit = "" if below == float("inf") else f" and less than {below:g}"
        self.that(number is default or good, key, f"must be at least 0{limit}")
        return number

    def done(self) -> None:
        for key in self.values:
            self.that(key in self.asked, key, "is not known here")
