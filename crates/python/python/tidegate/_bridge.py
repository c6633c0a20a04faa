"""A rule that decides nothing: hands on lines between a running `tidegate` and the environment that decides.

Run as a script by its file, without the package: `python3 -I -S _bridge.py DESCRIPTOR` of a socket that is inherited.
"""

import os
import select
import sys


def main() -> None:
    """Hands on what comes, either way, until one side has gone."""
    socket = int(sys.argv[1])
    ways = {0: socket, socket: 1}
    while True:
        for come in select.select(list(ways), [], [])[0]:
            try:
                data = os.read(come, 1 << 16)
                if not data:
                    return
                while data:
                    data = data[os.write(ways[come], data) :]
            except OSError:
                return


if __name__ == "__main__":
    main()
