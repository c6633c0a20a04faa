"""The downloaders of the sequence archives against the stand-in archive (`standin/`), each at its defaults.

Those that cannot be told of another server are led to it by names: the receiver's hosts file has the archives' names,
and nginx in the sender's namespace answers to them, with a certificate of an authority made for the run. Such
programs get a part of the runs, at their one connection; `tidegate` gets all of them.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from lab.ground import places
from lab.runs.datasets import Dataset
from lab.get.ours import Tidegate
from lab.get.sets import File, Listed, only
from lab.get.trial import ARCHIVE, Fetcher, GetTrial, home
from lab.links.link import SENDER_ADDRESS
from lab.ground.shell import CommandFailed, run
from lab.runs import nginx
from lab.runs.trial import Command

API_PORT, HTTP, HTTPS = 9000, 80, 443
RUNS, RUN_MB = 16, 120.0
# One connection would take minutes over all.
SHARE = 4 / RUNS
NAMES = ("www.ebi.ac.uk", "ftp.sra.ebi.ac.uk", "locate.ncbi.nlm.nih.gov", "eutils.ncbi.nlm.nih.gov",
         "www.ncbi.nlm.nih.gov", "trace.ncbi.nlm.nih.gov", "sra-pub-run-odp.s3.amazonaws.com",
         "sra-pub-run-odp.s3.us-east-1.amazonaws.com")
VENV = places.BUILD / "lab" / "venv"
PYPI = ("fastq-dl", "kingfisher", "pysradb")
PLAIN = f"http://{SENDER_ADDRESS}"
BARE = "http://ftp.sra.ebi.ac.uk"

SERVER = """
        listen {address}:80;
        listen {address}:443 ssl;
        ssl_certificate {scratch}/tls.crt;
        ssl_certificate_key {scratch}/tls.key;
        root {root};
        location ~ ^/(ena|entrez|sdl)/ {{ proxy_pass http://{address}:{api}; proxy_set_header Host $host; }}
        location = /runs.json {{ return 404; }}
"""


def make(root: Path, count: int, megabytes: float, seed: int) -> list[str]:
    """Makes the archive's runs, or finds them there; returns their accessions."""
    stamp = root / ".stamp"
    wanted = f"{count} {megabytes} {seed}"
    if not stamp.exists() or stamp.read_text() != wanted:
        run(["env", f"PYTHONPATH={places.REPOSITORY}", "python3", "-m", "standin", "make", "--root", root, "--runs",
             count, "--mb", megabytes, "--seed", seed, "--shapes", "paired"])
        stamp.write_text(wanted)
    return [each["columns"]["run_accession"] for each in described(root)]


def described(root: Path) -> list[dict[str, dict[str, str]]]:
    found: list[dict[str, dict[str, str]]] = json.loads((root / "runs.json").read_text())["runs"]
    return found


def files_of(root: Path, kind: str) -> tuple[File, ...]:
    """The files of every run in one format, under the names they get."""
    return tuple(File(str(file["name"]), int(file["bytes"]), str(file["md5"]))  # type: ignore[index]
                 for each in described(root) for file in each[kind])


def runs(seed: int) -> Listed:
    """The set of the archive: FASTQ files, two a run."""
    root = places.SOURCES / "archive"
    only(root)
    make(root, RUNS, RUN_MB, seed)
    files = files_of(root, "fastq")
    return Listed(Dataset("runs", root, len(files), sum(file.size for file in files)), files)


class Standin:
    """The interfaces in Python, and nginx before them for the files."""

    def __init__(self, trial: GetTrial, root: Path, bare: bool) -> None:
        self.trial = trial
        self.certificate()
        server = SERVER.format(scratch=trial.scratch, root=root, address=SENDER_ADDRESS, api=API_PORT)
        nginx.start(trial, nginx.configuration(trial.scratch, server), HTTP)
        argv = ["python3", "-m", "standin", "--root", root, "--address", SENDER_ADDRESS, "--port", API_PORT,
                "--data-url", BARE if bare else PLAIN, *(["--real-names"] if bare else [])]
        trial.serve(Command(trial.link.sender, argv, environment={"PYTHONPATH": str(places.REPOSITORY)}), API_PORT)
        self.urls = interfaces(trial)
        names = Path("/etc/netns") / trial.link.receiver / "hosts"
        told = f"{SENDER_ADDRESS} {' '.join(NAMES)}\n"
        if told not in names.read_text():
            names.write_text(names.read_text() + told)

    def certificate(self) -> None:
        """An authority of its own, and a server's certificate for all the names."""
        scratch = self.trial.scratch
        new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", 2]
        run([*new, "-keyout", scratch / "ca.key", "-out", scratch / "ca.crt", "-subj", "/CN=stand-in authority"])
        subject = ",".join([*(f"DNS:{name}" for name in NAMES), f"IP:{SENDER_ADDRESS}"])
        run([*new, "-CA", scratch / "ca.crt", "-CAkey", scratch / "ca.key", "-keyout", scratch / "tls.key",
             "-out", scratch / "tls.crt", "-subj", "/CN=stand-in", "-addext", f"subjectAltName={subject}",
             "-addext", "basicConstraints=critical,CA:FALSE"])

    def requests(self) -> int:
        """How many requests the interfaces have had."""
        said = self.trial.link.inside(self.trial.link.sender, "curl", "-sS", "--fail", self.urls["requests_url"])
        return sum(count for path, count in json.loads(said).items() if path not in ("data", "/standin/requests"))


def interfaces(trial: GetTrial) -> Mapping[str, str]:
    """The line that the stand-in prints when it is ready."""
    found: Mapping[str, str] = json.loads(trial.first_line("the stand-in archive printed no addresses"))
    return found


def told(trial: GetTrial) -> list[object]:
    """Where `tidegate get` finds the interfaces."""
    found = interfaces(trial)
    return [word for name in ("ena", "eutils", "sdl") for word in (f"--{name}-url", found[f"{name}_url"])]


class Archive(Fetcher):
    """A downloader by accession. It gets the first of the runs, as many as its share."""

    family = ARCHIVE
    connections: float | None = 1.0
    share = SHARE
    bare = True
    kind = "fastq"
    # Under which name a file is there.
    landed = "{name}"
    ports = (HTTP, HTTPS)

    def serve(self, trial: GetTrial) -> None:
        Standin(trial, trial.source.root, self.bare)

    def accessions(self, trial: GetTrial) -> list[str]:
        everything = [each["columns"]["run_accession"] for each in described(trial.source.root)]
        return everything[:max(1, round(len(everything) * self.share))]

    def fetched(self, trial: GetTrial) -> tuple[File, ...]:
        wanted = self.accessions(trial)
        found = ((re.split("[._]", file.path)[0], file) for file in files_of(trial.source.root, self.kind))
        return tuple(replace(file, path=self.landed.format(run=accession, name=file.path))
                     for accession, file in found if accession in wanted)

    def environment(self, trial: GetTrial) -> Mapping[str, str]:
        authority = str(trial.scratch / "ca.crt")
        path = f"{VENV / 'bin'}:{os.environ.get('PATH', '')}"
        return {**super().environment(trial), "SSL_CERT_FILE": authority, "REQUESTS_CA_BUNDLE": authority,
                "CURL_CA_BUNDLE": authority, "PATH": path}

    def write(self, trial: GetTrial) -> None:
        authority = trial.scratch / "ca.crt"
        (home(trial) / ".wgetrc").write_text(f"ca_certificate = {authority}\n")
        (home(trial) / ".aria2").mkdir(exist_ok=True)
        # Its own resolver would not look into the hosts file.
        (home(trial) / ".aria2" / "aria2.conf").write_text(f"async-dns=false\nca-certificate={authority}\n")


class TidegateAccessions(Archive, Tidegate):
    share = 1.0
    connections = None
    bare = False
    programs = ("nginx", "openssl", "curl")

    def __init__(self) -> None:
        Tidegate.__init__(self, "tidegate, accessions")

    def argv(self, trial: GetTrial) -> list[object]:
        return [*super().argv(trial), *told(trial)]

    def write(self, trial: GetTrial) -> None:
        (trial.scratch / "list").write_text("".join(run_ + "\n" for run_ in self.accessions(trial)))


class Prefetch(Archive):
    """It asks SDL, and is told where by its settings."""

    name = "prefetch, default"
    trust = "size and MD5 of SDL"
    programs = ("prefetch", "nginx", "openssl", "curl")
    kind = "sra"
    landed = "{run}/{run}.sra"
    bare = False

    def write(self, trial: GetTrial) -> None:
        (home(trial) / ".ncbi").mkdir(exist_ok=True)
        (home(trial) / ".ncbi" / "user-settings.mkfg").write_text(
            '/LIBS/GUID = "8badf00d-0000-4000-8000-000000000001"\n'
            f'/repository/remote/main/SDL.2/resolver-cgi = "http://{SENDER_ADDRESS}:{API_PORT}/sdl/2/retrieve"\n')

    def argv(self, trial: GetTrial) -> list[object]:
        return ["prefetch", "--output-directory", trial.destination, *self.accessions(trial)]


class Python(Archive):
    """From the Python package index, in an environment of its own."""

    program: str

    def missing(self) -> str | None:
        if reason := super().missing():
            return reason
        there = (VENV / "bin" / self.program).exists()
        return None if there else f"{self.program} is not installed; run: python3 -m lab install"

    def version(self) -> str:
        said = run([VENV / "bin" / "pip", "show", self.program], check=False)
        return next((line.removeprefix("Version: ") for line in said.splitlines() if line.startswith("Version: ")), "")

    def each(self, trial: GetTrial, *argv: object) -> list[object]:
        """One accession after the other, as these take them."""
        words = " ".join(str(word) for word in argv)
        return ["sh", "-ec", f'for run in "$@"; do {words} "$run"; done', "sh", *self.accessions(trial)]


class FastqDl(Python):
    name = "fastq-dl, default"
    trust = "MD5 of ENA"
    program = "fastq-dl"
    programs = ("wget", "nginx", "openssl", "curl")

    def argv(self, trial: GetTrial) -> list[object]:
        # By default it asks for FTP, which this server does not speak.
        return self.each(trial, "fastq-dl", "--protocol", "https", "--only-provider", "--outdir", trial.destination,
                         "--accession")


class Kingfisher(Python):
    """By the mirror of SRA on AWS, which is what its manual begins with where Aspera is not to be had."""

    name = "kingfisher, aws-http"
    program = "kingfisher"
    programs = ("aria2c", "pigz", "nginx", "openssl", "curl")
    kind = "sra"
    landed = "{run}.sra"

    def argv(self, trial: GetTrial) -> list[object]:
        return self.each(trial, "kingfisher", "get", "-m", "aws-http", "-f", "sra", "--output-directory",
                         trial.destination, "-r")


class Pysradb(Python):
    """With eight threads, as the paper has it; told of the files by a table, since its own addresses are gone."""

    name = "pysradb -t 8"
    program = "pysradb"
    connections = 8.0
    kind = "sra"
    landed = "SRP1/SRX1/{run}.sra"

    def write(self, trial: GetTrial) -> None:
        super().write(trial)
        rows = ["\t".join(("study_accession", "experiment_accession", "run_accession", "public_url"))]
        for run_, file in zip(self.accessions(trial), files_of(trial.source.root, "sra")):
            rows.append("\t".join(("SRP1", "SRX1", run_, f"https://{NAMES[-2]}/sra/{run_}/{file.path}")))
        (trial.scratch / "list").write_text("\n".join(rows) + "\n")

    def argv(self, trial: GetTrial) -> list[object]:
        return ["sh", "-ec", f"pysradb download -y -t 8 --out-dir {trial.destination} < {trial.scratch / 'list'}"]


def archive() -> list[Fetcher]:
    return [TidegateAccessions(), Prefetch(), FastqDl(), Kingfisher(), Pysradb()]


def install() -> None:
    """The programs of the Python package index, each alone, so that one absence costs one contender."""
    if not (VENV / "bin" / "pip").exists():
        run(["python3", "-m", "venv", VENV])
    for name in PYPI:
        if not (VENV / "bin" / name).exists():
            try:
                run([VENV / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", name])
                print(f"installed {name}")
            except CommandFailed as failure:
                print(f"not installable: {failure}")
