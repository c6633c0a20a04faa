"""Other traffic is taken out of what arrived."""

import unittest

from lab.links.background import Arrived
from lab.runs.sampler import arrived, connections, counts, others, without, without_headers

ARRIVED = [Arrived(100.0, 0, 0), Arrived(101.0, 1000, 2), Arrived(102.0, 1000, 0)]
SAMPLES = [(0.0, 0, 0), (0.5, 700, 3), (1.0, 1200, 3), (2.0, 1250, 1)]


class Others(unittest.TestCase):
    def test_between_its_samples_it_moves_evenly(self) -> None:
        self.assertEqual([arrived(ARRIVED, s) for s in (99.0, 100.0, 100.5, 101.5, 103.0)], [0, 0, 500, 1000, 1000])

    def test_the_rest_is_what_is_left(self) -> None:
        foreign = others(SAMPLES, 100.5, ARRIVED)
        self.assertEqual(foreign, [(0.0, 0), (0.5, 500), (1.0, 500), (2.0, 500)])
        self.assertEqual(without(SAMPLES, foreign), [(0.0, 0, 0), (0.5, 200, 3), (1.0, 700, 3), (2.0, 750, 1)])

    def test_what_waits_in_a_socket_is_set_right_later(self) -> None:
        rest = without([(0.0, 0, 0), (0.5, 100, 1), (1.0, 150, 1)], [(0.0, 0), (0.5, 0), (1.0, 90)])
        self.assertEqual([bytes_ for _, bytes_, _ in rest], [0, 100, 60])

    def test_without_others_nothing_changes(self) -> None:
        self.assertEqual(without(SAMPLES, others(SAMPLES, 100.0, [])), SAMPLES)

    def test_their_connections_are_not_ours(self) -> None:
        row = "   0: 0200630A:{:04X} 0100630A:9C40 01 00000000:00000000 00:00000000 00000000 0 0 1"
        table = "\n".join(["heads", row.format(5909), row.format(7000)])
        self.assertEqual((connections(table, None), connections(table, None, 5909)), (2, 1))

    def test_headers_are_paid_once_a_packet(self) -> None:
        device = "heads\n  veth0: 3000 2 0 0 0 0 0 0 52 1 0 0 0 0 0 0\n"
        self.assertEqual(without_headers(*counts(device, "veth0")), 2 * 1448)
