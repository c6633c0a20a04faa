"""What a page says of the runs themselves: on what machine, by what program and when, and which failed."""

from collections.abc import Iterable, Sequence

from lab import install
from lab.ground.results import Record


def measured_on(records: Sequence[Record]) -> str:
    """Machine, program and dates; the program is named once where it was the same throughout."""
    good = [record for record in records if record.ok]
    if not good:
        return f"{install.describe()}. Nothing has been measured yet."
    builds = sorted({record.version for record in good if record.version.startswith("tidegate")})
    days = sorted({record.time[:10] for record in good})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"{install.describe()}. {'; '.join(builds) or 'The program is not named'}. {when}."


def failures(records: Iterable[Record]) -> str:
    failed = [record for record in {r.key: r for r in records}.values() if not record.ok]
    if not failed:
        return ""
    lines = (f"- {r.set}, {r.contender}, repeat {r.repeat + 1}: {r.error}\n" for r in failed)
    return "Runs that failed and are not counted:\n\n" + "".join(lines) + "\n"
