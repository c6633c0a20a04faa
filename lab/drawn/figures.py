"""What runs on random links say beside the oracle, the best of the short sweep on each part of a link."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.drawn import oracle
from lab.drawn.cases import Link, Part
from lab.grid.engine import Rule
from lab.grid.figures import Found, found_in, medians
from lab.grid.stretch import goodput, workers
from lab.ground.results import Record

# The least number of workers that is as good as the best is the oracle's.
AS_GOOD = 0.98
# How much of a part is left out at its start, of a sweep's run too.
SETTLING = 0.5


@dataclass(frozen=True)
class Oracle:
    """On one part of a link."""

    bps: float
    mover: str

    @property
    def workers(self) -> int:
        return oracle.workers(self.mover)


@dataclass(frozen=True)
class Judged:
    """One rule on one link: shares of what the oracle has there, and workers by the oracle's."""

    whole: float
    # From the change on.
    changed: float
    # In the late half of each part.
    settled: float
    workers: float
    settled_workers: float
    bps: float
    count: int


def merged(records: Mapping[str, Sequence[Record]]) -> Found:
    """Of all shards: some links are run again in another."""
    found: Found = {}
    for shard, there in records.items():
        for link, movers in found_in(there, shard).items():
            for mover, runs in movers.items():
                found.setdefault(link, {}).setdefault(mover, []).extend(runs)
    return found


def sweep(part: Part, found: Found) -> tuple[Rule, ...]:
    """What is to be run of it, as far as can be told: what was tried by what the scenario says, and twice as many while the
    most are the best by far, as where a queue is so short that few streams do not fill the link."""
    rules = list(part.tried)
    while (late := late_rates(part, rules, found)) is not None:
        *fewer, most = late.values()
        more = oracle.rule(oracle.twice(oracle.numbers_of(rules[-1].name)))
        if most < AS_GOOD * oracle.full_bps(part.swept.scenario) and AS_GOOD * most > max(fewer) and more != rules[-1]:
            rules.append(more)
        else:
            break
    return tuple(rules)


def late_rates(part: Part, rules: Sequence[Rule], found: Found) -> dict[str, float] | None:
    """What each moves in the late half of its run, in bit/s; None until all were run."""
    there = found.get(part.swept.name, {})
    if any(rule.name not in there for rule in rules):
        return None
    end = part.swept.seconds
    late = {rule.name: medians(there[rule.name], lambda run: goodput(run, SETTLING * end, end)) for rule in rules}
    # What writers do of what was staged before comes in gushes that pass for more than the link carries.
    return {mover: min(bps, oracle.most_bps(part.swept.scenario, mover)) for mover, bps in late.items()}


def oracle_of(part: Part, found: Found) -> Oracle | None:
    """None until all of its sweep was run."""
    late = late_rates(part, sweep(part, found), found)
    if late is None:
        return None
    best = max(late.values())
    good = [mover for mover, bps in late.items() if bps >= AS_GOOD * best]
    return Oracle(best, min(good, key=oracle.workers)) if best > 0 else None


def oracles(link: Link, found: Found) -> list[Oracle] | None:
    there = [oracle_of(part, found) for part in link.parts]
    known = [each for each in there if each is not None]
    return known if len(known) == len(there) else None


def judged(link: Link, found: Found, mover: str) -> Judged | None:
    """None where the mover or the sweep was not run; medians where it was run more than once."""
    runs, known = found.get(link.case.name, {}).get(mover), oracles(link, found)
    if not runs or known is None:
        return None
    late = [(part.end_s - SETTLING * (part.end_s - part.begin_s), part.end_s) for part in link.parts]
    whole = [(part.begin_s, part.end_s) for part in link.parts]

    def share(spans: Sequence[tuple[float, float]], theirs: Sequence[float], of: object) -> float:
        lengths = [end - begin for begin, end in spans]
        best = sum(length * each for length, each in zip(lengths, theirs))
        ours = medians(runs, lambda run: sum(length * of(run, *span)  # type: ignore[operator]
                                            for length, span in zip(lengths, spans)))
        return ours / best

    rates, numbers = [each.bps for each in known], [float(each.workers) for each in known]
    return Judged(share(whole, rates, goodput), share(whole[-1:], rates[-1:], goodput), share(late, rates, goodput),
                  share(whole, numbers, workers), share(late, numbers, workers),
                  medians(runs, lambda run: goodput(run, 0.0, link.case.seconds)), len(runs))


def standing(links: Sequence[Link], found: Found, mover: str) -> dict[int, Judged]:
    """By the place of the link, those that were run."""
    made = {link.index: judged(link, found, mover) for link in links}
    return {index: each for index, each in made.items() if each is not None}
