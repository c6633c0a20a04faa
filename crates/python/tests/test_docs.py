"""docs/python.md is true: its code runs, one block after the other, and its options are those of the command."""

import contextlib
import io
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tidegate

from common import ROOT, needs


class OptionsTest(unittest.TestCase):
    def test_they_are_what_the_command_has(self):
        described = subprocess.run([sys.executable, "-m", "tidegate", "describe"], check=True, capture_output=True).stdout
        wanted = runpy.run_path(str(ROOT / "scripts" / "python-options"))["written"](json.loads(described))
        there = (Path(tidegate.__file__).parent / "_options.py").read_text()
        self.assertEqual(there, wanted, "run scripts/python-options")


@needs("tqdm", "rich")
class GuideTest(unittest.TestCase):
    def test_its_code_runs(self):
        blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), flags=re.DOTALL)
        self.assertEqual(len(blocks), 10)
        with tempfile.TemporaryDirectory() as home, contextlib.chdir(home):
            os.environ["TIDEGATE_STATE"] = f"{home}/state"
            self.addCleanup(os.environ.pop, "TIDEGATE_STATE")
            Path("results").mkdir()
            Path("results/table.csv").write_text("1,2\n")
            with contextlib.redirect_stdout(io.StringIO()) as told, contextlib.redirect_stderr(io.StringIO()):
                for block in blocks:
                    exec(compile(block, "docs/python.md", "exec"), {})
            self.assertIn("1 files, 4 bytes", told.getvalue())
            self.assertIn("results/table.csv file 4", told.getvalue())
            self.assertIn("not_found 3 2 no-such-file", told.getvalue())
            for place in ("there", "with-tqdm", "with-rich", "stopped", "patiently", "one", "two"):
                self.assertEqual(Path(place, "results", "table.csv").read_text(), "1,2\n", place)
            self.assertEqual(Path("pulled", "table.csv").read_text(), "1,2\n")


if __name__ == "__main__":
    unittest.main()
