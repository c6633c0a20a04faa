"""The data sets A to D: incompressible files made from a seed, the paper's shapes scaled to memory.

A  64 x 32 MiB                                       equal large files
B  64 x 16 MiB, then 4 x 512 MiB                     the big ones come last
C  6000 x 100 KB to 1 MB                             many small files
D  2 x 120 MB, 39 x 10 to 100 MB, 236 x 0.1 to 1 MB  mixed
"""

import hashlib
import json
import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

KB, MB, MIB = 1000, 1000_000, 1 << 20
PIECE = 16 * MIB
NAMES = ("A", "B", "C", "D")


@dataclass(frozen=True)
class Plan:
    """What a data set will hold: relative paths and sizes, in the order of creation."""

    name: str
    seed: int
    files: tuple[tuple[str, int], ...]

    @property
    def size(self) -> int:
        return sum(size for _, size in self.files)


@dataclass(frozen=True)
class Dataset:
    """A generated data set below `root`."""

    name: str
    root: Path
    files: int
    size: int


def plan(name: str, seed: int, scale: float = 1.0) -> Plan:
    """The files of a set. `scale` shrinks the counts of small files and the sizes of large ones."""
    rng = random.Random(f"{seed}/{name}/sizes")

    def size(value: int) -> int:
        return max(1, int(value * scale))

    def count(value: int) -> int:
        return max(2, int(value * scale))

    def small() -> int:
        return rng.randint(100 * KB, 1 * MB)

    match name:
        case "A":
            sizes = [size(32 * MIB)] * 64
        case "B":
            sizes = [size(16 * MIB)] * 64 + [size(512 * MIB)] * 4
        case "C":
            sizes = [small() for _ in range(count(6000))]
        case "D":
            medium = [size(rng.randint(10 * MB, 100 * MB)) for _ in range(39)]
            sizes = [size(120 * MB)] * 2 + medium + [small() for _ in range(count(236))]
        case _:
            raise ValueError(f"no data set {name!r}; there are {', '.join(NAMES)}")
    files = tuple((f"d{i // 500:02}/f{i:05}.bin", size) for i, size in enumerate(sizes))
    return Plan(name, seed, files)


def fingerprint(planned: Plan) -> str:
    """Equal for equal plans; the stamp on disk carries it."""
    text = json.dumps([planned.name, planned.seed, planned.files])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def write_file(path: Path, size: int, rng: random.Random) -> None:
    with open(path, "wb") as out:
        while size > 0:
            piece = min(size, PIECE)
            out.write(rng.randbytes(piece))
            size -= piece


def is_complete(root: Path, planned: Plan) -> bool:
    """Whether an earlier run left exactly this set: same stamp, and every file has its size."""
    try:
        if (root / ".stamp").read_text() != fingerprint(planned):
            return False
        return all(os.stat(root / "data" / path).st_size == size for path, size in planned.files)
    except OSError:
        return False


def generate(planned: Plan, parent: Path) -> Dataset:
    """Writes the set below `parent`, or finds it there already."""
    root = parent / f"{planned.name}-{fingerprint(planned)[:8]}"
    data = root / "data"
    if not is_complete(root, planned):
        shutil.rmtree(root, ignore_errors=True)
        for directory in sorted({str(Path(path).parent) for path, _ in planned.files}):
            (data / directory).mkdir(parents=True, exist_ok=True)
        for path, size in planned.files:
            write_file(data / path, size, random.Random(f"{planned.seed}/{planned.name}/{path}"))
        (root / ".stamp").write_text(fingerprint(planned))
    return Dataset(planned.name, data, len(planned.files), planned.size)


def repeated(dataset: Dataset, times: int) -> Dataset:
    """The set `times` over as one tree of hard links: one command moves more, memory holds it once."""
    if times == 1:
        return dataset
    root = dataset.root.parent / f"times{times}"
    if not root.is_dir():
        partial = root.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        for i in range(times):
            shutil.copytree(dataset.root, partial / f"r{i}", copy_function=os.link)
        partial.rename(root)
    return Dataset(dataset.name, root, dataset.files * times, dataset.size * times)
