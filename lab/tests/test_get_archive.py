"""The archives' own downloaders: what each is told, and under which names its files are to be there."""

import json
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from lab.get import archive
from lab.get.cases import ARCHIVE
from lab.get.ours import Tidegate
from lab.tests.test_get import trial_in

URLS = {"ena_url": "http://a/ena", "eutils_url": "http://a/eutils", "sdl_url": "http://a/sdl"}


def described(count: int) -> dict[str, Any]:
    def file(name: str) -> dict[str, Any]:
        return {"path": f"x/{name}", "bytes": len(name), "md5": "0" * 32, "name": name}
    names = [f"SRR900000{i}" for i in range(count)]
    return {"runs": [{"columns": {"run_accession": name}, "sra": [file(name)],
                      "fastq": [file(f"{name}_1.fastq.gz"), file(f"{name}_2.fastq.gz")]} for name in names]}


class Downloaders(unittest.TestCase):
    def setUp(self) -> None:
        held = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.trial = trial_in(held, case=ARCHIVE)
        self.trial.source.root.mkdir()
        (self.trial.source.root / "runs.json").write_text(json.dumps(described(8)))
        (self.trial.scratch / "server.out").write_text(json.dumps(URLS) + "\n")

    def landed(self, contender: archive.Archive) -> list[str]:
        return [file.path for file in contender.fetched(self.trial)]

    def test_each_has_its_own_names(self) -> None:
        self.assertEqual(self.landed(archive.Prefetch()), [f"SRR900000{i}/SRR900000{i}.sra" for i in range(2)])
        self.assertEqual(self.landed(archive.Kingfisher()), ["SRR9000000.sra", "SRR9000001.sra"])
        self.assertEqual(self.landed(archive.FastqDl()), [f"SRR900000{i}_{j}.fastq.gz" for i in range(2) for j in (1, 2)])
        self.assertEqual(self.landed(archive.Pysradb()), [f"SRP1/SRX1/SRR900000{i}.sra" for i in range(2)])

    def test_ours_gets_all_runs_and_is_told_where_the_archives_are(self) -> None:
        contender = archive.TidegateAccessions()
        contender.write(self.trial)
        self.assertEqual(len(self.landed(contender)), 16)
        self.assertEqual(len((self.trial.scratch / "list").read_text().split()), 8)
        argv = [str(word) for word in contender.argv(self.trial)]
        self.assertEqual(argv[-6:], ["--ena-url", "http://a/ena", "--eutils-url", "http://a/eutils", "--sdl-url", "http://a/sdl"])
        self.assertIsInstance(contender, Tidegate)

    def test_settings_of_others_lead_here(self) -> None:
        prefetch, pysradb = archive.Prefetch(), archive.Pysradb()
        prefetch.write(self.trial)
        told = (self.trial.scratch / "home" / ".ncbi" / "user-settings.mkfg").read_text()
        self.assertIn("http://10.99.0.1:9000/sdl/2/retrieve", told)
        pysradb.write(self.trial)
        table = (self.trial.scratch / "list").read_text().splitlines()
        self.assertEqual((len(table), table[1].split("\t")[2]), (3, "SRR9000000"))
        self.assertIn("async-dns=false", (self.trial.scratch / "home" / ".aria2" / "aria2.conf").read_text())
        authority = archive.FastqDl().environment(self.trial)["REQUESTS_CA_BUNDLE"]
        self.assertEqual(authority, str(self.trial.scratch / "ca.crt"))

    def test_one_accession_after_the_other(self) -> None:
        argv = archive.FastqDl().argv(self.trial)
        self.assertEqual(argv[-2:], ["SRR9000000", "SRR9000001"])
        self.assertIn("--protocol https", str(argv[2]))

    def test_what_is_not_installed_is_said(self) -> None:
        with mock.patch.object(archive, "VENV", Path("/nowhere")):
            self.assertRegex(archive.Pysradb().missing() or "", "not installed")
