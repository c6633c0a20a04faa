"""The page about `tidegate get` beside other downloaders, its pictures, and a line for every run."""

from collections.abc import Iterable, Mapping, Sequence

from lab import install
from lab.get import figures
from lab.get.bars import DEFAULT, Found, Runs, bars, connections, median_bps, oracle_connections
from lab.get.cases import CASES, FIG6, FIG6_FTP, SECONDS, Case
from lab.get.ours import TIMES_AS_LONG
from lab.get.pictures import pictures
from lab.get.probe_report import probe_bars, probes_section
from lab.get.rotation import BESIDE, contenders
from lab.movers.report import table
from lab.ground.results import Record, builds
from lab.ground.rotation import disturbances
from lab.ground.stats import shown, spread
from lab.pages.parts import BAR_HEADS, Bar
from lab.shard import Page

COMMAND = "python3 -m lab report get"


def bars_table(rows: Iterable[Bar]) -> str:
    return table(BAR_HEADS, [[*bar.row()[:-1], bar.verdict] for bar in rows])


def verdicts(rows: Sequence[Bar]) -> str:
    judged = [bar for bar in rows if bar.met is not None]
    met = sum(bool(bar.met) for bar in judged)
    return f"{met} of {len(judged)} bars are met." if judged else "No bar was measured."


def rows_of(case: Case, there: Runs) -> list[list[str]]:
    default = next((name for name in (DEFAULT, "tidegate, accessions") if name in there), None)
    own = median_bps(there[default]) if default else None
    rows = []
    for contender in contenders(case):
        runs = there.get(contender.name)
        if not runs:
            continue
        rates = spread([run.rate_bps / 1e6 for run in runs])
        late = [bps for run in runs if (bps := figures.late_bps(run.notes["samples"], run.bytes)) is not None]
        data = spread([end - begin for begin, end in (figures.window(run.notes["samples"]) for run in runs)])
        rows.append([f"`{contender.name}`", shown(rates, 0), f"{own / 1e6 / rates.median:.2f}" if own else "",
                     f"{rates.median / case.possible_mbit:.2f}",
                     shown(spread([bps / 1e6 for bps in late]), 0) if late else "",
                     shown(spread([run.seconds for run in runs]), 1), f"{data.median:.1f}",
                     f"{connections(runs):.1f}", f"{spread([figures.wasted(run) for run in runs]).median * 100:.1f} %",
                     f"{spread([run.cpu_s_per_gb for run in runs]).median:.2f}", str(len(runs))])
    return rows


def case_section(case: Case, found: Found, records: Sequence[Record]) -> list[str]:
    parts = [f"## {case.name}: {case.title}\n"]
    if case.remark:
        parts.append(case.remark + "\n")
    for name in case.sets:
        there = found.get((case.name, name))
        if not there:
            continue
        some = max((run for runs in there.values() for run in runs), key=lambda run: run.bytes)
        oracle = oracle_connections(there)
        best = f"; the fewest fixed connections within 1 % of the best: {oracle}" if oracle else ""
        parts += [f"### {name}: {some.files} files, {some.bytes / 1e9:.2f} GB{best}\n",
                  table(["downloader", "Mbit/s", f"`{DEFAULT}` ÷ this", "of possible", "from 10 s on", "s", "s of data",
                         "connections", "beyond content", "CPU s/GB", "n"], rows_of(case, there))]
    failed = [r for r in {r.key: r for r in records}.values() if r.scenario == case.name and not r.ok]
    if failed:
        parts.append("Failed, so not counted:\n")
        parts.append("".join(f"- {r.set}, {r.contender}, repeat {r.repeat + 1}: {r.error}\n" for r in failed))
    return parts


def noise_section(found: Found) -> list[str]:
    every = [run for sets in found.values() for runs in sets.values() for run in runs]
    if not every:
        return []
    noises = [run.notes["noise"] for run in every]
    other = spread([noise["other_cpus"] for noise in noises])
    stolen = spread([noise["stolen_cpus"] for noise in noises])
    loud = sum(noise["other_cpus"] > 0.5 for noise in noises)
    said = (f"Processors' worth of work outside the processes of a run (the kernel's network code is in it): median "
            f"{other.median:.2f}, at most {other.high:.2f}; {loud} of {len(noises)} runs had more than 0.5. Taken by "
            f"the hypervisor: median {stolen.median:.2f}, at most {stolen.high:.2f}.")
    return ["## How quiet the machine was\n", " ".join(filter(None, (said, disturbances(every)))) + "\n"]


def page(records: Sequence[Record], drawn: Iterable[str], probes: Mapping[str, Mapping[str, object]]) -> str:
    found = figures.grouped(records)
    if not found and not probes:
        return "# Getting public data beside other tools\n\nNothing has been measured yet.\n"
    rows = [*bars(found), *probe_bars(probes)]
    ours = [record for record in records if record.version.startswith("tidegate")]
    newest = max((record.time for record in records), default="")[:10]
    parts = [
        "# Getting public data beside other tools\n", f"Made by `{COMMAND}`; do not edit by hand.\n",
        f"{install.describe()}. {builds(ours)}{', ' + newest if newest else ''}. nginx and the downloader in network "
        "namespaces of their own, MTU 1500, TCP cubic; the link's rate is a router's (tbf, a queue of 10 ms), a "
        "connection's a pacing rate set by eBPF. All data on tmpfs, the destination fresh for every run. `tidegate` "
        "is called with a list and a directory and no other setting; the list has MD5 sums, which it checks. Wall "
        "time from the start of the process to its exit. After every run the MD5 sum of every file was compared, "
        "whatever the exit status said. Arrivals and connections are counted four times a second from outside; those of "
        "`tidegate` are its workers by its own log. Downloaders take turns, and the order changes. Medians with the "
        "range; ratios are ratios of medians.\n",
        f"Sets have the shapes of FastBioDL's table 2 and last {SECONDS:g} s at the optimum. Settings that are "
        "searched by hand (fixed numbers, aria2, rclone, curl) run once each, and the best of each family as often as "
        "the others. Fixed numbers too low to end in "
        f"{TIMES_AS_LONG} times what is possible fetch a part of a set, at a rate that does not change; the archives' own "
        f"downloaders get a part of the runs. What no bar is about is repeated {BESIDE} times.\n",
        "## Bars\n", verdicts(rows) + "\n", bars_table(rows)]
    for case in CASES.values():
        if any(key[0] == case.name for key in found):
            parts += case_section(case, found, records)
            parts += [f"![{name}](get-{name}.svg)\n" for name in drawn if name == case.name]
    parts += [*probes_section(probes), *noise_section(found), "## Versions\n",
              versions(records),
              "Beside the paper's tables: [fastbiodl.md](fastbiodl.md). Every run is in [get.csv](get.csv).\n"]
    return "\n".join(parts)


def versions(records: Iterable[Record]) -> str:
    found = {(record.contender.split(",")[0].split(" ")[0], record.version) for record in records if record.version}
    return "".join(f"- {name}: {version}\n" for name, version in sorted(found) if "tidegate" not in version)


def raw(records: Iterable[Record]) -> str:
    lines = ["case,set,downloader,run,files,bytes,seconds,data_begin_s,data_end_s,mbit,from_10_s_mbit,connections,"
             "beyond_content,cpu_s_per_gb,other_cpus,stolen_cpus\n"]
    for run in records:
        samples, noise = run.notes["samples"], run.notes["noise"]
        begin, end = figures.window(samples)
        late = figures.late_bps(samples, run.bytes)
        lines.append(f'{run.scenario},{run.set},"{run.contender}",{run.repeat + 1},{run.files},{run.bytes},'
                     f"{run.seconds:.2f},{begin:.2f},{end:.2f},{run.rate_bps / 1e6:.1f},"
                     f"{'' if late is None else f'{late / 1e6:.1f}'},{figures.connections_of(run):.2f},"
                     f"{figures.wasted(run):.4f},{run.cpu_s_per_gb:.3f},{noise['other_cpus']},{noise['stolen_cpus']}\n")
    return "".join(lines)


def made(records: Sequence[Record], probes: Mapping[str, Mapping[str, object]]) -> Page:
    """The page, and beside it what it shows."""
    drawn = pictures(figures.grouped(records), (*FIG6, *FIG6_FTP))
    beside = {f"get-{which}.svg": picture for which, picture in drawn.items()}
    beside["get.csv"] = raw({r.key: r for r in records if r.ok}.values())
    return Page("get", page(records, drawn, probes), beside)
