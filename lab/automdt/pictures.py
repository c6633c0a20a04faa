"""Goodput and workers on AutoMDT's paths over time, and how its recipes learn."""

from collections.abc import Sequence

from lab.automdt import cases
from lab.automdt.paper import FIGURE_5
from lab.grid.figures import Found, Run, middle
from lab.grid.show import REPEATS, bold, over_time, repeats, shown, stages
from lab.pages import curve, plot
from lab.runs.epochs import STAGES
from lab.training import Learned

# One minute of six hundred seconds cannot be seen four times a second.
LONG_S, MEAN_OF = 120.0, 10


def workers_of(run: Run, rule: str, best: Sequence[int]) -> plot.Panel:
    said = ", ".join(f"{stage} ({look}, best {n})" for stage, look, n in zip(STAGES, ("thick", "middle", "thin"), best))
    return plot.Panel(f"workers of {rule}: {said}", stages(run.logs[0], lambda e, i: e.workers[i]), list(best))


def path_picture(found: Found, path: str) -> str | None:
    """AutoMDT's figure 5: goodput of some rules, and the workers of three of them."""
    rules = [rule.name for rule in (cases.AUTO, cases.AUTOMDT, cases.ROOMY, cases.FALCON)]
    those = shown(found.get(path, {}), rules)
    if not those:
        return None
    top = plot.Panel("goodput, Mbit/s", repeats(those), [(cases.path_case(path).goodput_bps or 0.0) / 1e6])
    below = [workers_of(middle(runs), name, FIGURE_5[path].best) for name, _, runs in those
             if name in rules[:3] and middle(runs).logs]
    return plot.draw(cases.path_case(path).title, [top, *below], REPEATS)


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Means of some neighbours, where there are too many to see."""
    groups = [points[i:i + MEAN_OF] for i in range(0, len(points), MEAN_OF)]
    return [(group[-1][0], sum(value for _, value in group) / len(group)) for group in groups]


def online_picture(found: Found) -> str | None:
    those = shown(found.get("online", {}), [rule.name for rule in (cases.ONLINE, cases.STEADY, cases.AUTOMDT)])
    if not those:
        return None

    def drawn(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        return thinned(points) if points and points[-1][0] > LONG_S else list(points)

    goodput = bold(those, lambda run: drawn(run.staircase()))
    count = bold([each for each in those if middle(each[2]).logs],
                 lambda run: drawn([(e.end_s, float(sum(e.workers))) for e in run.logs[0]]))
    return plot.draw("a policy that goes on to learn, beside the same that does not",
                     [plot.Panel("goodput, Mbit/s", goodput), plot.Panel("workers of all stages", count)],
                     "means of ten seconds" if goodput[0].bold and goodput[0].bold[-1][0] > LONG_S else "")


def pictures(three: Found, five: Found, tune: Found) -> dict[str, str]:
    movers = [rule.name for rule in (cases.AUTOMDT, cases.ROOMY, cases.AUTO, cases.AGENT)]
    made = {f"automdt-{path}.svg": path_picture(five, path) for path in FIGURE_5}
    made["automdt-figure3.svg"] = over_time(three, cases.set_case("large"), movers,
                                            "100 files: AutoMDT, Marlin and the default")
    made["automdt-online.svg"] = online_picture(tune)
    return {name: picture for name, picture in made.items() if picture is not None}


def learning(found: Sequence[Learned]) -> dict[str, str]:
    """Figure 4: the utility of the policy over episodes, each seed a line, where the program writes its curve."""
    curves = []
    for recipe, colour in (("automdt", plot.BLUE), ("automdt_discrete", plot.ORANGE)):
        runs = [run for each in found if each.recipe == recipe and each.path == "automdt-read" for run in each.runs]
        for i, run in enumerate(run for run in runs if run.notes.get("curve")):
            label = {"automdt": "continuous", "automdt_discrete": "discrete"}[recipe] if i == 0 else ""
            curves.append(curve.Curve(label, colour, [(x, max(0.0, y)) for x, y in run.notes["curve"]]))
    if len({each.colour for each in curves}) < 2:
        return {}
    title = "AutoMDT where reading is slow: utility as it learns, a line for each seed"
    return {"automdt-figure4.svg": curve.draw(title, curves, "episodes", "utility ÷ R_max", marks=[0.9])}
