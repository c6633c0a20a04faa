"""What differs from the paper and why: only what the measurements say, so each sentence has its condition."""

import statistics
from collections.abc import Sequence

from lab.aimd.bars import FALLS, shares
from lab.aimd.cases import JOINS_S, name
from lab.aimd.figures import ENOUGH, Level, late_streams
from lab.grid.figures import Found

# The change the rule takes for real (crates/control/src/optimizer/aimd.rs).
EPSILON = 0.02
# What `auto` wants of twice as many.
TENTH = 0.1
# From when to when after joining the streams' slow start shows, and how many runs say that it is no chance.
EARLY_S, SEVERAL = (1.0, 3.0), 4
BEHIND = 0.9

HEAD = f"""# AIMD: streams beside other streams

Made by `python3 -m lab report`; do not edit by hand.

Balaprakash et al., figure 1. The paper moves memory to memory with globus-url-copy from a sender with 1 Gbit/s;
external streams come from the same sender, and the measured transfer joins {JOINS_S:g} s after them. It shows
throughput for 1 to 512 streams beside 0 to 32 external ones (left), and that the controller, from one stream, reaches
the best in every case, in K epochs where K streams are best (centre and right).

Here: two network namespaces, a bottleneck of 1 Gbit/s with a round trip of 20 ms and a queue of 20 ms that overflows,
TCP cubic, MTU 1500; `tidegate probe` moves memory to memory in clear; the external streams are plain TCP, not limited.
What arrives is counted at the receiver's device, other traffic and headers left out. The paper pins each transfer to a
core of its own; here two cores carry everything, so there are 64 streams at most.

"""


NOT_SHOWN = """## What this does not show

- More than 64 streams, hosts with a core for each transfer, and a sender that is slower than the receiver.
- External streams that come and go during a run: those of a level are there from first to last.
- What a controller costs those others; [beyond.md](beyond.md) has that.

"""


def differences(levels: Sequence[Level], theirs: Sequence[Level], found: Found) -> str:
    parts = [*of_the_sweep(levels), *of_the_tool(levels, theirs), *of_the_controllers(levels, found)]
    return "## What differs and why\n\n" + "".join(f"- {part}\n" for part in parts) + "\n" if parts else ""


def of_the_sweep(levels: Sequence[Level]) -> list[str]:
    parts = []
    beside = [level for level in levels if level.external and len(level.runs) > 1]
    alone = next((level for level in levels if level.external == 0 and 1 in level.runs and len(level.runs) > 1), None)
    if alone is not None:
        share = alone.bps(alone.most) / alone.bps(1)
        cost = {n: statistics.median(run.record.cpu_s_per_gb for run in alone.runs[n]) for n in (1, alone.most)}
        spent = f"they cost {cost[alone.most]:.2f} CPU s/GB at both ends instead of {cost[1]:.2f}"
        if share >= FALLS:
            parts.append(f"Without others, {alone.most} streams bring {share:.3f} of what one brings: the queue keeps "
                         f"the link busy whatever their number, and {spent}. The paper's fall is not there.")
        else:
            parts.append(f"Without others, {alone.most} streams bring {share:.3f} of what one brings; {spent}.")
    never = [level for level in beside if level.bps(level.most) >= FALLS * level.top_bps]
    if beside and len(never) == len(beside):
        parts.append(f"Beside others, the most streams bring at least {FALLS:g} of what the best number brings, at "
                     "every level. If each stream took an equal share of the queue, n of n + m would get n/(n + m), "
                     "and one more would always be a gain, if ever smaller; the second table says how near that is. "
                     "The paper's fall beyond the best number is not there up to "
                     f"{max(level.most for level in beside)} streams.")
    elif never:
        parts.append(f"Beside {named(never)} external streams throughput does not fall up to the most streams tried; "
                     "at the other levels it does.")
    return parts


def of_the_tool(levels: Sequence[Level], theirs: Sequence[Level]) -> list[str]:
    """Where the paper's own tool gets more of the same link with as many streams, and when that is decided."""
    parts, own = [], {level.external: level for level in levels}
    for level in theirs:
        for n, runs in level.runs.items():
            ours = own[level.external].runs.get(n, ()) if level.external in own else ()
            if min(len(runs), len(ours)) < SEVERAL or own[level.external].bps(n) >= BEHIND * level.bps(n):
                continue
            early = [statistics.median(run.between(*(JOINS_S + at for at in EARLY_S)) for run in those)
                     for those in (runs, ours)]
            if early[1] < BEHIND * early[0]:
                parts.append(f"Beside {level.external} external streams `globus-url-copy -p {n}` gets more than as many "
                             "streams of ours. That is decided by the third second, when they bring "
                             f"{early[0] / 1e6:.0f} and {early[1] / 1e6:.0f} Mbit/s: what a stream has after its slow "
                             "start it keeps for the rest of the run. Why ours leave it lower is not known.")
    return parts


def of_the_controllers(levels: Sequence[Level], found: Found) -> list[str]:
    parts = []
    for rule in ("aimd", "auto"):
        short = []
        for level in levels:
            values = shares(level, found, rule)
            if values and statistics.median(values) < ENOUGH:
                short.append((level, statistics.median(values),
                              statistics.median(late_streams(run) for run in found[name(level.external)][rule])))
        if not short:
            continue
        told = "; ".join(f"{level.external} external: {share:.2f} with {n:g} streams (best {level.best})"
                         for level, share, n in short)
        parts.append(f"`{rule}` stays below {ENOUGH:g} of the best fixed number at these levels: {told}.")
        small = [level for level, _, n in short if (gain := level.gain(n)) is not None and gain < EPSILON]
        if rule == "aimd" and small:
            parts.append("Where `aimd` stopped, one more stream adds less than the 2 % it takes for a change (by the "
                         f"sweep) beside {named(small)} external streams: there it holds, as the rule says, short of a "
                         "maximum that lies at many streams.")
        held = [(level, gain) for level, _, n in short if (gain := level.doubled(n)) is not None and gain < TENTH]
        if rule == "auto" and held:
            gains = "; ".join(f"{gain * 100:.0f} % beside {level.external}" for level, gain in held)
            parts.append("`auto` takes no more beside others than fill the path alone (docs/decisions/0002). Where it "
                         f"stopped, doubling brings, by the sweep, {gains} external streams.")
    return parts


def named(levels: Sequence[Level]) -> str:
    return ", ".join(str(level.external) for level in levels)
