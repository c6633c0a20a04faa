"""HTCondor's starter, as far as a plug-in for transfers sees it: how it is invoked, and what its answers must be.

Ads are written and read by HTCondor's own ClassAd library (the package htcondor of the Python index).
"""

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import classad2

TIDEGATE = Path(os.environ.get("TIDEGATE", "target/debug/tidegate")).resolve()

# What HTCondor fills the file of answers with before it starts a plug-in.
PREFILLED = 301 * 64

# What each type of error must tell besides.
STANZAS = {
    "Parameter": ["PluginVersion", "PluginLaunched"],
    "Resolution": ["FailedName", "FailureType"],
    "Contact": ["FailedServer"],
    "Authorization": ["FailedServer", "FailureType", "ShouldRefresh"],
    "Specification": ["FailedServer"],
    "Transfer": ["FailedServer"],
}
FAILURES = {
    "Resolution": {"Definitive", "PreContact", "PostContact"},
    "Authorization": {"Authentication", "Authorization"},
    # None of these is true of content that does not match.
    "Transfer": {"TooSlow", "NoSpace", "TimedOut", "Quota", None},
}


@dataclass
class Answered:
    """How an invocation ended."""

    code: int
    ads: list
    said: str
    bytes: int

    def of(self, name):
        """The answer for a local file."""
        return next(ad for ad in self.ads if ad["TransferFileName"].endswith(name))

    def error(self, name):
        """The structured error of a local file that failed."""
        return self.of(name)["TransferErrorData"][0]


class Starter:
    """A job's scratch directory, and the plug-in."""

    def __init__(self, directory):
        self.scratch = Path(directory)
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.plugin = self.scratch.parent / "tidegate-condor-plugin"
        if not self.plugin.exists():
            self.plugin.symlink_to(TIDEGATE)
        self.infile, self.outfile = self.scratch / ".job.in", self.scratch / ".job.out"

    def environment(self, **more):
        base = {"PATH": os.environ["PATH"], "HOME": str(self.scratch.parent / "home")}
        return {name: value for name, value in (base | more).items() if value is not None}

    def query(self, **environment):
        ran = subprocess.run(
            [self.plugin, "-classad"], capture_output=True, text=True, timeout=20, env=self.environment(**environment)
        )
        return ran.returncode, classad2.parseOne(ran.stdout), ran.stderr

    def begin(self, pairs, upload=False, text=None, words=None, prefilled=PREFILLED, environment=None, within=None):
        """Invokes the plug-in for pairs of URL and local name; `text` is the input file where it is none of ours."""
        ads = [classad2.ClassAd({"Url": url, "LocalFileName": name}) for url, name in pairs]
        self.infile.write_text("\n".join(map(str, ads)) if text is None else text)
        self.outfile.write_bytes(b" " * prefilled)
        self.inode = self.outfile.stat().st_ino
        said = words or ["-infile", str(self.infile), "-outfile", str(self.outfile), *(["-upload"] if upload else [])]
        self.log = tempfile.TemporaryFile(mode="w+")
        self.asked = (pairs, upload, prefilled)
        self.process = subprocess.Popen(
            [*(within or []), self.plugin, *said],
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env=self.environment(**(environment or {})),
            cwd=self.scratch,
        )
        return self

    def end(self):
        """Waits for its end, and holds the answers against the contract."""
        code = self.process.wait(timeout=120)
        with self.log as log:
            log.seek(0)
            said = log.read()
        pairs, upload, prefilled = self.asked
        text = self.outfile.read_text()
        answered = Answered(code, list(classad2.parseAds(text)), said, len(text.encode()))
        assert self.outfile.stat().st_ino == self.inode, "the file of answers was replaced"
        assert answered.bytes >= prefilled, "the file of answers was truncated"
        told = sorted((ad["TransferUrl"], ad["TransferFileName"]) for ad in answered.ads)
        assert told == sorted(pairs), f"not one answer a request: {told} {said}"
        for ad in answered.ads:
            check(ad, upload)
        assert (code == 0) == all(ad["TransferSuccess"] for ad in answered.ads), (code, said)
        # 2 means that credentials are to be renewed, which ours never are.
        assert code in (0, 1), (code, said)
        left = [path.name for path in self.scratch.iterdir() if path.name.startswith(".job") and path not in (self.infile, self.outfile)]
        assert not left, left
        return answered

    def invoke(self, pairs, **how):
        return self.begin(pairs, **how).end()

    def misuse(self, words, text=""):
        """An invocation that can have no answers; its exit code and what it says."""
        self.infile.write_text(text)
        self.outfile.write_bytes(b" " * PREFILLED)
        ran = subprocess.run([self.plugin, *words], capture_output=True, text=True, timeout=60, env=self.environment())
        assert self.outfile.read_text().strip() == "", "answers to nothing"
        return ran.returncode, ran.stdout + ran.stderr


def check(ad, upload):
    """Holds one answer against the contract."""
    success = ad["TransferSuccess"]
    assert isinstance(success, bool)
    assert ad["TransferType"] == ("upload" if upload else "download")
    scheme, is_url, _ = ad["TransferUrl"].partition("://")
    assert ad["TransferProtocol"] == (scheme.lower() if is_url else "")
    for name in ("TransferFileBytes", "TransferTotalBytes", "TransferStartTime", "TransferEndTime"):
        assert type(ad[name]) is int and ad[name] >= 0, name
    assert ad["TransferStartTime"] <= ad["TransferEndTime"]
    path = Path(ad["TransferFileName"])
    if success:
        assert "TransferError" not in ad and "TransferErrorData" not in ad
        assert path.exists()
        if path.is_file():
            assert ad["TransferFileBytes"] == path.stat().st_size
        return
    assert ad["TransferError"] and "\n" not in ad["TransferError"]
    errors = ad["TransferErrorData"]
    assert len(errors) >= 1
    for error in errors:
        assert type(error["ErrorCode"]) is int and error["ErrorString"]
        assert type(error["Retryable"]) is int and error["Retryable"] >= -1
        for name in STANZAS[error["ErrorType"]]:
            assert name in error, (name, str(error))
        if error["ErrorType"] in FAILURES:
            assert error.get("FailureType") in FAILURES[error["ErrorType"]], str(error)
