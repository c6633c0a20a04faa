"""GridFTP jobs under rules, on the page: what restarts cost, and whether a rule makes up for them."""

from lab.eos.adaptive import (BEST, BYTES, CAP_MBIT, COUNTS, FAR_S, LINK_MBIT, MB, MOST, MOVERS, RULES, SHARD, SLICED, WHOLE,
                              places_of, row_of)
from lab.eos.found import Cells, Found, middle
from lab.pages.parts import ABSENT, Bar, mbit, table


def quotient(cells: Cells, row: str, above: str, below: str) -> float | None:
    """Of median rates, that is of times the other way round."""
    there = cells.get(row, {})
    return middle(there[below]) / middle(there[above]) if above in there and below in there else None


def judged(found: Found) -> list[Bar]:
    """Nothing was asked for: what the restarts cost is shown."""
    cells = found.of(SHARD)
    return [Bar(f"GridFTP jobs, {row}: {BEST} connections in slices ÷ in one run", "", f"{share:.2f}", None,
                min(len(cells[row][mover]) for mover in (SLICED, WHOLE)))
            for row in cells if (share := quotient(cells, row, SLICED, WHOLE)) is not None]


def section(found: Found) -> str:
    head = (f"## GridFTP jobs whose connections a rule chooses\n\nA rule can change `-p` only by beginning "
            f"`globus-url-copy` anew, slice by slice. {BYTES // MB} MB by jobs of the service over {LINK_MBIT} Mbit/s, "
            f"{CAP_MBIT} Mbit/s a connection, without delay and at {FAR_S * 1e3:g} ms. `{WHOLE}` is one run with `-p {BEST}`, "
            f"which a hand must know; `{SLICED}` begins with as many and looks again after an hour, so that only the restarts "
            f"differ; no job may have more than {MOST} connections. "
            f"`python3 -m lab run {SHARD}` measures it; every copy is compared with "
            "its source. A job's time has the servers' checksums in it, which it compares itself. "
            "Not shown: servers under load, logins that cost certificates, and real disks.\n\n")
    cells = found.of(SHARD)
    rows = []
    for row in (row_of(place, kind) for place in places_of() for kind in COUNTS):
        for mover in (name for name in MOVERS if name in cells.get(row, {})):
            runs = cells[row][mover]
            share = quotient(cells, row, mover, WHOLE)
            rows.append([row, f"`{mover}`", f"{middle(runs):.1f}", mbit(middle(runs, lambda run: run.rate_bps)),
                         f"{middle(runs, lambda run: run.notes['summary']['streams_mean']):.1f}",
                         "" if share is None else f"{share:.2f}", str(len(runs))])
    if not rows:
        return head + ABSENT
    lost = [f"{row}: {100 * (1 - share):.0f} %" for row in cells
            if (share := quotient(cells, row, SLICED, WHOLE)) is not None]
    rules = [f"{row}, `{rule}`: {share:.2f}" for row in cells for rule in RULES
             if (share := quotient(cells, row, rule, WHOLE)) is not None]
    said = f"The restarts cost {'; '.join(lost)}.\n" if lost else ""
    said += f"Rules beside the best number in one run: {'; '.join(rules)}.\n" if rules else ""
    return f"{head}{table(['path, data', 'rule', 's', 'Mbit/s', 'connections', f'÷ `{WHOLE}`', 'n'], rows)}{said}"
