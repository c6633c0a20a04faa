"""mypy, at its strictest, has nothing to say of the package and of what its guide shows."""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from common import ROOT, needs


@needs("mypy")
class TypesTest(unittest.TestCase):
    def test_the_package_and_its_guide_are_typed(self):
        blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), flags=re.DOTALL)
        with tempfile.TemporaryDirectory() as home:
            shown = [Path(home, f"block_{i}.py") for i in range(len(blocks))]
            for file, block in zip(shown, blocks, strict=True):
                file.write_text(block)
            mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", home]
            # Not where it is installed: what lies beside it there is not to be looked at as ours.
            package = ROOT / "crates" / "python" / "python" / "tidegate"
            ran = subprocess.run([*mypy, package, *shown], cwd=home, capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)


if __name__ == "__main__":
    unittest.main()
