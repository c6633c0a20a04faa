"""Downloads over a link on which each connection is held back, live: rules in turns, beside aria2.

    python3 -m lab.live_get --program PATH [--rule RULE …] [--rate MBIT] [--rtt MS] [--cap MBIT] [--files N] [--runs N]

Files of 75 MB are served from memory over HTTP with ranges, by a relay with one queue of 20 ms for all. The server's kernel paces each
connection to the cap, under cubic. A rule is `auto`, `fixed:16` or another one. Printed is the wall time from the start of a
process to its exit: the median, and each run.
"""

import argparse
import os
import re
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from lab.links.delayed import DelayedLink
from lab.links.link import SENDER_ADDRESS
from lab.live import digest, inside

PORT, FILE_BYTES, QUEUE_MS = 8080, 75_000_000, 20
# Not in the socket module.
SO_MAX_PACING_RATE = 47
ARIA2 = ("aria2c", "-q", "-j16", "-x16", "-s16", "-k1M")


def answer(connection: socket.socket, root: Path, rate: int) -> None:
    """Requests of one connection, until it ends."""
    connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    with connection, connection.makefile("rb") as asked:
        while line := asked.readline():
            method, path, _ = line.decode().split()
            headers = dict(iter(lambda: tuple(asked.readline().decode().lower().split(":", 1)), ("\r\n",)))
            with (root / path.lstrip("/")).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                wanted = re.match(r" *bytes=(\d+)-(\d*)", headers.get("range", ""))
                first, end = (int(wanted[1]), min(size, int(wanted[2] or size - 1) + 1)) if wanted else (0, size)
                status = f"206 Part\r\nContent-Range: bytes {first}-{end - 1}/{size}" if wanted else "200 OK"
                connection.sendall(f'HTTP/1.1 {status}\r\nContent-Length: {end - first}\r\nETag: "{size}"\r\n'
                                   "Accept-Ranges: bytes\r\n\r\n".encode())
                while method == "GET" and first < end:
                    first += os.sendfile(connection.fileno(), file.fileno(), first, min(end - first, 1 << 20))


def serve(root: Path, rate: int) -> None:
    """Files beneath `root`, for ever; says when it listens."""
    with socket.create_server((SENDER_ADDRESS, PORT), backlog=256) as listener:
        print("listens", flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=quietly, args=(connection, root, rate), daemon=True).start()


def quietly(connection: socket.socket, root: Path, rate: int) -> None:
    try:
        answer(connection, root, rate)
    except OSError:
        pass


def once(link: DelayedLink, command: list[str], place: Path, wanted: int) -> float:
    """How long it takes, in seconds."""
    shutil.rmtree(place / "out", ignore_errors=True)
    shutil.rmtree(place / "home", ignore_errors=True)
    (place / "out").mkdir()
    environment = os.environ | {"HOME": str(place / "home")}
    begun = time.monotonic()
    done = subprocess.run(inside(link.receiver, *command), env=environment, capture_output=True, text=True)
    took = time.monotonic() - begun
    got = sum(file.stat().st_size for file in (place / "out").rglob("*.bin"))
    if done.returncode or got != wanted:
        raise SystemExit(f"{shlex.join(command)}: {got} of {wanted} bytes: {done.stderr}")
    return took


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        serve(Path(sys.argv[2]), int(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--rule", action="append")
    parser.add_argument("--rate", type=int, default=400)
    parser.add_argument("--rtt", type=float, default=40)
    parser.add_argument("--cap", type=float, default=25)
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    os.chdir(Path(__file__).parent.parent)
    with (DelayedLink(asked.rtt, asked.rate, 0, seed=7, single=True, queue_ms=QUEUE_MS) as link,
          tempfile.TemporaryDirectory(dir="/dev/shm") as scratch):
        place = Path(scratch)
        (place / "www").mkdir()
        for i in range(asked.files):
            (place / "www" / f"f{i}.bin").write_bytes(os.urandom(FILE_BYTES))
        urls = place / "urls"
        urls.write_text("".join(f"http://{SENDER_ADDRESS}:{PORT}/f{i}.bin\n" for i in range(asked.files)))
        out = str(place / "out")
        get = {rule: [asked.program, "get", str(urls), "--outdir", out, "-q", "--optimizer", rule] for rule in asked.rule or ["auto"]}
        contenders = {f"{digest(asked.program)} {rule}": words for rule, words in get.items()}
        if shutil.which(ARIA2[0]):
            contenders[" ".join(ARIA2)] = [*ARIA2, "-d", out, "-i", str(urls)]
        server = subprocess.Popen(inside(link.sender, sys.executable, "-m", "lab.live_get", "serve", place / "www", int(asked.cap * 125_000)),
                                  stdout=subprocess.PIPE)
        try:
            assert server.stdout is not None
            server.stdout.readline()
            names = list(contenders)
            took: dict[str, list[float]] = {name: [] for name in names}
            for turn in range(asked.runs):
                for name in names[turn % len(names):] + names[:turn % len(names)]:
                    took[name].append(once(link, contenders[name], place, asked.files * FILE_BYTES))
        finally:
            server.terminate()
        print(f"{asked.files} files over {asked.rate} Mbit/s, {asked.rtt:g} ms, {asked.cap:g} Mbit/s a connection, n = {asked.runs}")
        for name, seconds in took.items():
            print(f"  {name}: {statistics.median(seconds):.1f} s ({', '.join(f'{each:.1f}' for each in seconds)})")


if __name__ == "__main__":
    main()
