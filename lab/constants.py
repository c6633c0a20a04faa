"""What each constant of `auto` does at half and at twice its value: python3 -m lab.constants [--write FILE].

The crate `control` is copied, and every use of a tuned constant there is multiplied by a factor of its own, which the
environment gives. So one build does for all. Simulated are the first 120 paths of two draws that rules were tuned on
(`lab.hard_paths`, seed 301, and `lab.wide_paths`, seed 302): what is learned here is how much a constant matters, not
how good the rule is. It takes half an hour on two cores.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "crates/control/src"
FILES = (
    "optimizer/optimistic.rs",
    "path_estimator.rs",
    "path_estimator/recovery.rs",
    "path_estimator/stage_curve.rs",
    "waiting.rs",
)
# What standards say, arithmetic, and the prior and the resolution of the grid.
FIXED = {
    *("SEGMENT_BITS", "CUBIC", "RENO", "DECREASE", "ACKNOWLEDGED", "DELAYED"),
    *("NODE", "NODE_WEIGHTS", "NEGLIGIBLE", "HALF", "IN_HAND", "SLOWEST"),
    *("MAX_KNEE", "MIN_KNEE", "KNEE_STEP", "OTHERS", "DECLINE"),
}
DRAWS = (("lab.hard_paths", "301"), ("lab.wide_paths", "302"))
COUNT = "120"
FACTORS = (0.5, 2.0)
TESTS = "\n#[cfg(test)]\nmod tests"
CONSTANT = re.compile(r"((?:^/// .*\n)*)^(pub(?:\(\w+\))? )?const ([A-Z_]+): ([^=]+) = (.+);$", re.MULTILINE)
SHARES = re.compile(r"auto +n \d+ share ([\d.]+) p5 ([\d.]+) .*? workers \d+ ratio median ([\d.]+) p95 ([\d.]+)")

# How a use is multiplied by the factor `{f}`, by the constant's type.
SCALED: dict[str, Callable[[str, str], str]] = {
    "f64": lambda name, f: f"({name} * {f})",
    "u16": lambda name, f: f"(({name} as f64 * {f}).round() as u16)",
    "u32": lambda name, f: f"(({name} as f64 * {f}).round() as u32)",
    "Duration": lambda name, f: f"{name}.mul_f64({f})",
    "(f64, f64)": lambda name, f: f"({name}.0 * {f}, {name}.1 * {f})",
}

FACTOR_TABLE = """//! Factors on constants, by the environment.
use std::sync::LazyLock;
/// One a constant.
pub static FACTORS: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let given = std::env::var("FACTORS").unwrap_or_default();
    given.split(',').map(|factor| factor.parse().expect("a number")).collect()
});
"""


@dataclass
class Constant:
    """One that is tuned."""

    file: str
    name: str
    kind: str
    value: str
    meaning: str
    is_shared: bool


@dataclass
class Result:
    """Shares of the best alone, mean and 5th percentile, and workers by the oracle's, median and 95th percentile."""

    draws: list[tuple[float, float, float, float]]


def constants(file: str) -> list[Constant]:
    """Those of one file."""
    found: list[Constant] = []
    meaning = ""
    text = (SOURCES / file).read_text().partition(TESTS)[0]
    for comment, shared, name, kind, value in CONSTANT.findall(text):
        # One comment may be for several.
        if comment:
            meaning = " ".join(line.removeprefix("/// ") for line in comment.strip().splitlines())
        if name not in FIXED:
            found.append(Constant(file, name, kind, value, meaning, bool(shared)))
    return found


def scaled(line: str, constant: Constant, number: int) -> str:
    """A line with each use of a constant multiplied."""
    if re.match(r"\s*(//|use |pub use |(pub(\(\w+\))? )?const )", line):
        return line
    use = SCALED[constant.kind](constant.name, f"crate::factors::FACTORS[{number}]")
    return re.sub(rf"(?<![\w:.`]){constant.name}\b", lambda _: use, line)


def multiply(crate: Path, all_of_them: list[Constant]) -> None:
    """Has the sources of a copy multiply each constant."""
    for file in sorted(crate.rglob("*.rs")):
        inner = str(file.relative_to(crate))
        head, mark, tests = file.read_text().partition(TESTS)
        for number, constant in enumerate(all_of_them):
            imports = re.search(rf"^use .*\b{constant.name}\b", head, re.MULTILINE)
            if constant.file == inner or constant.is_shared and imports:
                head = "\n".join(scaled(line, constant, number) for line in head.split("\n"))
        file.write_text(head + mark + tests)
    (crate / "factors.rs").write_text(FACTOR_TABLE)
    lib = crate / "lib.rs"
    lib.write_text(lib.read_text().replace("pub mod units;", "pub mod factors;\npub mod units;", 1))


def build(work: Path, all_of_them: list[Constant]) -> Path:
    """The judge of rules with factors."""
    copy = work / "source"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("target", ".git"))
    multiply(copy / "crates/control/src", all_of_them)
    command = ["cargo", "build", "--release", "-p", "tidegate-control", "--example", "hard_paths"]
    target = ROOT / "target/constants"
    subprocess.run(command, cwd=copy, env={**os.environ, "CARGO_TARGET_DIR": str(target)}, check=True)
    return target / "release/examples/hard_paths"


def judge(program: Path, folders: list[str], factors: list[float]) -> Result:
    """What the rule does with these factors."""
    given = ",".join(map(str, factors))
    environment = {**os.environ, "FACTORS": given}
    ran = subprocess.run(
        [str(program), *folders, "auto"], env=environment, capture_output=True, text=True, check=True
    )
    # Of each draw those alone come first, and then those beside others.
    alone = SHARES.findall(ran.stdout)[::2]
    return Result([(float(mean), float(low), float(half), float(high)) for mean, low, half, high in alone])


def shown(result: Result) -> str:
    """For a table's cells."""
    return " | ".join(f"{mean:.3f}, {low:.3f}; {half:.2f}, {high:.1f}" for mean, low, half, high in result.draws)


def page(usual: Result, rows: list[tuple[Constant, list[Result]]], built: str) -> str:
    """All of it as a page."""
    lines = [
        "# Constants of `auto`",
        "",
        f"Made by `python3 -m lab.constants --write docs/results/constants.md` at {built}; do not edit by hand.",
        "",
        f"The first {COUNT} paths of `lab.hard_paths`, seed 301, and of `lab.wide_paths`, seed 302, alone: rules were",
        "tuned on these. A cell has goodput ÷ best (mean, 5th percentile) and workers ÷ the oracle's (median, 95th percentile). The",
        "simulator has no kernel, so constants of `recovery.rs` show nothing here: they are for what live streams tell. What",
        "standards say (RFC 9293, RFC 9438), arithmetic, and the grid with its prior (`stage_curve.rs`) are left out.",
        "",
        "| constant | hard paths at half | every kind at half | hard paths at twice | every kind at twice |",
        "|---|---|---|---|---|",
        f"| *as they are* | {shown(usual)} | {shown(usual)} |",
    ]
    for constant, results in rows:
        cells = " | ".join(map(shown, results))
        lines.append(f"| `{constant.name}` = {constant.value} | {cells} |")
    lines += ["", "## What they mean", ""]
    for constant, _ in rows:
        lines.append(f"- `{constant.name}` ({constant.file.rpartition('/')[2]}): {constant.meaning}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Runs all, and prints each as it comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="a page")
    args = parser.parse_args()
    all_of_them = [constant for file in FILES for constant in constants(file)]
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        folders = [str(work / seed) for _, seed in DRAWS]
        for (module, seed), folder in zip(DRAWS, folders, strict=True):
            subprocess.run([sys.executable, "-m", module, COUNT, seed, folder], cwd=ROOT, check=True)
        program = build(work, all_of_them)
        ones = [1.0] * len(all_of_them)
        usual = judge(program, folders, ones)
        print(f"{len(all_of_them)} constants; as they are: {shown(usual)}", flush=True)
        rows = []
        for number, constant in enumerate(all_of_them):
            with_one = [[*ones[:number], factor, *ones[number + 1 :]] for factor in FACTORS]
            results = [judge(program, folders, factors) for factors in with_one]
            print(f"{constant.name}: {' | '.join(map(shown, results))}", flush=True)
            rows.append((constant, results))
    if args.write:
        command = ["git", "rev-parse", "--short=8", "HEAD"]
        built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
        args.write.write_text(page(usual, rows, f"build {built}"))


if __name__ == "__main__":
    main()
