"""NCBI's E-utilities: `esearch`, `esummary` and `efetch` for the databases `sra` and `gds`."""

import csv
import io
import json
import re

from standin.answer import Answer, text
from standin.catalogue import Catalogue

RUNINFO = (
    "Run,ReleaseDate,LoadDate,spots,bases,spots_with_mates,avgLength,size_MB,AssemblyName,download_path,Experiment,"
    "LibraryName,LibraryStrategy,LibrarySelection,LibrarySource,LibraryLayout,InsertSize,InsertDev,Platform,Model,"
    "SRAStudy,BioProject,Study_Pubmed_id,ProjectID,Sample,BioSample,SampleType,TaxID,ScientificName,SampleName,"
    "g1k_pop_code,source,g1k_analysis_group,Subject_ID,Sex,Disease,Tumor,Affection_Status,Analyte_Type,"
    "Histological_Type,Body_Site,CenterName,Submission,dbgap_study_accession,Consent,RunHash,ReadHash").split(",")
FROM_ENA = {
    "Run": "run_accession", "spots": "read_count", "bases": "base_count", "Experiment": "experiment_accession",
    "LibraryName": "library_name", "LibraryStrategy": "library_strategy", "LibrarySelection": "library_selection",
    "LibrarySource": "library_source", "LibraryLayout": "library_layout", "Platform": "instrument_platform",
    "Model": "instrument_model", "SRAStudy": "secondary_study_accession", "BioProject": "study_accession",
    "Sample": "secondary_sample_accession", "BioSample": "sample_accession", "TaxID": "tax_id",
    "ScientificName": "scientific_name", "SampleName": "sample_alias", "CenterName": "center_name",
    "Submission": "submission_accession"}
TERM = re.compile(r"\b((?:[EDS]R[PSXRA]|PRJ[A-Z]{2}|SAM[A-Z]+|GS[EM])\d+)\b")


class Eutils:
    """Answers as NCBI does. Searches are remembered by their number, as the history server does."""

    def __init__(self, catalogue: Catalogue, place: str, no_header: bool, strict_ids: bool) -> None:
        self.catalogue, self.place, self.no_header, self.strict_ids = catalogue, place, no_header, strict_ids
        self.history: list[list[str]] = []

    def row(self, run: dict) -> list[str]:
        """One line of the run table."""
        columns, controlled = run["columns"], run["shape"] == "controlled"
        name = columns["run_accession"]
        fixed = {"ReleaseDate": "2026-01-02 03:04:05", "LoadDate": "2026-01-02 03:04:05", "InsertSize": "0",
                 "InsertDev": "0", "ProjectID": columns["study_accession"][5:], "SampleType": "simple", "Tumor": "no",
                 "size_MB": str(sum(entry["bytes"] for entry in run["sra"]) >> 20), "source": "",
                 "download_path": f"{self.place}/sra/{name}/{name}", "Consent": "1" if controlled else "public",
                 "dbgap_study_accession": "phs000001" if controlled else ""}
        return [fixed.get(field, columns.get(FROM_ENA.get(field, ""), "")) for field in RUNINFO]

    def esearch(self, arguments: dict[str, str]) -> Answer:
        """Finds accessions in a term, keeps them, tells how many there are."""
        found = []
        for name in TERM.findall(arguments.get("term", "")):
            if arguments.get("db") == "gds":
                if name in self.catalogue.gse:
                    found.append(str(200_000_000 + int(name[3:])))
                if name in self.catalogue.gsm:
                    found.append(str(300_000_000 + int(name[3:])))
            else:
                found += [run["columns"]["run_accession"] for run in self.catalogue.named(name)]
        found = list(dict.fromkeys(found))
        self.history.append(found)
        shown = found[:int(arguments.get("retmax", "20"))]
        result = {"count": str(len(found)), "retmax": str(len(shown)), "retstart": "0",
                  "querykey": str(len(self.history)), "webenv": "MCID_standin", "idlist": shown}
        if arguments.get("usehistory") != "y":
            del result["querykey"], result["webenv"]
        head = {"type": "esearch", "version": "0.3"}
        return text(json.dumps({"header": head, "esearchresult": result}), "application/json")

    def chosen(self, arguments: dict[str, str]) -> list[str]:
        """What a request speaks of: identifiers, or a page of a search."""
        if "id" in arguments:
            return [name for name in arguments["id"].split(",") if name]
        key = int(arguments.get("query_key", "0"))
        found = self.history[key - 1] if 0 < key <= len(self.history) else []
        start = int(arguments.get("retstart", "0"))
        return found[start:start + int(arguments.get("retmax", "10000"))]

    def esummary(self, arguments: dict[str, str]) -> Answer:
        """Summaries of GEO series and samples."""
        result: dict = {"uids": []}
        for uid in self.chosen(arguments):
            kind, number = {"2": "GSE", "3": "GSM"}.get(uid[:1], ""), str(int(uid[1:]))
            if kind == "GSM" and (name := f"GSM{number}") in self.catalogue.gsm:
                found = {"uid": uid, "accession": name, "entrytype": "GSM", "bioproject": "",
                         "extrelations": [relation(self.catalogue.gsm[name])]}
            elif kind == "GSE" and (name := f"GSE{number}") in self.catalogue.gse:
                study, project, samples = self.catalogue.gse[name]
                found = {"uid": uid, "accession": name, "entrytype": "GSE", "bioproject": project,
                         "samples": [{"accession": sample, "title": ""} for sample in sorted(samples)],
                         "extrelations": [relation(study)]}
            else:
                continue
            result["uids"].append(uid)
            result[uid] = found
        head = {"type": "esummary", "version": "0.3"}
        return text(json.dumps({"header": head, "result": result}), "application/json")

    def efetch(self, arguments: dict[str, str]) -> Answer:
        """The run table."""
        if arguments.get("rettype") != "runinfo":
            return Answer(400, b'{"error":"only runinfo is made here"}', "application/json")
        runs = {}
        for name in self.chosen(arguments):
            found = self.catalogue.named(name)
            if self.strict_ids and not found:
                return Answer(400, b'{"error":"cannot get document"}', "application/json")
            for run in found:
                runs[run["columns"]["run_accession"]] = run
        out = io.StringIO()
        table = csv.writer(out, lineterminator="\n")
        if not self.no_header:
            table.writerow(RUNINFO)
        table.writerows(self.row(run) for run in runs.values())
        return text(out.getvalue() + "\n", "text/plain")

    def answer(self, name: str, arguments: dict[str, str]) -> Answer:
        """The program `name`."""
        program = {"esearch.fcgi": self.esearch, "esummary.fcgi": self.esummary, "efetch.fcgi": self.efetch}.get(name)
        return program(arguments) if program else Answer(404, b"not found")


def rate_limited(arguments: dict[str, str]) -> bytes:
    """What NCBI says to too many requests: it repeats the caller's key."""
    said = {"error": "API rate limit exceeded", "api-key": arguments.get("api_key", "127.0.0.1"), "count": "4",
            "limit": "3"}
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


def relation(target: str) -> dict[str, str]:
    """What ties a GEO entry to the archive."""
    return {"relationtype": "SRA", "targetobject": target,
            "targetftplink": f"ftp://ftp-trace.ncbi.nlm.nih.gov/sra/sra-instant/reads/{target}/"}
