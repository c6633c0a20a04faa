#!/usr/bin/env python3
"""A rule of one's own that any program could be, without a package: a line of JSON in, a line of JSON out.

tidegate copy data/ dtn:/ --optimizer exec:examples/own_rule.py         (docs/own-rule.md)
"""

import json
import sys

best, n = 0, 2
for line in sys.stdin:
    told = json.loads(line)
    if told["type"] == "epoch":
        goodput = min(told["throughput_bps"].values())  # what the slowest stage moved
        n += 1 if goodput > 1.02 * best else -1 if goodput < 0.9 * best else 0
        best = max(best, goodput)
    n = max(1, min(n, told["bounds"]["network"]["max"]))
    print(json.dumps({"setpoint": {"read": n, "network": n, "write": n}}), flush=True)
