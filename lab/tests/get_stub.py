#!/usr/bin/env python3
"""Takes the command line of `tidegate get` for a list and really fetches it: for tests of the harness only."""

import argparse
import hashlib
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from queue import Empty, SimpleQueue


def entries(text: str) -> list[dict[str, str]]:
    """aria2's input file."""
    found: list[dict[str, str]] = []
    for line in text.splitlines():
        if line.startswith((" ", "\t")):
            key, _, value = line.strip().partition("=")
            found[-1][key] = value
        elif line and not line.startswith("#"):
            found.append({"url": line.split("\t")[0]})
    return found


def fetch(entry: dict[str, str], directory: Path) -> int:
    target = directory / entry.get("out", entry["url"].rpartition("/")[2])
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    begin = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(entry["url"], headers={"Range": f"bytes={begin}-"} if begin else {})
    while True:
        try:
            answer = urllib.request.urlopen(request, timeout=30)
            break
        except urllib.error.HTTPError as refused:
            if refused.code != 429:
                raise
            time.sleep(float(refused.headers["Retry-After"]))
    size = begin
    with answer, open(part, "ab") as out:
        while piece := answer.read(1 << 17):
            size += out.write(piece)
    if "checksum" in entry:
        with open(part, "rb") as file:
            if hashlib.file_digest(file, "md5").hexdigest() != entry["checksum"].removeprefix("md5="):
                raise ValueError(f"{target} is not what was declared")
    part.rename(target)
    return size


def resolved(base: str, accessions: list[str]) -> int:
    """How many runs ENA knows of these."""
    form = urllib.parse.urlencode({"result": "read_run", "fields": "run_accession,fastq_ftp", "format": "json",
                                   "limit": 0, "includeAccessionType": "run", "includeAccessions": ",".join(accessions)})
    with urllib.request.urlopen(f"{base}/search", form.encode(), timeout=30) as answer:
        return len(json.load(answer))


def main() -> int:
    if sys.argv[1:2] == ["--version"]:
        print("tidegate 0.0.0-stub")
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["get"])
    parser.add_argument("list")
    parser.add_argument("-o", "--outdir", type=Path, default=Path())
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--epochs", type=Path)
    parser.add_argument("--fixed", type=int)
    for option in ("--optimizer", "--utility-k", "--epoch", "--max-workers", "--max-connections"):
        parser.add_argument(option)
    parser.add_argument("--dry-run", action="store_true")
    for option in ("--ena-url", "--eutils-url", "--sdl-url"):
        parser.add_argument(option)
    chosen = parser.parse_args()
    if chosen.dry_run:
        print(json.dumps({"files": resolved(chosen.ena_url, Path(chosen.list).read_text().split())}))
        return 0
    workers = chosen.fixed or 4
    queue: SimpleQueue[dict[str, str]] = SimpleQueue()
    for entry in entries(Path(chosen.list).read_text()):
        queue.put(entry)
    moved, failed, began = [0], [], time.monotonic()

    def work() -> None:
        while True:
            try:
                entry = queue.get_nowait()
            except Empty:
                return
            try:
                size = fetch(entry, chosen.outdir)
                moved[0] += size
            except (OSError, ValueError) as failure:
                failed.append(f"{entry['url']}: {failure}")

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
    if chosen.epochs:
        stages = {"read": 1, "network": workers, "write": 1}
        rates = dict.fromkeys(stages, moved[0] * 8 / seconds)
        chosen.epochs.write_text(json.dumps({"t_ms": seconds * 1000, "interval_ms": seconds * 1000,
                                             "concurrency": stages, "throughput_bps": rates}) + "\n")
    print(json.dumps({"status": "failed" if failed else "done", "verified": not failed, "bytes": moved[0],
                      "pid": os.getpid()}))
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


sys.exit(main())
