"""Predictions judged live, on the page."""

import statistics

from lab.eos.answers import Asked, answers, off
from lab.eos.found import Found
from lab.eos.paths import ONCE_S, SAMPLERS
from lab.eos.predicted import SHARD, START_S, links
from lab.links.scenario import Scenario
from lab.pages.parts import ABSENT, Bar, csv, mbit, table

MEDIAN, P95 = 0.05, 0.15
HEADS = ("link", "sampler", "streams", "Mbit/s predicted", "Mbit/s achieved", "off by", "advice ÷ best of it and its neighbours",
         "above the best sample by", "noise of that sample", "n")


def share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def described(link: Scenario) -> str:
    stream = min(link.network.worker_bps, link.link.rate_bps)
    return f"{link.name} ({mbit(link.link.rate_bps)}, {mbit(stream)} a connection, {link.link.rtt_s * 1e3:g} ms)"


def row(each: Asked) -> list[str]:
    middle = statistics.median
    return [{link.name: described(link) for link in links()}.get(each.link, each.link), each.sampler,
            ", ".join(str(run.notes["streams"]) for run in each.runs),
            mbit(middle(run.notes["predicted_bps"] for run in each.runs)), mbit(middle(map(each.achieved, each.runs))),
            ", ".join(f"{100 * error:+.1f} %" for error in each.errors), f"{min(each.shares, default=0.0):.2f}",
            share(each.excess), share(each.noise), str(len(each.runs))]


def judged(found: Found) -> list[Bar]:
    bars = []
    there = answers(found.of(SHARD))
    for sampler in SAMPLERS:
        own = [each for each in there if each.sampler == sampler.name and each.errors]
        if not own:
            continue
        count = sum(len(each.runs) for each in own)
        where = f"predictions by {sampler.name} on {len(own)} of {len(links())} links"
        middle, late = off(own, 0.5), off(own, 0.95)
        bars += [Bar(f"{where}: off by, median", f"≤ {100 * MEDIAN:g} %", share(middle), middle <= MEDIAN, count),
                 Bar(f"{where}: off by, 95th percentile", f"≤ {100 * P95:g} %", share(late), late <= P95, count)]
        known = [each for each in own if each.beyond is not None]
        beyond = [each.link for each in known if each.beyond]
        bars.append(Bar(f"{where}: answers above the best sample by more than its noise", "none",
                        (", ".join(beyond) or "none") if known else "noise not known from one repeat",
                        not beyond if known else None, sum(len(each.runs) for each in known) or count))
    return bars


def section(found: Found, beside: dict[str, str]) -> str:
    head = (f"## Predicted and achieved\n\nEach sampler is asked with no history, for 10 GiB, on a link that is built for "
            f"it; then the advice and a number on either side of it (a third fewer, half as many more) are run for "
            f"{ONCE_S:g} s each with the same tool, after {START_S:g} s that do not count: of 10 GiB, which take minutes "
            f"and more, slow start is next to nothing, and so is the end, when streams finish one after the other. GridFTP "
            f"tells no more than how long a transfer took, so there what arrives is counted at the interface. `python3 -m lab run {SHARD}` measures it. Off by is "
            "predicted ÷ achieved, less one, of each answer. The noise is how far the best samples of the repeats lie "
            "apart. Not shown: paths that change, or that others use, between the answer and the transfer.\n\n")
    there = answers(found.of(SHARD))
    if not there:
        return head + ABSENT
    rows = [row(each) for each in there]
    beside["eos-predictions.csv"] = csv(HEADS, rows)
    missing = [link.name for link in links() if link.name not in {each.link for each in there}]
    said = f"Not measured yet: {', '.join(missing)}.\n\n" if missing else ""
    return f"{head}{table(HEADS, rows)}{said}Every row of this table is in [eos-predictions.csv](eos-predictions.csv).\n"
