"""What the program says of itself, and what is left out for it; a shell script stands for the program."""

import json
import os
import tempfile
import unittest
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

from lab.get import ours
from lab.grid.engine import Rule, fixed
from lab.grid.offers import offered
from lab.ground.described import described, lacking
from lab.ground.shell import CommandFailed
from lab.rivals.tidegate import Tidegate

SAID = {"version": "9", "optimizers": ["auto", "fixed", "policy", "policy:online", "ldm"], "recipes": ["fast", "ldm"],
        "commands": [{"name": "copy", "options": [{"name": "--json"}]}]}
RULES = [fixed(4), Rule("ldm", "ldm", recipe=("--recipe", "ldm")), Rule("online", "policy:online"),
         Rule("coupled", "coupled:fixed:3"), Rule("fts3", "fts3"), Rule("drl", "policy", recipe=("--recipe", "drl"))]


class Program(unittest.TestCase):
    def setUp(self) -> None:
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.program = Path(held.name, "tidegate")
        patch = mock.patch.dict(os.environ, {"TIDEGATE_BIN": str(self.program)})
        patch.start()
        self.addCleanup(patch.stop)

    def built(self, script: str) -> None:
        self.program.write_text(f"#!/bin/sh\n{script}\n")
        self.program.chmod(0o755)

    def test_what_it_knows_decides_what_is_offered(self) -> None:
        self.built(f"printf '%s' '{json.dumps(SAID)}'")
        self.assertEqual(described(self.program).options["copy"], {"--json"})
        with redirect_stdout(StringIO()) as said:
            self.assertEqual(offered(RULES), RULES[:4])
            self.assertEqual(offered(RULES), RULES[:4])
        self.assertEqual(said.getvalue().splitlines(), ["left out: fts3: the program has no rule fts3",
                                                        "left out: drl: the program has no recipe drl"])

    def test_one_that_is_absent_or_too_old_is_said_in_a_line(self) -> None:
        self.assertEqual((lacking(self.program), offered(RULES)), ("tidegate is not built; run: make build", RULES))
        for script in ("echo 'unrecognized subcommand' >&2; exit 2", "echo hello", "echo '{}'"):
            self.built(script)
            why = f"{self.program} is too old: it does not know `describe`; build a newer one: make build"
            self.assertEqual((Tidegate("a").missing(), ours.no_get(self.program), offered(RULES)), (why, why, RULES))
            with self.assertRaisesRegex(CommandFailed, "too old"):
                described(self.program)
