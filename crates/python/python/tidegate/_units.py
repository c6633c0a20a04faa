"""Quantities with a unit that is plain where a number is given for them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated


@dataclass(frozen=True)
class Unit:
    """What a number is of, its unit in the command's words, and how many decimals of it count."""

    named: str
    short: str
    decimals: int

    def said(self, number: float) -> str | None:
        """A number as the command has it; None for what is no quantity."""
        # An infinite one, and what is no number, are not within it either.
        if not 0 <= number < _MOST:
            return None
        # What is something does not become nothing: no time at all often means another thing than a short one.
        steps = max(round(number * 10**self.decimals), int(number > 0))
        return f"{Decimal(steps).scaleb(-self.decimals).normalize():f}{self.short}"


# More than any quantity that the command takes.
_MOST = 2.0**63

Seconds = Annotated[float, Unit("a number of seconds", "s", 6)]
BitsPerSecond = Annotated[float, Unit("a number of bit/s", "bit/s", 0)]
Bytes = Annotated[float, Unit("a number of bytes", "B", 0)]
