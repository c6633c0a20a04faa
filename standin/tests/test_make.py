"""The made data set: valid files, every shape, and that a seed fixes every byte."""

import gzip
import hashlib
import tempfile
import unittest
from pathlib import Path

from standin.make import SHAPES, make, subdirectory


class Made(unittest.TestCase):
    def setUp(self) -> None:
        held = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.root = held

    def test_files_are_what_the_table_says(self) -> None:
        table = make(self.root, len(SHAPES), 0.01, 5, SHAPES)
        self.assertEqual([run["shape"] for run in table["runs"]], SHAPES)
        for run in table["runs"]:
            for kind in ["fastq", "submitted", "ena_sra", "sra", "sralite"]:
                for entry in run[kind]:
                    data = (self.root / entry["path"]).read_bytes()
                    self.assertEqual((len(data), hashlib.md5(data).hexdigest()), (entry["bytes"], entry["md5"]))
                    if kind == "fastq":
                        name = run["columns"]["run_accession"].encode()
                        self.assertTrue(gzip.decompress(data).startswith(b"@" + name))
                    if "sra" in kind:
                        self.assertTrue(data.startswith(b"NCBI.sra"))

    def test_runs_have_one_two_and_three_files(self) -> None:
        counts = {run["shape"]: len(run["fastq"]) for run in make(self.root, 12, 0, 5, SHAPES)["runs"]}
        self.assertEqual([counts[shape] for shape in ["single", "paired", "three", "no-fastq"]], [1, 2, 3, 0])

    def test_same_seed_same_bytes(self) -> None:
        one = make(self.root / "one", 4, 0.01, 5, SHAPES)
        self.assertEqual(one, make(self.root / "other", 4, 0.01, 5, SHAPES))
        self.assertEqual(one, make(self.root / "table", 4, 0.01, 5, SHAPES, keep=False))
        self.assertEqual([path.name for path in (self.root / "table").iterdir()], ["runs.json"])
        self.assertNotEqual(one["runs"], make(self.root / "third", 4, 0.01, 6, SHAPES)["runs"])

    def test_no_two_runs_have_one_name(self) -> None:
        runs = make(self.root, 60, 0, 1, SHAPES, keep=False)["runs"]
        self.assertEqual(len({run["columns"]["run_accession"] for run in runs}), 60)
        for run, before in zip(runs[1:], runs):
            if run["columns"]["experiment_accession"] == before["columns"]["experiment_accession"]:
                self.assertEqual(run["columns"]["study_accession"], before["columns"]["study_accession"])

    def test_directories_follow_enas_rule(self) -> None:
        for run, place in [("ERR000916", "ERR000/ERR000916"), ("SRR1016916", "SRR101/006/SRR1016916"),
                           ("SRR15852400", "SRR158/000/SRR15852400"), ("SRR123456789", "SRR123/789/SRR123456789")]:
            self.assertEqual(subdirectory(run), place)
