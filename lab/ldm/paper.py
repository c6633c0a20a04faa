"""What the LDM paper published: table II, figures 3 and 4 and training, to be shown beside ours."""

from lab.pages.published import Published, quotient

# Gbit/s and mean concurrency, on sets A to D.
TABLE_II: dict[str, dict[str, tuple[float, float]]] = {
    "Globus": {"A": (4.1, 32), "B": (5.3, 32), "C": (2.5, 64), "D": (5.2, 64)},
    "Falcon": {"A": (23.7, 16.4), "B": (22.2, 11.8), "C": (0.7, 27.6), "D": (3.4, 14.4)},
    "DRL": {"A": (39.5, 20.7), "B": (24.1, 16.8), "C": (1.2, 47.5), "D": (4.0, 16.8)},
    "LDM-GD": {"A": (34.9, 11.7), "B": (36.4, 12.3), "C": (11.3, 2.4), "D": (32.7, 3.8)},
    "LDM": {"A": (40.5, 15.1), "B": (41.8, 15.5), "C": (11.5, 3.8), "D": (35.3, 8.6)},
}
# The standard deviations of the rates.
DEVIATIONS = {"Globus": (0.1, 0.2, 0.1, 0.6), "Falcon": (1.4, 1.4, 0.1, 0.5), "DRL": (0.1, 7.0, 0.5, 0.1),
              "LDM-GD": (1.7, 3.0, 0.6, 2.5), "LDM": (1.2, 0.2, 0.3, 2.7)}
# Seconds until a method first has its mean throughput.
FIGURE_3 = {"Falcon": 46.0, "LDM-GD": 40.0, "DRL": 3.0, "LDM": 6.0}
# Figure 4: streams that are left, each with a file of its own, while the rate goes down: 9, 6 and 3 Gbit/s.
FIGURE_4 = (3, 2, 1)
TRAINING = "8,525 ± 5,065 episodes in 156 ± 88 s (33–222 s), 55 episodes/s, 15 seeds"
# The round trip that the scaled path shares.
RTT_S = 0.09


def headline(other: str, dataset: str) -> Published:
    """LDM's rate by that of another."""
    ldm, theirs = ((TABLE_II[row][dataset][0], DEVIATIONS[row]["ABCD".index(dataset)]) for row in ("LDM", other))
    return quotient(ldm, theirs)
