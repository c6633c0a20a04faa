"""What the files of a made data set hold: valid gzip members of FASTQ, and bodies with an archive's magic.

Everything follows from a seed. Compressing is slow, so a pool of members is made once and files are strung
together from it; each file begins with a member of its own, so that no two files are alike.
"""

import gzip
import hashlib
import os
import random
from pathlib import Path

READS_PER_MEMBER = 400
READ_LENGTH = 150
POOL = 16
MAGIC_SRA = b"NCBI.sra\x05\x03\x19\x88"
BLOCK = 1 << 20


def fastq(rng: random.Random, name: str, reads: int) -> bytes:
    """Reads as text: names, bases, qualities."""
    lines = []
    for number in range(reads):
        bases = "".join(rng.choices("ACGT", k=READ_LENGTH))
        quality = "".join(rng.choices("FFFFFF:,#", k=READ_LENGTH))
        lines.append(f"@{name}.{number + 1} {number + 1}/1\n{bases}\n+\n{quality}\n")
    return "".join(lines).encode()


class Content:
    """Makes files from one seed."""

    def __init__(self, seed: int, keep: bool = True) -> None:
        self.seed, self.keep = seed, keep
        rng = random.Random(f"{seed} pool")
        self.pool = [gzip.compress(fastq(rng, f"POOL{i}", READS_PER_MEMBER), 1, mtime=0) for i in range(POOL)]

    def gzip(self, path: Path, name: str, size: int) -> tuple[int, str]:
        """A gzip file of several members, about `size` bytes long; answers its size and MD5."""
        rng = random.Random(f"{self.seed} {name}")
        first = gzip.compress(fastq(rng, name, 4), 1, mtime=0)

        def pieces():
            yield first
            left = size - len(first)
            while left > 0:
                piece = rng.choice(self.pool)
                left -= len(piece)
                yield piece

        return write(path if self.keep else None, pieces())

    def archive(self, path: Path, name: str, size: int) -> tuple[int, str]:
        """A file with the magic of an SRA archive and random bytes behind it."""
        rng = random.Random(f"{self.seed} {name}")

        def pieces():
            yield MAGIC_SRA[:size]
            left = size - len(MAGIC_SRA)
            while left > 0:
                piece = rng.randbytes(min(BLOCK, left))
                left -= len(piece)
                yield piece

        return write(path if self.keep else None, pieces())


def write(path: Path | None, pieces) -> tuple[int, str]:
    """Writes a file, if there is a place for it; answers its size and MD5."""
    size, digest = 0, hashlib.md5()
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    with open(path or os.devnull, "wb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            size += len(piece)
    return size, digest.hexdigest()
