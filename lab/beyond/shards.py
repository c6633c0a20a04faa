"""What is measured, in pieces of two hours at most."""

from collections.abc import Callable, Iterable

from lab.beyond import cases
from lab.beyond.figures import best_fixed
from lab.beyond.rules import CHANGING, FEWER_FIXED, FIXED, HARMING, SEES_ALL, SHARING, rules_for
from lab.grid.case import Case
from lab.grid.engine import Engine, Rule, fixed
from lab.grid.figures import found_in
from lab.grid.run import Cell
from lab.shard import Shard, grid, known, lasting

SWEEP = "beyond-sweep"
# The links of each shard; the rules it takes make it last about as long as the others.
LINKS = {"beyond-links-rtt": cases.RTT[:3], "beyond-links-far": (*cases.RTT[3:], *cases.LOSS),
         "beyond-links-cross": cases.CROSS, "beyond-links-disk": cases.DISKS}
STEPS, SHARES, HARM, HARM_MANY = "beyond-steps", "beyond-shares", "beyond-harm", "beyond-harm-many"
REPEATS = 3
STEP_REPEATS, SHARE_REPEATS, HARM_REPEATS = 5, 3, 3
# To compare what was copied in that time with its source, byte by byte.
COMPARING = 1 / 6
# To train for one link what has to be trained: about 40 s for `ldm`, 80 s for `automdt`.
TRAINING_S = 150.0


def numbers(link: str) -> tuple[int, ...]:
    return FEWER_FIXED if cases.scenario(link).timeline else FIXED


def sweep_cells() -> list[Cell]:
    on = {link: cases.swept(link) for link in cases.LINKS}
    return [Cell(case, Engine(fixed(n), case)) for link, case in on.items() for n in numbers(link)]


def link_cells(links: Iterable[str]) -> list[Cell]:
    """All rules for each link, and the sweep's best fixed number in the same rotation."""
    best, cells = best_fixed(found_in(known(SWEEP), SWEEP)), []
    for link in links:
        case = cases.case(link)
        rules = [*rules_for(link)]
        if link in best:
            rules.append(fixed(best[link]))
        else:
            print(f"left out beyond the papers: the best fixed number on {link}: {SWEEP} must be run first")
        cells += [Cell(case, Engine(rule, case)) for rule in rules]
    return cells


def crossed(made: Iterable[Case], rules: tuple[Rule, ...]) -> list[Cell]:
    return [Cell(case, Engine(rule, case)) for case in made for rule in rules]


def links_shard(name: str, links: tuple[str, ...]) -> Shard:
    runs = [lasts(cases.case(link)) for link in links for _ in range(len(rules_for(link)) + 1)]
    training = TRAINING_S / 60 * sum(link in SEES_ALL for link in links)
    title = f"the default rule against all others: {', '.join(links)}"
    return grid(name, title, lasting(REPEATS, runs) + round(training), lambda: link_cells(links), REPEATS)


def lasts(case: Case) -> float:
    return case.seconds * (1 if case.data is None else 1 + COMPARING)


def crossed_shard(name: str, title: str, made: list[Case], rules: tuple[Rule, ...], repeats: int) -> Shard:
    cells: Callable[[], list[Cell]] = lambda: crossed(made, rules)  # noqa: E731
    return grid(name, title, lasting(repeats, [case.seconds for case in made for _ in rules]), cells, repeats)


SHARDS: tuple[Shard, ...] = (
    grid(SWEEP, "fixed numbers on every link, to find the best",
         lasting(REPEATS, [lasts(cases.swept(link)) for link in cases.LINKS for _ in numbers(link)]), sweep_cells,
         REPEATS),
    *(links_shard(name, links) for name, links in LINKS.items()),
    crossed_shard(STEPS, "links and streams that step down and up", [cases.case(name) for name in cases.STEPS],
                  CHANGING, STEP_REPEATS),
    crossed_shard(SHARES, "two to four transfers on one link", [cases.share(count) for count in cases.TRANSFERS],
                  SHARING, SHARE_REPEATS),
    crossed_shard(HARM, "what a plain TCP flow loses beside us", [cases.harm(name) for name in cases.HARM_ONE], HARMING,
                  HARM_REPEATS),
    crossed_shard(HARM_MANY, "what 4 and 16 plain TCP flows lose beside us",
                  [cases.harm(name) for name in cases.HARM_MANY], HARMING, HARM_REPEATS),
)
