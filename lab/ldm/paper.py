"""What the LDM paper published: table II, figure 3 and training, to be shown beside ours."""

# Gbit/s and mean concurrency, on sets A to D.
TABLE_II: dict[str, dict[str, tuple[float, float]]] = {
    "Globus": {"A": (4.1, 32), "B": (5.3, 32), "C": (2.5, 64), "D": (5.2, 64)},
    "Falcon": {"A": (23.7, 16.4), "B": (22.2, 11.8), "C": (0.7, 27.6), "D": (3.4, 14.4)},
    "DRL": {"A": (39.5, 20.7), "B": (24.1, 16.8), "C": (1.2, 47.5), "D": (4.0, 16.8)},
    "LDM-GD": {"A": (34.9, 11.7), "B": (36.4, 12.3), "C": (11.3, 2.4), "D": (32.7, 3.8)},
    "LDM": {"A": (40.5, 15.1), "B": (41.8, 15.5), "C": (11.5, 3.8), "D": (35.3, 8.6)},
}
# Seconds until a method first has its mean throughput.
FIGURE_3 = {"Falcon": 46.0, "LDM-GD": 40.0, "DRL": 3.0, "LDM": 6.0}
TRAINING = "8,525 ± 5,065 episodes in 156 ± 88 s (33–222 s), 55 episodes/s, 15 seeds"
# The round trip that the scaled path shares.
RTT_S = 0.09


def headline(other: str, dataset: str) -> float:
    """LDM's rate by that of another."""
    return TABLE_II["LDM"][dataset][0] / TABLE_II[other][dataset][0]
