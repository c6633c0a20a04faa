"""The data sets of FastBioDL's table 2 in shape, as large as a run of half a minute needs, with their MD5 sums.

H10    10 files, Breast-RNA-seq: 1.72 to 3.03 GB in the paper
H6     6 files, HiFi-WGS: 8.10 to 10.81 GB
H43    43 files, Amplicon-Digester: 13.43 to 66.47 MB; H43-2GB as large as those, whatever the path
F40    40 equal files for figure 6, four times the same ten
S5000  5,000 files of 100 KB
"""

import hashlib
import json
import random
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lab.ground import places
from lab.runs.datasets import KB, MB, Dataset, Plan, fingerprint, generate, repeated
from lab.get.cases import Case
from lab.movers.runner import room_for

# Two cores; hashing leaves the interpreter's lock.
HASHERS = 2
RANGES = {"H10": (10, 1.72, 3.03), "H6": (6, 8.10, 10.81), "H43": (43, 13.43, 66.47), "F40": (10, 1.0, 1.0),
          "H43-2GB": (43, 13.43, 66.47)}
# Whose ranges are in MB and are kept to.
EXACT = ("H43-2GB",)
REPEATED = {"F40": 4}
SMALL_FILES, SMALL_SIZE = 5000, 100 * KB


@dataclass(frozen=True)
class File:
    path: str
    size: int
    md5: str


@dataclass(frozen=True)
class Listed:
    """A data set and what its files must be."""

    dataset: Dataset
    files: tuple[File, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def part(self, share: float) -> "Listed":
        """About that share of the files, spread over the list: for those who would take too long over all."""
        if share >= 1:
            return self
        count = max(1, round(len(self.files) * share))
        chosen = tuple(self.files[i * len(self.files) // count] for i in range(count))
        return Listed(self.dataset, chosen)


def planned(name: str, case: Case, seed: int, scale: float = 1.0) -> Plan:
    """The files of a set. `scale` shrinks sizes, and the count of small files."""
    if name == "S5000":
        count = max(20, int(SMALL_FILES * scale))
        return Plan(name, seed, tuple((f"d{i // 500:02}/f{i:05}.bin", SMALL_SIZE) for i in range(count)))
    if name not in RANGES:
        raise ValueError(f"no data set {name!r}; there are {', '.join((*RANGES, 'S5000'))}")
    count, least, most = RANGES[name]
    rng = random.Random(f"{seed}/{name}/sizes")
    shape = [rng.uniform(least, most) for _ in range(count)]
    if name in EXACT:
        shape = [part * scale for part in shape]
        bytes_ = sum(shape) * MB
    else:
        bytes_ = case.possible_mbit * 1e6 / 8 * (case.seconds or 0) * scale / REPEATED.get(name, 1)
    unit = bytes_ / sum(shape)
    # Odd sizes, as files have.
    return Plan(name, seed, tuple((f"f{i:02}.bin", max(1, int(part * unit)) | 1) for i, part in enumerate(shape)))


def md5(path: Path) -> str:
    with open(path, "rb", buffering=0) as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def sums(root: Path, paths: Sequence[str]) -> list[str]:
    with ThreadPoolExecutor(HASHERS) as pool:
        return list(pool.map(lambda path: md5(root / path), paths))


def only(root: Path) -> None:
    """Makes a directory, and room for it: its neighbours are the sets that were used before."""
    if root.parent.is_dir():
        for other in root.parent.iterdir():
            if other != root:
                shutil.rmtree(other, ignore_errors=True)
    root.mkdir(parents=True, exist_ok=True)


def listed(name: str, case: Case, seed: int, scale: float = 1.0, parent: Path = places.SOURCES) -> Listed:
    """Makes the set below `parent`, or finds it there; whatever set was there before is gone."""
    plan = planned(name, case, seed, scale)
    times = REPEATED.get(name, 1)
    only(parent / f"{name}-{fingerprint(plan)[:8]}")
    room_for(plan, times)
    dataset = generate(plan, parent)
    manifest = dataset.root.parent / "md5.json"
    paths = [path for path, _ in plan.files]
    if not manifest.exists():
        manifest.write_text(json.dumps(dict(zip(paths, sums(dataset.root, paths)))))
    known = json.loads(manifest.read_text())
    files = [File(path, size, known[path]) for path, size in plan.files]
    if times > 1:
        files = [File(f"r{i}/{file.path}", file.size, file.md5) for i in range(times) for file in files]
    return Listed(repeated(dataset, times), tuple(files))


def wrong(files: Iterable[File], landing: Path) -> str | None:
    """None where every file is there with its size and MD5 sum, else what is wrong first. More files may be there."""
    wanted = list(files)
    for file in wanted:
        path = landing / file.path
        if not path.is_file():
            return f"{file.path} is missing"
        if path.stat().st_size != file.size:
            return f"{file.path} has {path.stat().st_size} bytes instead of {file.size}"
    for file, found in zip(wanted, sums(landing, [file.path for file in wanted])):
        if found != file.md5:
            return f"{file.path} has MD5 {found} instead of {file.md5}"
    return None
