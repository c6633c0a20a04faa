"""An endpoint and a stand-in for the archives, each a program of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).parents[1]
TIDEGATE = Path(os.environ.get("TIDEGATE", ROOT / "target/debug/tidegate")).resolve()


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """What transfers remember is the tests' own."""
    directory = tmp_path_factory.mktemp("world")
    os.environ |= {"HOME": str(directory), "XDG_CACHE_HOME": str(directory / "cache"), "TIDEGATE_STATE": str(directory / "state")}
    return directory


@pytest.fixture(scope="session")
def endpoint(world):
    """A directory that is served, and its address."""
    root = world / "there"
    root.mkdir()
    command = [TIDEGATE, "endpoint", "--root", root, "--listen", "127.0.0.1:0", "--allow-delete", "--state", world / "operator"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        address = next(line for line in process.stdout if line.startswith("tg://")).strip().rstrip("/")
        os.environ["TIDEGATE_REMOTE_DTN"] = address
        yield root, address
        process.terminate()


@pytest.fixture(scope="session")
def archive(world):
    """The runs that a stand-in for the archives has: what ENA's report says of each."""
    data = world / "archive"
    make = [sys.executable, "-m", "standin", "make", "--root", data, "--runs", "2", "--mb", "1", "--seed", "1", "--shapes", "paired"]
    subprocess.run(make, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    with subprocess.Popen([sys.executable, "-m", "standin", "--root", data], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        places = json.loads(process.stdout.readline())
        for name in ("ena", "eutils", "sdl", "aws"):
            os.environ[f"TIDEGATE_{name.upper()}_URL"] = places[f"{name}_url"]
        runs = json.loads((data / "runs.json").read_text())["runs"]
        yield [reported(run["columns"]["run_accession"]) for run in runs]
        process.terminate()


def reported(run):
    fields = "run_accession,experiment_accession,fastq_ftp,fastq_md5"
    with urlopen(f"{os.environ['TIDEGATE_ENA_URL']}/filereport?accession={run}&result=read_run&fields={fields}&format=json") as answer:
        return json.load(answer)[0]
