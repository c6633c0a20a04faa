"""That each constant of `auto` is found, and every use of it multiplied."""

import shutil
import tempfile
import unittest
from pathlib import Path

from lab import constants


class Constants(unittest.TestCase):
    def test_each_is_multiplied_somewhere_and_nothing_else_is(self):
        found = [constant for file in constants.FILES for constant in constants.constants(file)]
        self.assertGreater(len(found), 20)
        self.assertTrue(all(constant.meaning for constant in found))
        with tempfile.TemporaryDirectory() as directory:
            crate = Path(directory) / "src"
            shutil.copytree(constants.SOURCES, crate)
            constants.multiply(crate, found)
            text = "".join(file.read_text() for file in crate.rglob("*.rs"))
            for number, constant in enumerate(found):
                with self.subTest(constant.name):
                    self.assertIn(f"crate::factors::FACTORS[{number}]", text)
            for constant in found:
                definition = f"const {constant.name}: {constant.kind} = {constant.value};"
                self.assertIn(definition, (crate / constant.file).read_text())

    def test_comments_and_imports_are_left_alone(self):
        constant = constants.Constant("a.rs", "ERROR", "f64", "0.1", "", False)
        for line in ("/// ERROR", "use crate::a::ERROR;", "const ERROR: f64 = 0.1;", "    // by ERROR"):
            self.assertEqual(constants.scaled(line, constant, 0), line)
        multiplied = constants.scaled("x < ERROR && Kind::ERROR", constant, 3)
        self.assertEqual(multiplied, "x < (ERROR * crate::factors::FACTORS[3]) && Kind::ERROR")


if __name__ == "__main__":
    unittest.main()
