"""docs/results/beyond.md: the bars, then every link with its table and picture."""

from collections.abc import Iterable, Mapping, Sequence

from lab.beyond import tables
from lab.beyond.bars import FAIR_FROM, FAIR_TO, fixed_bars, full_bars, harm_bars, row_bars, share_bars, step_bars
from lab.beyond.cases import CROSS, HARM, LINKS, STAGGER_S, STEPS, TOGETHER_S, TRANSFERS, WHOLE_S, case
from lab.beyond.cases import share as share_case
from lab.beyond.figures import FAIR_OVER_S, best_fixed
from lab.beyond.pictures import harm_picture, pictures
from lab.beyond.rules import DEFAULT
from lab.beyond.shards import HARM as HARM_SHARD, HARM_MANY, LINKS as LINK_SHARDS, SHARDS, SWEEP
from lab.grid.figures import Found, found_in, found_of
from lab.grid.remarks import failures, measured_on
from lab.grid.show import case_table, raw
from lab.ground.results import Record
from lab.pages.parts import ABSENT, image, measured_bars
from lab.shard import Page, known

HEAD = f"""# Beyond the papers: links none of them tried

Made by `python3 -m lab report`; do not edit by hand.

The default rule, `{DEFAULT}`, against every other rule in the same engine, and against the best fixed number that a
sweep finds. Two network namespaces joined by a bottleneck with a round-trip time and a queue of 20 ms that overflows,
TCP cubic, MTU 1500; at most 32 workers a stage. Memory to memory by `tidegate probe`; where a disk is slow, files in
memory with a rate for each reader or writer, copied into fresh memory and checked. `ldm`, `discrete_rl` and, where
there are files, `automdt` are trained on the very path they drive, with its own numbers, before the rotation. What
arrives is counted at the receiver's device, other traffic and headers left out. A rule that a table lacks was not run there.

"""


def page(records: Mapping[str, Sequence[Record]] | None = None) -> Page:
    """From what was measured so far."""
    if records is None:
        records = {shard.name: known(shard.name) for shard in SHARDS}
    every = [record for there in records.values() for record in there]
    # The sweep's links have the same names as the others.
    found = found_of({shard: there for shard, there in records.items() if shard != SWEEP})
    swept = found_in(records.get(SWEEP, []), SWEEP)
    best, beside = best_fixed(swept), {f"beyond-{name}.svg": svg for name, svg in pictures(found, LINKS).items()}
    beside |= {f"beyond-{name}.svg": svg for name in HARM if (svg := harm_picture(found, name))}
    text = HEAD + measured_on(every) + "\n\n" + bars(found, best) + links(found, swept, best, beside)
    text += changes(found, beside) + shared(found, beside) + harmed(found, beside) + failures(every)
    tables = {f"{name}.csv": raw(there) for name, there in (("beyond", found), ("beyond-sweep", swept)) if there}
    if tables:
        text += "Every run is in " + " or ".join(f"[{name}]({name})" for name in tables) + ".\n\n"
    beside |= tables
    return Page("beyond", text.rstrip() + "\n", beside)


def bars(found: Found, best: Mapping[str, int]) -> str:
    rows = row_bars(found, (*LINKS, *STEPS))
    fixed = [bar for link in LINKS for bar in fixed_bars(found, case(link), best.get(link))]
    fixed += [bar for link in CROSS for bar in full_bars(found, case(link), best.get(link))]
    return (f"## What `{DEFAULT}` is to reach\n\nIn every row:\n\n" + measured_bars(rows)
            + "Against the best fixed number of the sweep, in the same rotation; workers are those of the stage that "
            "has most:\n\n" + measured_bars(fixed) + "After a step, in every run:\n\n" + measured_bars(step_bars(found))
            + "On a shared link, in every run:\n\n" + measured_bars(share_bars(found))
            + "Beside plain TCP flows:\n\n" + measured_bars(harm_bars(found)))


def picture(name: str, beside: Mapping[str, str]) -> str:
    return image(beside, f"beyond-{name}.svg", name)


def links(found: Found, swept: Found, best: Mapping[str, int], beside: Mapping[str, str]) -> str:
    shards = ", ".join(f"`python3 -m lab run {name}`" for name in (SWEEP, *LINK_SHARDS))
    text = (f"## Links\n\n{WHOLE_S:g} s each; {shards} measure them. The sweep's numbers ran shorter where nothing "
            "changes, so they are compared with each other only.\n\n")
    for link in LINKS:
        text += f"### {link}\n\n{case(link).title}.\n\n" + case_table(found, case(link), DEFAULT)
        text += tables.parts_table(found, link)
        text += tables.sweep_line(swept, link, best) + picture(link, beside)
        text += picture(f"{link}-stages", beside)
    return text


def part(text: str, table: str, names: Iterable[str], beside: Mapping[str, str]) -> str:
    """A section: its text, its table if there is one yet, and its pictures."""
    return text + (table or ABSENT) + "".join(picture(name, beside) for name in names)


def changes(found: Found, beside: Mapping[str, str]) -> str:
    text = ("## Links and streams that step\n\nCounted are the epochs after the one in which it changes, to the first "
            "of two in a row with 90 % of what the link then carries. `python3 -m lab run beyond-steps` measures "
            "it.\n\n")
    return part(text, tables.steps_table(found), STEPS, beside)


def shared(found: Found, beside: Mapping[str, str]) -> str:
    text = (f"## Shared links\n\nA transfer joins every {STAGGER_S:g} s; {TOGETHER_S:g} s after the last the first "
            f"leaves, then the others in turn. The index is Jain's, of means over {FAIR_OVER_S} s and of goodput as "
            "each transfer measures it; what was freed is retaken when those that remain have 90 % of the link. "
            "`python3 -m lab run beyond-shares` measures it.\n\n")
    return part(text, tables.shares_table(found), (share_case(count).name for count in TRANSFERS), beside)


def harmed(found: Found, beside: Mapping[str, str]) -> str:
    text = ("## Harm to plain TCP flows\n\nForeign streams have the link to themselves, then a transfer of ours joins. "
            "Harm is (alone − beside us) ÷ alone, of all of them together; two that share equally do each other a harm "
            "of 0.50. Of an equal share is what the flows keep of what they would have if a transfer of ours were one "
            "flow more. A fair transfer takes what the streams that would fill the link alone take beside the same "
            f"flows: `--share fair` is to have {FAIR_FROM:g} to {FAIR_TO:g} of that. `python3 -m lab run {HARM_SHARD}` "
            f"and `{HARM_MANY}` measure it.\n\n")
    return part(text, tables.harm_table(found), HARM, beside)
