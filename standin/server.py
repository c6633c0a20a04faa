"""The server: interfaces and files at one address, with the faults that were asked for, and a count of requests."""

import json
import socket
import struct
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from standin.answer import Answer, text
from standin.catalogue import Catalogue
from standin.ena import Ena
from standin.eutils import Eutils, rate_limited
from standin.faults import Faults
from standin.sdl import Sdl

LONGEST_FORM = 4 << 20
BLOCK = 64 << 10
ENA, EUTILS, SDL, COUNTS = "/ena/portal/api/", "/entrez/eutils/", "/sdl/2/retrieve", "/standin/requests"
ENA_HOST, AWS_URL = "ftp.sra.ebi.ac.uk", "https://sra-pub-run-odp.s3.amazonaws.com"
PAGE = b"<!DOCTYPE html>\n<html><head><title>Service page</title></head><body>Please come back later.</body></html>\n"


class Server(ThreadingHTTPServer):
    """What the handlers share."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], root: Path, faults: Faults, data_url: str | None,
                 real_names: bool) -> None:
        super().__init__(address, Handler)
        here = f"http://{address[0]}:{self.server_port}"
        self.root, self.faults, self.here = root.resolve(), faults, here
        self.data_url = (data_url or here).rstrip("/")
        catalogue = Catalogue(root)
        # ENA names places without a scheme.
        at_ena, at_ncbi = (ENA_HOST, AWS_URL) if real_names else (self.data_url, self.data_url)
        self.ena = Ena(catalogue, at_ena, faults.empty, faults.refuses, faults.search_lacks, faults.cut,
                       faults.lacks_column)
        self.eutils = Eutils(catalogue, at_ncbi, faults.no_runinfo_header, faults.strict_ids)
        self.sdl = Sdl(catalogue, at_ncbi)
        self.counts: Counter[str] = Counter()
        self.lock = threading.Lock()

    def urls(self) -> dict[str, str]:
        """What a client has to be told."""
        return {"ena_url": self.here + ENA.rstrip("/"), "eutils_url": self.here + EUTILS.rstrip("/"),
                "sdl_url": self.here + SDL, "aws_url": self.data_url, "data_url": self.data_url,
                "requests_url": self.here + COUNTS}

    def handle_error(self, request, client_address) -> None:
        """A client that went away is nothing to tell of."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 60
    disable_nagle_algorithm = True

    def log_message(self, *_) -> None:
        """Nothing: the counts say enough."""

    def do_GET(self) -> None:
        self.handle_one()

    def do_HEAD(self) -> None:
        self.handle_one()

    def do_POST(self) -> None:
        self.handle_one()

    def handle_one(self) -> None:
        """One request."""
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        if length > LONGEST_FORM:
            self.close_connection = True
            return self.send(Answer(413))
        pairs = parse_qsl(parts.query) + parse_qsl(self.rfile.read(length).decode("utf-8", "replace"))
        arguments: dict[str, str] = {}
        for name, value in pairs:
            # SDL takes `acc` again and again.
            arguments[name] = f"{arguments[name]},{value}" if name in arguments and name == "acc" else value
        with self.server.lock:
            self.server.counts[parts.path if parts.path.startswith((ENA, EUTILS, SDL)) else "data"] += 1
        if parts.path == COUNTS:
            faults = self.server.faults
            bodies = {"bodies_at_once": faults.most, "bodies_refused": faults.refused}
            return self.send(text(json.dumps(self.server.counts | bodies), "application/json"))
        if parts.path.startswith((ENA, EUTILS)) or parts.path == SDL:
            return self.send(self.interface(parts.path, arguments))
        return self.file(unquote(parts.path))

    def interface(self, path: str, arguments: dict[str, str]) -> Answer:
        """What an interface answers, or what goes wrong instead."""
        faults = self.server.faults
        if faults.slow:
            time.sleep(faults.slow)
        struck = path.startswith({"ena": ENA, "eutils": EUTILS, "sdl": SDL, "": "/"}[faults.at])
        wrong = self.wrong(arguments) if struck else None
        if wrong is not None:
            return wrong
        if path == SDL:
            return self.server.sdl.retrieve(arguments)
        if path.startswith(ENA):
            return self.server.ena.answer(path.removeprefix(ENA), arguments)
        return self.server.eutils.answer(path.removeprefix(EUTILS), arguments)

    def wrong(self, arguments: dict[str, str]) -> Answer | None:
        """What goes wrong this time."""
        faults = self.server.faults
        patience = {"Retry-After": f"{faults.retry_after:g}"} if faults.retry_after else {}
        if faults.too_many_requests():
            limit = {"X-RateLimit-Limit": "3", "X-RateLimit-Remaining": "0"}
            return Answer(429, rate_limited(arguments), "application/json", patience | limit)
        if faults.take("limit_in_200"):
            return Answer(200, rate_limited(arguments), "application/json")
        if faults.take("html"):
            return Answer(200, PAGE, "text/html")
        if faults.take("fail"):
            return Answer(faults.fail_status, b"an error was asked for", "text/plain", patience)
        return None

    def send(self, answer: Answer) -> None:
        """An answer held in memory."""
        self.send_response(answer.status)
        if answer.status != 204:
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(answer.body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD" and answer.status != 204:
            self.wfile.write(answer.body)

    def file(self, name: str) -> None:
        """A file of the data set, or a part of it."""
        faults, path = self.server.faults, (self.server.root / name.lstrip("/")).resolve()
        if not path.is_relative_to(self.server.root) or not path.is_file() or path.name == "runs.json":
            return self.send(Answer(404, b"not found"))
        if self.command == "HEAD":
            return self.body(path)
        if not faults.enter():
            if not faults.busy:
                return self.reset()
            patience = {"Retry-After": f"{faults.retry_after:g}"} if faults.retry_after else {}
            return self.send(Answer(faults.busy, b"too many connections", "text/plain", patience))
        try:
            return self.body(path)
        finally:
            faults.leave()

    def reset(self) -> None:
        """Ends the connection without an answer: to close with no time to linger resets it."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def body(self, path: Path) -> None:
        """Header lines and bytes."""
        faults, size = self.server.faults, path.stat().st_size
        tag = f'"{path.stat().st_mtime_ns:x}-{size:x}"'
        start, end, part = 0, size, None
        if not faults.ignore_ranges and self.headers.get("If-Range", tag) == tag:
            part = asked(self.headers.get("Range"), size)
        if part is not None:
            start, end = part
            if start >= size:
                unsatisfied = {"Content-Range": f"bytes */{size}"}
                return self.send(Answer(416, b"", "text/plain", unsatisfied))
        self.send_response(200 if part is None else 206)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(end - start))
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        self.send_header("ETag", tag)
        if part is not None:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        if not faults.ignore_ranges:
            self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if self.command != "HEAD":
            self.pour(path, start, end, faults.drop_at())

    def pour(self, path: Path, start: int, end: int, drop_at: int | None) -> None:
        """The bytes, at the rate of the connection, up to where it is dropped."""
        rate, begun, sent = self.server.faults.connection_rate, time.monotonic(), 0
        with open(path, "rb") as file:
            file.seek(start)
            while sent < end - start:
                block = file.read(min(BLOCK, end - start - sent))
                if drop_at is not None and sent + len(block) > drop_at:
                    self.wfile.write(block[:drop_at - sent])
                    self.close_connection = True
                    return
                self.wfile.write(block)
                sent += len(block)
                if rate:
                    time.sleep(max(0.0, begun + sent / rate - time.monotonic()))


def asked(header: str | None, size: int) -> tuple[int, int] | None:
    """The one part that a `Range` line asks for; `None` for the whole."""
    if header is None or not header.startswith("bytes=") or "," in header:
        return None
    first, _, last = header.removeprefix("bytes=").partition("-")
    if not (first.isdigit() or (first == "" and last.isdigit())) or not (last == "" or last.isdigit()):
        return None
    if first == "":
        return max(0, size - int(last)), size
    return int(first), min(size, int(last) + 1) if last else size
