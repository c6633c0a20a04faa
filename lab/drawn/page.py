"""docs/results/beyond-random.md: the bars, all rules beside the oracle, and every link."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from lab.drawn.bars import LOW_SHARE, bars
from lab.drawn.cases import Link, links
from lab.drawn.choice import CHOICE, Choice
from lab.drawn.draw import LOSSY_BPS, MAX_WORKERS, MOST_QUEUE_BYTES
from lab.drawn.figures import AS_GOOD, Judged, merged, oracles, standing
from lab.drawn.shards import AGAIN, FURTHER, PAGE, SHARDS, WORST, WORST_REPEATS
from lab.grid.figures import Found
from lab.grid.remarks import failures, measured_on
from lab.grid.show import raw
from lab.ground.results import Record
from lab.ground.stats import percentile
from lab.links.built import FEW_SUPER_PACKETS, MAX_SINGLE_BPS
from lab.pages import curve, plot
from lab.pages.parts import csv, image, mbit, measured_bars, measured_table
from lab.shard import Page, known

GREEN = "#009e73"
COLOURS = (plot.BLUE, plot.ORANGE, plot.SKY, plot.BLACK, GREEN)
# By the name of a rule, then by the place of a link.
Standing = Mapping[str, Mapping[int, Judged]]
HEADS = ("goodput ÷ oracle's: whole run", "from the change on", "late halves", "workers ÷ oracle's: whole run",
         "workers, late halves")


def head(choice: Choice) -> str:
    return f"""# Random links

Made by `python3 -m lab report`; do not edit by hand. `python3 -m lab run {PAGE}` measures it.

Links drawn from the seed {choice.seed}, evenly on a logarithmic scale: 10 Mbit/s to 3 Gbit/s, 0.2 to 200 ms, a queue of
0.2 to 5 times rate × round trip. Two thirds have a cap for each stream (1.5 to 24 fill the link), a third random loss
(0.001 to 1 %), half of them files of up to 64 MB in place of memory, and half of these slow readers, half slow writers
(1.5 to 16 are needed). In the middle of a run one thing changes by a factor of 1.25 to 3.3: the rate, the round trip,
the cap or the loss. At most {MAX_WORKERS} workers a stage. Every rule runs once for {choice.seconds:g} s on each link,
and another one is the first on the next.

The **oracle** is found in the same rotation: some fixed numbers of workers near what the scenario asks for run
{choice.sweep_s:g} s each on the link as it is before the change and as it is after it; as long as a rule runs where random loss
is what holds a stream back, since its window then shrinks for longer. Where the most of them are the best by more than
{100 * (1 - AS_GOOD):.2g} %, and the link carries more, twice as many run too (`python3 -m lab run {FURTHER}`). The best rate of the late
halves counts, and the least workers within {100 * (1 - AS_GOOD):.2g} % of it; but no more than those workers or the link
can move by their limits: some seconds' writes of what was staged before came to as much as a fifth more than the link
carries. A rule's whole run, its start and all it needed to notice the change, is held against that steady rate; so is
the late half of each part.

What arrives at the receiver's device counts, headers left out; of files, what our own log says was written. Round trips
are 0.1 to 0.2 ms longer than drawn. What this machine cannot do is left out of the draw: random loss and files above
{LOSSY_BPS / 1e9:g} Gbit/s, queues of more than {MOST_QUEUE_BYTES >> 20} MiB or of less than a millisecond or 16 packets,
others on the link, and disks that change on the way. Loss falls on single packets, both ways. Packets pass one by one
too where the queue holds less than {FEW_SUPER_PACKETS >> 10} KiB and the link carries at most {MAX_SINGLE_BPS / 1e9:g} Gbit/s; elsewhere TCP's super-packets
of up to 64 KiB, which enter a queue whole.

"""


# Processors that others used in the median run from which on it is said.
BUSY_CPUS = 0.1


def busy(records: Sequence[Record]) -> str:
    """Says so where the machine did something else meanwhile."""
    used = [record.notes["noise"]["other_cpus"] for record in records if "noise" in record.notes]
    if not used or statistics.median(used) < BUSY_CPUS:
        return ""
    return (f"The machine was not quiet: in the median run others used {statistics.median(used):.2g} of its processors. "
            "Where links take all of them, runs and their oracle are slower for it, and not alike.\n\n")


def page(records: Mapping[str, Sequence[Record]] | None = None, choice: Choice = CHOICE) -> Page:
    """From what was measured so far."""
    if records is None:
        records = {shard.name: known(shard.name) for shard in SHARDS}
    asked = links(choice)
    names = {case.name for link in asked for case in (link.case, *(part.swept for part in link.parts))}
    records = {shard: [record for record in there if record.set in names] for shard, there in records.items()}
    every, found = [record for there in records.values() for record in there], merged(records)
    by_rule = {rule.name: standing(asked, found, rule.name) for rule in choice.rules}
    by_rule = {rule: there for rule, there in by_rule.items() if there}
    own = by_rule.get(choice.own.name, {})
    beside = {f"{PAGE}{end}.svg": svg for end, value in (("", whole), ("-late", settled))
              if (svg := picture(by_rule, value, "whole run" if not end else "late halves"))}
    text = head(choice) + measured_on(every) + f"\n\n{len(own)} of {choice.links} links run.\n\n"
    text += busy(every)
    text += f"## What `{choice.own.name}` is to reach\n\n" + measured_bars(bars(list(own.values()), choice.links))
    text += again(own) + "## All rules\n\nMedian over the links, and in brackets the 5th percentile of goodput and the "
    text += "95th of workers.\n\n" + measured_table(["rule", *HEADS, "links"], rule_rows(by_rule))
    text += "".join(image(beside, name, "goodput beside the oracle's, link by link from the worst") for name in beside)
    text += f"## Every link\n\nGoodput ÷ oracle's over the whole run of each rule; of `{choice.own.name}`, the late "
    text += "halves and workers too.\n\n" + measured_table(*link_table(asked, found, by_rule, choice))
    if found:
        beside |= {f"{PAGE}.csv": judged_csv(asked, by_rule), f"{PAGE}-runs.csv": raw(found)}
        text += f"The same for every rule is in [{PAGE}.csv]({PAGE}.csv), every run and the sweeps are in "
        text += f"[{PAGE}-runs.csv]({PAGE}-runs.csv).\n\n"
    return Page(PAGE, (text + failures(every)).rstrip("\n") + "\n", beside)


def whole(each: Judged) -> float:
    return each.whole


def settled(each: Judged) -> float:
    return each.settled


def again(own: Mapping[int, Judged]) -> str:
    """What is said of links that were run more than once."""
    more = [index for index, each in own.items() if each.count > 1]
    said = (f"The {WORST} worst links by the whole run are run {WORST_REPEATS} times more, with their sweeps\n"
            f"(`python3 -m lab run {AGAIN}`), and count by the medians; other rules are not run there again. ")
    return said + (f"So far: {', '.join(str(index + 1) for index in sorted(more))}.\n\n" if more else "Not yet.\n\n")


def rule_rows(by_rule: Standing) -> list[list[str]]:
    def cell(values: Sequence[float], share: float, digits: int) -> str:
        return f"{statistics.median(values):.{digits}f} ({percentile(values, share):.{digits}f})"

    rows = []
    for rule, there in by_rule.items():
        each = list(there.values())
        goodputs = ([one.whole for one in each], [one.changed for one in each], [one.settled for one in each])
        numbers = ([one.workers for one in each], [one.settled_workers for one in each])
        rows.append([f"`{rule}`", *(cell(values, LOW_SHARE, 3) for values in goodputs),
                     *(cell(values, 1 - LOW_SHARE, 2) for values in numbers), str(len(each))])
    return rows


def picture(by_rule: Standing, value: Callable[[Judged], float], what: str) -> str | None:
    """Each rule's links from the worst to the best; none of one link."""
    curves = []
    for colour, (rule, there) in zip(COLOURS, by_rule.items()):
        shares = sorted(map(value, there.values()))
        points = [(100 * (i + 0.5) / len(shares), share) for i, share in enumerate(shares)]
        curves.append(curve.Curve(rule, colour, points if len(points) > 1 else ()))
    if not any(each.points for each in curves):
        return None
    return curve.draw(f"Goodput beside the oracle's on random links: {what}", curves, "% of links, the worst first",
                      "÷ oracle", marks=[1.0])


def link_table(asked: Sequence[Link], found: Found, by_rule: Standing,
               choice: Choice) -> tuple[list[str], list[list[str]]]:
    own, others = choice.own.name, [rule for rule in by_rule if rule != choice.own.name]
    heads = ["", "link", "oracle, Mbit/s (workers)", f"`{own}`", "late halves", "workers ÷ oracle's",
             *(f"`{rule}`" for rule in others)]
    rows = []
    for link in asked:
        known = oracles(link, found)
        if known is None:
            continue
        best = " → ".join(f"{mbit(each.bps)} ({each.mover.removeprefix('fixed ')})" for each in known)
        mine = by_rule.get(own, {}).get(link.index)
        said = ["", "", ""] if mine is None else [f"{mine.whole:.2f}", f"{mine.settled:.2f}", f"{mine.workers:.2f}"]
        theirs = [f"{there.whole:.2f}" if (there := by_rule[rule].get(link.index)) else "" for rule in others]
        rows.append([str(link.index + 1), link.case.title, best, *said, *theirs])
    return heads, rows


def judged_csv(asked: Sequence[Link], by_rule: Standing) -> str:
    heads = ("link", "path", "rule", "n", "mbit_s", "whole", "changed", "late", "workers", "late_workers")
    return csv(heads, [(link.case.name, link.case.title, rule, each.count, f"{each.bps / 1e6:.2f}", f"{each.whole:.4f}",
                        f"{each.changed:.4f}", f"{each.settled:.4f}", f"{each.workers:.3f}",
                        f"{each.settled_workers:.3f}")
                       for link in asked for rule, there in by_rule.items()
                       if (each := there.get(link.index)) is not None])
