"""Quantities written with their unit, as the program itself reads them: bit/s, bytes, seconds."""

import re
from collections.abc import Mapping

BITS = {"bit": 1, "b": 1, "kbit": 10**3, "kb": 10**3, "mbit": 10**6, "mb": 10**6, "gbit": 10**9, "gb": 10**9,
        "tbit": 10**12, "tb": 10**12}
BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "pb": 10**15,
         **{letter + end: 1 << 10 * power for power, letter in enumerate("kmgtp", 1) for end in ("", "ib")}}
SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def split(text: str, quantity: str, example: str) -> tuple[float, str]:
    found = re.fullmatch(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*([^\W\d]+(?:/s)?)\s*", text)
    if found is None:
        raise ValueError(f"'{text}' is not a {quantity}: write {example}")
    return float(found[1]), found[2]


def rate(text: str) -> int:
    """In bit/s. `MB/s` is bytes to many and bits to some: refused rather than guessed."""
    example = "a number with a unit in bits, as in 200Mbit/s or 10Gbit/s"
    number, unit = split(text, "rate", example)
    bare = unit.lower().removesuffix("/s") if unit.lower().endswith("/s") else unit.lower().removesuffix("ps")
    if bare == unit.lower() or bare not in BITS or (unit.endswith("B/s") and not bare.endswith("bit")):
        raise ValueError(f"'{text}' is not a rate: write {example}")
    return round(number * BITS[bare])


def counted(text: str, units: Mapping[str, float], quantity: str, example: str) -> float:
    number, unit = split(text, quantity, example)
    if unit.lower() not in units:
        raise ValueError(f"'{text}' is not a {quantity}: write {example}")
    return number * units[unit.lower()]


def size(text: str) -> int:
    """In bytes."""
    return round(counted(text, BYTES, "size", "a number with a unit, as in 256MiB or 10GB"))


def duration(text: str) -> float:
    """In seconds."""
    return counted(text, SECONDS, "time", "a number with a unit, as in 20ms, 1.5s or 2min")


def shown(bps: float) -> str:
    """A rate as a table shows it and as the program's options read it."""
    for limit, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if bps >= limit:
            return f"{bps / limit:.4g}{unit}"
    return f"{bps:.0f}bit/s"
