"""docs/results/eos.md."""

from collections.abc import Mapping, Sequence
from typing import Any

from lab import install
from lab.eos import adaptive_page, jobs_page, predicted_page, samples_page
from lab.eos.bars import bars
from lab.eos.found import Found
from lab.grid.remarks import others_used
from lab.pages.parts import bars_table, mbit, table
from lab.shard import Page


def several(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.0f}" for value in values)


def advice(paths: Mapping[str, Any]) -> str:
    heads = ["sampler", "best of the sweep", "its Mbit/s", "advised", "Mbit/s predicted", "Mbit/s achieved",
             "achieved ÷ best", "cost in ms"]
    rows = [[kind, str(row["best"]), mbit(row["best_bps"]), several(row["streams"]),
             several([bps / 1e6 for bps in row["predicted_bps"]]), several([bps / 1e6 for bps in row["achieved_bps"]]),
             f"{row['share']:.3f}", several(row["cost_ms"])]
            for kind, row in paths["chosen"].items()]
    pays = [[row["size"], f"{row['plain_s']:.1f}", f"{row['estimate_s']:.1f}", f"{row['optimized_s']:.1f}",
             str(row["streams"]), f"{row['ratio']:.2f}", str(row["n"])] for row in paths["pays"]]
    return (f"## The number of streams that is advised\n\nTwo network namespaces, {paths['link_mbit']} Mbit/s, "
            f"{paths['cap_mbit']} Mbit/s a connection (eBPF pacing), TCP cubic. The sweep is by hand with the same "
            f"tool; the advice is asked for beside it.\n\n{table(heads, rows)}"
            "## Whether asking our own sampler pays\n\nOne file into memory, verified. Plain is one stream; optimized "
            "is the estimate and then the transfer, which begins with the advised number and adapts.\n\n"
            + table(["size", "plain, s", "estimate, s", "estimate and transfer, s", "streams",
                     "plain ÷ optimized", "n"], pays))


def under_load(load: Mapping[str, Any]) -> str:
    return (f"## Under load\n\nAn open loop: each request counts from when it was due. {load['rate_per_s']:.0f} "
            f"requests/s reached, worst {load['worst_ms']:.1f} ms, {load['errors']} errors; {load['ramped_answered']} "
            f"answers while connections were ramped up; the service took {load['memory_mb']:.0f} MB at most. Service "
            f"and load share two cores; n = {load['n']}.\n")


MANY_PATHS = """\
## Many paths, some of which are sampled

1,000 clients over 200 paths, 20 of which nobody knows yet: each of these is sampled once, four at a time, while all others are answered from history. What is wanted is at most 20 ms at the 95th percentile for those answers while samples run (`known_while_sampling`; `unknown_first` are the clients that wait for a sample). Not measured yet. To measure, on a host that does nothing else:

```
alias load='cargo run --release -p tidegate-service --example load --'
tidegate endpoint --root r --listen 0.0.0.0:7117 &
load --prepare paths --endpoint tg://TICKET@127.0.0.1:7117/
tidegate history import paths/history.jsonl
tidegate serve &
export TIDEGATE_TOKEN=$(cat ~/.local/state/tidegate/service/token)
load --url http://127.0.0.1:7118/api/v1/estimates --paths paths/paths.jsonl --connections 1000 --rate 2000
```

The unknown paths lead to one endpoint under 20 addresses of the loopback, and keep to 10 Mbit/s a stream and 40 Mbit/s in all.
"""


NOT_SHOWN = """\
## What this does not show

Disks, hosts of more than two cores, wide-area paths and grid certificates: one machine has both ends, with files in memory.
Each part says what else it leaves out.
"""


def page(found: Found) -> Page:
    """Made only of what was measured; what is missing is said."""
    beside: dict[str, str] = {}
    runs = [run for cells in found.cells.values() for there in cells.values() for those in there.values() for run in those]
    missing = [name for name in ("load", "queue", "kills", "jobs", "paths") if name not in found.parts]
    parts = ["# EOS: estimates, the scheduler and the service\n\nMade by `python3 -m lab report eos`; do not edit by "
             "hand.\n",
             f"{install.describe()}. {found.version or 'Nothing was measured yet'}.{others_used(runs)}\n",
             "## Bars\n", bars_table([*bars(found), *adaptive_page.judged(found), *predicted_page.judged(found)])]
    if missing:
        parts.append(f"Not measured yet: {', '.join(f'`eos-{name}`' for name in missing)}.\n")
    parts.append("How well the models predict is in [models.md](models.md).\n")
    parts += samples_page.sections(found, beside)
    parts += [jobs_page.section(found, beside), adaptive_page.section(found), predicted_page.section(found, beside)]
    if paths := found.parts.get("paths"):
        parts.append(advice(paths))
    if load := found.parts.get("load"):
        parts.append(under_load(load))
    parts += [MANY_PATHS, NOT_SHOWN]
    return Page("eos", "\n".join(parts), beside)
