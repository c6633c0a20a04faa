"""ENA's Portal API: `filereport`, `search`, `count`, `returnFields`, with the shapes of real answers."""

import json
import re

from standin.answer import Answer, text
from standin.catalogue import ALL, BY_TYPE, WELL_FORMED, Catalogue, at_ena

FILES = {"fastq": "fastq", "submitted": "submitted", "sra": "ena_sra"}
PARTS = ["ftp", "bytes", "md5", "aspera", "galaxy"]
FILE_FIELDS = [f"{kind}_{part}" for kind in FILES for part in PARTS] + ["submitted_format"]
METADATA = ["submission_accession", "tax_id", "scientific_name", "instrument_platform", "instrument_model",
            "library_name", "nominal_length", "library_layout", "library_strategy", "library_source",
            "library_selection", "read_count", "base_count", "center_name", "first_public", "last_updated",
            "experiment_title", "study_title", "sample_title", "sample_alias"]
FIELDS = list(dict.fromkeys(["run_accession", *ALL, *METADATA, *FILE_FIELDS]))
DEFAULT = ["run_accession", "fastq_ftp", "fastq_bytes", "fastq_md5"]
FORMATS = {"bam": "BAM", "bai": "BAI", "gz": "FASTQ"}
CONDITION = re.compile(r'(\w+)\s*=\s*"?([\w.]+)"?')


class Ena:
    """Answers as ENA does."""

    def __init__(self, catalogue: Catalogue, place: str, empty: str, refuses: str, lacks: str, cut: bool,
                 lacks_column: str) -> None:
        self.catalogue, self.place, self.empty, self.refuses, self.cut = catalogue, place, empty, refuses, cut
        self.lacks, self.lacks_column = set(lacks.split(",")), lacks_column

    def cell(self, run: dict, field: str) -> str:
        """One cell of the table; lists are joined by semicolons."""
        if field in run["columns"]:
            return run["columns"][field]
        kind, _, part = field.partition("_")
        entries = run[FILES[kind]]
        if part == "format":
            return ";".join(FORMATS.get(entry["name"].rsplit(".", 1)[-1], "OTHER") for entry in entries)
        if part == "aspera":
            return ";".join(f"fasp.sra.ebi.ac.uk:/{entry['path']}" for entry in entries)
        if part in ("ftp", "galaxy"):
            return ";".join(f"{self.place}/{entry['path']}" for entry in entries)
        return ";".join(str(entry[part]) for entry in entries)

    def table(self, runs: list[dict], arguments: dict[str, str]) -> Answer:
        """Runs as a table; `run_accession` comes first whatever was asked for."""
        asked = [name for name in arguments.get("fields", "").split(",") if name] or DEFAULT
        if asked == ["all"]:
            asked = FIELDS
        unknown = [name for name in asked if name not in FIELDS]
        if unknown:
            return refuse(f"Invalid field(s) supplied: {', '.join(unknown)}")
        fields = [name for name in dict.fromkeys(["run_accession", *asked]) if name != self.lacks_column]
        limit = int(arguments.get("limit", "0") or 0) or len(runs)
        runs = [run for run in runs if at_ena(run)][:limit]
        rows = [{field: self.cell(run, field) for field in fields} for run in runs]
        if not rows and self.empty != "header":
            return {"204": Answer(204), "404": Answer(404, b'{"message":"not found"}', "application/json"),
                    "[]": text("[]", "application/json")}[self.empty]
        if arguments.get("format", "tsv") == "json":
            return text(json.dumps(rows), "application/json")
        lines = ["\t".join(fields)] + ["\t".join(row.values()) for row in rows]
        if self.cut:
            lines[-1] = lines[-1].rpartition("\t")[0]
        return text("\n".join(lines) + "\n", "text/tab-separated-values")

    def filereport(self, arguments: dict[str, str]) -> Answer:
        """One accession of any kind."""
        accession = arguments.get("accession", "")
        if not WELL_FORMED.match(accession) or accession == self.refuses:
            return refuse(f"Invalid accession supplied: {accession}")
        return self.table(self.catalogue.named(accession), arguments)

    def found(self, arguments: dict[str, str]) -> list[dict] | Answer:
        """The runs that a search asks for."""
        kind = arguments.get("includeAccessionType")
        if kind is not None:
            if kind not in BY_TYPE or kind == "submission":
                return refuse(f"Invalid includeAccessionType: {kind}")
            wanted = [(name, BY_TYPE[kind]) for name in arguments.get("includeAccessions", "").split(",")]
        else:
            wanted = [(value, [field]) for field, value in CONDITION.findall(arguments.get("query", ""))]
            unknown = [field for _, (field,) in wanted if field not in ALL]
            if unknown or not wanted:
                return refuse("Invalid query")
        runs = {}
        for name, columns in wanted:
            if not WELL_FORMED.match(name) or name == self.refuses:
                return refuse(f"Invalid accession supplied: {name}")
            if self.lacks & {name, "all"}:
                continue
            for run in self.catalogue.named(name, columns):
                runs[run["columns"]["run_accession"]] = run
        return list(runs.values())

    def search(self, arguments: dict[str, str]) -> Answer:
        """Many accessions, or a query."""
        found = self.found(arguments)
        return found if isinstance(found, Answer) else self.table(found, arguments)

    def count(self, arguments: dict[str, str]) -> Answer:
        """How many rows a search has."""
        found = self.found(arguments)
        if isinstance(found, Answer):
            return found
        return text(f"count\n{sum(at_ena(run) for run in found)}\n", "text/tab-separated-values")

    def answer(self, name: str, arguments: dict[str, str]) -> Answer:
        """The endpoint `name`."""
        if arguments.get("result", "read_run") != "read_run" and name != "returnFields":
            return refuse("Invalid result supplied")
        if name == "returnFields":
            return text("columnId\tdescription\n" + "".join(f"{field}\t\n" for field in FIELDS), "text/plain")
        endpoint = {"filereport": self.filereport, "search": self.search, "count": self.count}.get(name)
        return endpoint(arguments) if endpoint else Answer(404, b'{"message":"no such endpoint"}', "application/json")


def refuse(why: str) -> Answer:
    """Status 400. The words are made up: no real one was at hand."""
    return Answer(400, json.dumps({"message": why}).encode(), "application/json")
