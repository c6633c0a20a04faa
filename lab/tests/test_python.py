"""Readers of the Python package, without a link: what they are asked for, and the page."""

import hashlib
import random
import tempfile
import unittest
from pathlib import Path
from unittest.mock import patch

from lab.ground.results import Record
from lab.python import client, ranges
from lab.python.page import bars, good, ranges_table
from lab.python.readers import FILE, OURS


def record(name: str, repeat: int, rate_bps: float) -> Record:
    return Record("python-ranges", "ranges", name, "a", repeat, 1, 1.0, ok=True, files=ranges.COUNT, seconds=2.0,
                  rate_bps=rate_bps, cpu_seconds=1.0)


class Parts(unittest.TestCase):
    def test_parts_are_the_whole_file(self) -> None:
        for size in (1, 31, 32, 1000, 2_000_000_001):
            starts, ends = client.parts(size, client.PARTS)
            self.assertEqual((starts[0], ends[-1], starts[1:]), (0, size, ends[:-1]))

    def test_what_is_read_in_the_drawn_order_has_the_hash_that_is_wanted(self) -> None:
        with tempfile.TemporaryDirectory() as held, patch.object(ranges, "COUNT", 5):
            source = ranges.make(Path(held) / "source")
            content = (source.root / FILE).read_bytes()
            starts = [ranges.STEP * i for i in random.Random(client.SEED).sample(range(5), 5)]
            read = b"".join(content[start : start + ranges.LENGTH] for start in starts)
            self.assertEqual(hashlib.blake2b(read).hexdigest(), ranges.wanted(source))
            self.assertEqual(source.size, len(read))


class ThePage(unittest.TestCase):
    def test_the_best_other_is_what_counts(self) -> None:
        rates = {OURS.name: 600e6, "s3fs": 100e6, "obstore": 200e6}
        found = good([record(name, repeat, rate) for name, rate in rates.items() for repeat in range(2)])
        [bar] = bars({}, found)
        self.assertIn("obstore", bar.what)
        self.assertEqual((bar.measured.split(" ")[0], bar.met, bar.count), ("3.00", True, 2))
        self.assertIn("| obstore | 2.00 | 5,000 |", ranges_table(found))
        found[OURS.name] = good([record(OURS.name, repeat, 390e6) for repeat in range(2)])[OURS.name]
        self.assertFalse(bars({}, found)[0].met)


if __name__ == "__main__":
    unittest.main()
