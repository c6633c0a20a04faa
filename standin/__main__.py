"""python3 -m standin --root DIR: serves a made data set; python3 -m standin make --root DIR: makes one."""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from standin.faults import Faults
from standin.make import SHAPES, make
from standin.nginx import Shape, configuration
from standin.server import Server


def maker() -> argparse.ArgumentParser:
    """Options of `make`."""
    parser = argparse.ArgumentParser(prog="python3 -m standin make", description="Makes a data set.")
    parser.add_argument("--root", type=Path, required=True, help="where to make it")
    parser.add_argument("--runs", type=int, default=len(SHAPES), help="how many runs")
    parser.add_argument("--mb", type=float, default=0.25, help="MiB a run, roughly")
    parser.add_argument("--seed", type=int, default=1, help="seed of every byte")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=SHAPES,
                        help="what runs look like, one after the other; `paired` alone gives SRR runs only")
    parser.add_argument("--table-only", action="store_true", help="make no files, only the table about them")
    return parser


def server() -> argparse.ArgumentParser:
    """Options of serving."""
    parser = argparse.ArgumentParser(prog="python3 -m standin", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="the data set")
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--real-names", action="store_true",
                        help="name places as the archives do, for programs that a hosts file leads here")
    parser.add_argument("--data-url", help="where the files are, if another server has them")
    faults = parser.add_argument_group("faults")
    faults.add_argument("--requests-a-second", type=float, default=0, help="more to the interfaces get status 429")
    faults.add_argument("--connections", type=int, default=0, help="more bodies of files at once are refused")
    faults.add_argument("--busy", type=int, choices=[421, 429, 503], default=429, help="the status they get")
    faults.add_argument("--retry-after", type=float, default=0, help="seconds, in refusals")
    faults.add_argument("--drop-after", type=int, default=0, metavar="BYTES", help="drop bodies about there")
    faults.add_argument("--drop-share", type=float, default=1.0, help="which share of them")
    faults.add_argument("--drops", type=int, default=-1, help="how many at most")
    faults.add_argument("--ignore-ranges", action="store_true", help="always answer with the whole file")
    faults.add_argument("--empty", choices=["header", "204", "404", "[]"], default="header",
                        help="how ENA says `nothing`")
    faults.add_argument("--refuses", default="", metavar="ACCESSION", help="ENA answers 400 to what names it")
    faults.add_argument("--search-lacks", default="", metavar="ACCESSIONS",
                        help="ENA's search does not find these, or all")
    faults.add_argument("--limit-in-200", type=int, default=0, metavar="N", help="N times NCBI's 429 with status 200")
    faults.add_argument("--html", type=int, default=0, metavar="N", help="N times a page with status 200; -1 always")
    faults.add_argument("--fail", type=int, default=0, metavar="N", help="N times a failure; -1 always")
    faults.add_argument("--fail-status", type=int, default=503, help="its status")
    faults.add_argument("--slow", type=float, default=0, metavar="SECONDS", help="before each answer")
    faults.add_argument("--connection-rate", type=float, default=0, metavar="BYTES", help="a second, each connection")
    faults.add_argument("--no-runinfo-header", action="store_true", help="the run table without its first line")
    faults.add_argument("--cut", action="store_true", help="the last row of ENA's tables lacks its end")
    faults.add_argument("--strict-ids", action="store_true", help="NCBI answers 400 to lists with an unknown run")
    faults.add_argument("--at", choices=["ena", "eutils", "sdl"], default="", help="the interface these are of; all")
    faults.add_argument("--seed", type=int, default=1, help="seed of what is random in faults")
    nginx = parser.add_argument_group("nginx in place of Python for the files")
    nginx.add_argument("--nginx", type=Path, metavar="DIR", help="write DIR/nginx.conf, and send clients there")
    nginx.add_argument("--data-port", type=int, default=8081, help="its port")
    nginx.add_argument("--tls", nargs=3, metavar=("PORT", "CERTIFICATE", "KEY"), help="TLS beside it")
    return parser


def serve(options: argparse.Namespace) -> None:
    """Serves until it is told to stop."""
    names = ["requests_a_second", "connections", "busy", "retry_after", "drop_after", "drop_share", "drops",
             "ignore_ranges", "empty", "refuses", "search_lacks", "limit_in_200", "html", "fail", "fail_status",
             "slow", "connection_rate", "no_runinfo_header", "cut", "strict_ids", "at", "seed"]
    faults = Faults(**{name: getattr(options, name) for name in names})
    data_url = options.data_url
    if options.nginx and data_url is None:
        data_url = f"http://{options.address}:{options.data_port}"
    running = Server((options.address, options.port), options.root, faults, data_url, options.real_names)
    ready = running.urls()
    if options.nginx:
        ready["nginx"] = str(write_nginx(options, running.here))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(json.dumps(ready), flush=True)
    try:
        running.serve_forever(poll_interval=0.05)
    except (KeyboardInterrupt, SystemExit):
        running.server_close()


def write_nginx(options: argparse.Namespace, interfaces: str) -> Path:
    """Writes nginx's configuration; answers where it is."""
    tls = options.tls and (int(options.tls[0]), Path(options.tls[1]), Path(options.tls[2]))
    shape = Shape(options.address, options.data_port, interfaces, options.connection_rate, options.connections,
                  options.busy, options.retry_after, tls)
    options.nginx.mkdir(parents=True, exist_ok=True)
    place = options.nginx / "nginx.conf"
    place.write_text(configuration(options.root, options.nginx, shape, os.geteuid() == 0))
    return place


def main() -> None:
    """The command line."""
    if sys.argv[1:2] == ["make"]:
        options = maker().parse_args(sys.argv[2:])
        made = make(options.root, options.runs, options.mb, options.seed, options.shapes, not options.table_only)
        print(json.dumps({"runs": len(made["runs"]), "seed": made["seed"]}))
    else:
        serve(server().parse_args())


if __name__ == "__main__":
    main()
