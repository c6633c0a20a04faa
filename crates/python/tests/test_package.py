"""The package itself: its stubs say what there is, and its README is true."""

import ast
import contextlib
import re
import unittest
from pathlib import Path

import tidegate
from tidegate import _core

from common import ROOT

PACKAGE = Path(tidegate.__file__).parent


class StubTest(unittest.TestCase):
    def test_the_stub_names_every_member_and_no_other(self):
        declared = {}
        for node in ast.parse((PACKAGE / "_core.pyi").read_text()).body:
            if isinstance(node, ast.ClassDef):
                declared[node.name] = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            elif isinstance(node, ast.FunctionDef):
                declared[node.name] = None
            elif isinstance(node, ast.AnnAssign):
                declared[node.target.id] = None
        there = {name for name in dir(_core) if not name.startswith("__") or name == "__version__"}
        self.assertEqual(set(declared), there)
        for name, members in declared.items():
            if members is not None:
                public = {member for member in dir(getattr(_core, name)) if not member.startswith("_")}
                self.assertEqual({member for member in members if not member.startswith("_")}, public, name)
        self.assertTrue((PACKAGE / "py.typed").exists())


class ReadmeTest(unittest.TestCase):
    def test_its_code_runs(self):
        readme = (ROOT / "crates" / "python" / "README.md").read_text()
        blocks = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
        # The first needs a library that the tests do without.
        blocks = [block for block in blocks if "stable_baselines3" not in block]
        self.assertEqual(len(blocks), 2)
        with contextlib.chdir(ROOT):
            for block in blocks:
                exec(compile(block, "README.md", "exec"), {"tidegate": tidegate})


if __name__ == "__main__":
    unittest.main()
