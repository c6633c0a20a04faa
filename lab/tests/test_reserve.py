"""Memory held for a destination: makes way for what comes, and takes back what goes."""

import tempfile
import unittest
from pathlib import Path
from unittest import mock

from lab.ground import reserve
from lab.ground.reserve import Reserve

MIB = 1 << 20


class TestReserve(unittest.TestCase):
    def setUp(self) -> None:
        directory = self.enterContext(tempfile.TemporaryDirectory())
        self.enterContext(mock.patch("lab.ground.places.MEMORY", Path(directory)))
        self.enterContext(mock.patch.object(reserve, "AHEAD", MIB))
        self.copied = 0
        self.held: Reserve | None = None
        self.file = Path(directory) / "reserve"
        # Others use the file system of the test as well.
        self.enterContext(mock.patch.object(reserve, "used", self.used))

    def used(self, _: int) -> int:
        return 7 * MIB + self.copied + (self.held.held if self.held else 0)

    def test_it_shrinks_ahead_of_a_copy_and_grows_when_that_is_gone(self) -> None:
        with Reserve(8 * MIB) as self.held:
            self.assertEqual(self.file.stat().st_size, 8 * MIB)
            self.copied = 3 * MIB
            self.held.give_way()
            self.assertEqual(self.file.stat().st_size, 4 * MIB)
            self.held.give_way()
            self.assertEqual(self.file.stat().st_size, 4 * MIB, "nothing more was copied")
            self.copied = 20 * MIB
            self.held.give_way()
            self.assertEqual(self.file.stat().st_size, 0)
            self.copied = 0
            self.held.fill()
            self.assertEqual(self.file.stat().st_size, 8 * MIB)
        self.assertEqual(self.file.stat().st_size, 0)

    def test_it_makes_way_while_a_run_lasts(self) -> None:
        with Reserve(8 * MIB) as self.held:
            with self.held.giving():
                self.assertEqual(self.held.held, 7 * MIB, "a little ahead")
                self.copied = 2 * MIB
                while self.held.held > 5 * MIB:
                    pass
            self.copied = 0
            self.held.fill()
            self.assertEqual(self.held.held, 8 * MIB)

    def test_nothing_is_held_for_a_run_without_files(self) -> None:
        with Reserve(0) as self.held, self.held.giving():
            self.assertEqual(self.held.held, 0)

    def test_it_never_takes_more_than_half_of_what_is_there(self) -> None:
        with mock.patch.object(reserve, "available", lambda: 4 * MIB):
            self.assertEqual(Reserve(8 * MIB).size, 2 * MIB)
