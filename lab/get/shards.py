"""Downloads beside other tools: docs/results/get.md, and what docs/results/fastbiodl.md is made from.

The shards search settings where they are likeliest to be best (`rotation.lean`), unless downloaders are named.
"""

from collections.abc import Sequence

from lab.get import probes, report, rotation
from lab.get.cases import ARCHIVE, BUSY, CAPPED, FAR, FIG6, FIG6_FTP, LINK_ONLY, SMALL, Case
from lab.get.trial import OURS, RULE
from lab.ground.results import load
from lab.ground.shell import CommandFailed
from lab.shard import NotHere, Options, Page, Shard

REPEATS = 5
PROBES = {"million tiny": probes.million, "huge": probes.huge, "resolve": probes.resolve}


def settings(options: Options, lean: bool) -> rotation.Settings:
    return rotation.Settings(options.repeats or REPEATS, options.budget_min, lean)


def shard(name: str, title: str, minutes: int, cases: Sequence[Case], sets: Sequence[str] | None = None,
          only: Sequence[str] | None = None, lean: bool = True) -> Shard:
    def measure(options: Options) -> bool:
        if options.only and not any(rotation.chosen(rotation.contenders(case), options.only) for case in cases):
            raise NotHere(f"no downloader here is called {' or '.join(options.only)}; there are "
                          f"{'; '.join(sorted({each.family for case in cases for each in rotation.contenders(case)}))}")
        return rotation.run_all(cases, sets, options.only or only, settings(options, lean and not options.only))

    def counted() -> tuple[int, int]:
        done = wanted = 0
        for case in cases:
            able = [each for each in rotation.chosen(rotation.contenders(case), only) if not each.missing()]
            able = rotation.lean(case, able) if lean else able
            for which in sets or case.sets:
                records = [r for r in rotation.settled(case, which)
                           if r.contender in {each.name for each in able} and r.repeat < REPEATS]
                done += len({r.key for r in records})
                wanted += sum(len(rotation.due(able, repeat, records)) for repeat in range(REPEATS))
        return done, wanted

    return Shard(name, title, minutes, measure, counted)


def probe(options: Options) -> bool:
    """Memory for a million URLs, a file of twenty gigabytes killed half way, a thousand accessions."""
    asked = [name for name in PROBES if not options.only or name in options.only]
    if not asked:
        raise NotHere(f"no probe is called {' or '.join(options.only)}; there are {', '.join(PROBES)}")
    good = True
    for name in asked:
        try:
            probes.remember(name, PROBES[name]())
            print(f"{name} is measured", flush=True)
        except CommandFailed as failure:
            print(f"{name} FAILED {failure}", flush=True)
            good = False
    return good


def probed() -> tuple[int, int]:
    return len(PROBES.keys() & probes.recalled().keys()), len(PROBES)


SHARDS = (
    *(shard(f"get-capped-{name.lower()}", f"downloads of {name}, 1200 Mbit/s, 100 Mbit/s a connection", 50, [CAPPED],
            [name])
      for name in CAPPED.sets),
    shard("get-link-only", "downloads, 1200 Mbit/s, one connection fills the link", 105, [LINK_ONLY]),
    shard("get-busy", "downloads from a server that answers 429 above eight requests", 100, [BUSY]),
    *(shard(f"get-{case.name}", f"FastBioDL's {case.title.removeprefix('FastBioDL ')}", 35, [case])
      for case in (*FIG6, *FIG6_FTP)),
    *(shard(f"get-{case.name}-{name.split('-')[0].lower()}", f"FastBioDL's tables: {name}, {case.title}", 32, [case],
            [name], lean=False) for case in FAR for name in case.sets),
    *(shard(f"get-rules-{name.lower()}", f"FastBioDL's table 1 and figure 4: its rules, {name}", 25, [CAPPED], [name],
            only=(RULE, OURS), lean=False) for name in CAPPED.sets),
    shard("get-small", "5,000 files of 100 KB at 20 ms", 15, [SMALL], lean=False),
    shard("get-archive", "the archives' own downloaders against a stand-in archive", 10, [ARCHIVE]),
    Shard("get-probes", "a million URLs, a huge file killed half way, a thousand accessions", 40, probe, probed))


def page() -> Page:
    records = [record for record in load(rotation.RESULTS) if record.scale == 1.0]
    return report.made(records, probes.recalled())
