#!/usr/bin/env python3
"""Random actions on a transfer that really runs, over the loopback; an agent takes their place.

pip install './crates/python[gym]'
examples/live_random.py [EPOCHS]         (the program is that of TIDEGATE, or of PATH)
"""

import sys

import tidegate

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
# Each stream is given 50 Mbit/s and all of them 200: four are enough.
path = ["--data-plane", "clear", "--limit-network", "50Mbit/s", "--limit-link", "200Mbit/s"]
env = tidegate.LiveEnv(reference_bps=200e6, epochs=epochs, epoch_ms=500, max_workers=16, options=path)
env.reset(seed=1)
over = False
while not over:
    _, reward, terminated, truncated, info = env.step(env.action_space.sample())
    print(f"{info['concurrency'][1]:>2} streams  {info['goodput_bps'] / 1e6:6.1f} Mbit/s  reward {reward:.2f}")
    over = terminated or truncated
env.close()
