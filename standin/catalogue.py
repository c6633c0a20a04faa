"""The made data set as the archives see it: runs by every accession that names them."""

import json
import re
from pathlib import Path

# The columns by which a run is found, by ENA's `includeAccessionType`.
BY_TYPE = {"run": ["run_accession"], "experiment": ["experiment_accession"],
           "sample": ["sample_accession", "secondary_sample_accession"],
           "study": ["study_accession", "secondary_study_accession"], "submission": ["submission_accession"]}
ALL = [column for names in BY_TYPE.values() for column in names]
WELL_FORMED = re.compile(r"(PRJ[EDN][A-Z]\d+|[EDS]R[PSXR]\d{6,}|[EDS]RA\d{6,}|SAM[EDN][A-Z]?\d+)$")


class Catalogue:
    """Runs, and how they are found."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs = json.loads((root / "runs.json").read_text())["runs"]
        self.index: dict[str, list[dict]] = {}
        self.gsm: dict[str, str] = {}
        self.gse: dict[str, tuple[str, str, set[str]]] = {}
        for run in self.runs:
            row = run["columns"]
            for column in ALL:
                self.index.setdefault(row[column], []).append(run)
            self.gsm[row["sample_alias"]] = row["experiment_accession"]
            series = "GSE" + row["secondary_study_accession"][3:]
            study = (row["secondary_study_accession"], row["study_accession"], set())
            self.gse.setdefault(series, study)[2].add(row["sample_alias"])

    def named(self, accession: str, kinds: list[str] = ALL) -> list[dict]:
        """The runs that `accession` names in one of the columns `kinds`."""
        found = self.index.get(accession, [])
        return [run for run in found if any(run["columns"][kind] == accession for kind in kinds)]


def at_ena(run: dict) -> bool:
    """Whether ENA has the run."""
    return run["shape"] not in ("ncbi-only", "controlled")
