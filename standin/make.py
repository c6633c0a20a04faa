"""Makes a data set: runs in every shape that real archives have, their files, and `runs.json` about them."""

import json
import random
from pathlib import Path

from standin.content import Content

MIB = 1 << 20
RUNS_A_PROJECT = 10

# What runs look like, one after the other; see README.md.
SHAPES = ["paired", "single", "three", "paired-one", "single-two", "subreads", "no-fastq", "submitted", "lite-only",
          "ncbi-only", "other-sra", "controlled"]
SUFFIXES = {"paired": ["_1", "_2"], "single": [""], "three": ["", "_1", "_2"], "paired-one": [""],
            "single-two": ["_1", "_2"], "subreads": ["_subreads"], "lite-only": ["_1", "_2"], "ncbi-only": [],
            "other-sra": ["_1", "_2"], "no-fastq": [], "submitted": [], "controlled": []}
LAYOUTS = {"single": "SINGLE", "single-two": "SINGLE", "subreads": "SINGLE"}


def subdirectory(accession: str) -> str:
    """Where ENA keeps a run: none, or the digits behind the sixth, in three places."""
    digits = accession[3:]
    head = accession[:6]
    return f"{head}/{accession}" if len(digits) <= 6 else f"{head}/{digits[6:]:0>3}/{accession}"


def columns(index: int, shape: str, plain: bool) -> dict[str, str]:
    """The metadata of a run under ENA's names."""
    letter = "S" if plain else "SSED"[index % 4]
    project, number = index // RUNS_A_PROJECT, 9_000_001 + index
    # Every third run shares its experiment and sample with the one before it.
    shares = index % 3 == 2 and index % RUNS_A_PROJECT != 0 and not plain
    experiment = number - 1 if shares else number
    # Letters differ from run to run; what runs share is named by what it was first named.
    first = "S" if plain else "SSED"[(experiment - 9_000_001) % 4]
    sample = {"S": "SAMN", "E": "SAMEA", "D": "SAMD"}[first]
    bioproject, study = f"PRJNA{900_001 + project}", f"SRP{900_001 + project}"
    return {
        "run_accession": f"{letter}RR{number}", "experiment_accession": f"{first}RX{experiment}",
        "sample_accession": f"{sample}{experiment:08}", "secondary_sample_accession": f"{first}RS{experiment}",
        "study_accession": bioproject, "secondary_study_accession": study,
        "submission_accession": f"SRA{800_001 + project}",
        "library_layout": LAYOUTS.get(shape, "PAIRED"), "library_strategy": "RNA-Seq",
        "library_source": "TRANSCRIPTOMIC", "library_selection": "cDNA", "library_name": f"library {experiment}",
        "instrument_platform": "ILLUMINA", "instrument_model": "Illumina NovaSeq 6000", "read_count": str(1000 + index),
        "base_count": str((1000 + index) * 300), "tax_id": "9606", "scientific_name": "Homo sapiens",
        "sample_title": f"Sample {experiment}; made", "experiment_title": "Illumina NovaSeq 6000 sequencing",
        "study_title": f"Study {project} that nobody made", "sample_alias": f"GSM{7_000_001 + experiment - 9_000_001}",
        "center_name": "STANDIN", "first_public": "2026-01-02", "last_updated": "2026-01-02", "nominal_length": "",
    }


def make(root: Path, runs: int, mb: float, seed: int, shapes: list[str], keep: bool = True) -> dict:
    """Makes `runs` runs of about `mb` MiB each beneath `root`; answers what `runs.json` holds.

    Without `keep` only the table is written, for those who ask and do not fetch.
    """
    content, rng = Content(seed, keep), random.Random(f"{seed} sizes")
    made = []
    for index in range(runs):
        shape = shapes[index % len(shapes)]
        row = columns(index, shape, shapes == ["paired"])
        made.append({"shape": shape, "columns": row, **files(root, content, rng, row, shape, int(mb * MIB))})
    table = {"seed": seed, "runs": made}
    root.mkdir(parents=True, exist_ok=True)
    (root / "runs.json").write_text(json.dumps(table, indent=1))
    return table


def files(root: Path, content: Content, rng: random.Random, row: dict[str, str], shape: str, size: int) -> dict:
    """Makes a run's files: lists of path, bytes and MD5 by format."""
    run = row["run_accession"]
    home = subdirectory(run)

    def entry(path: str, maker, name: str, size: int) -> dict:
        made, md5 = maker(root / path, name, max(size, 64))
        return {"path": path, "bytes": made, "md5": md5, "name": Path(path).name}

    suffixes = SUFFIXES[shape]
    share = int(size * rng.uniform(0.8, 1.2)) // max(1, len(suffixes))
    fastq = [entry(f"vol1/fastq/{home}/{run}{suffix}.fastq.gz", content.gzip, f"{run}{suffix}", share)
             for suffix in suffixes]
    submitted = []
    if shape == "submitted":
        # One name in every run, as pipelines give it: only the directory tells them apart.
        submitted = [entry(f"vol1/run/{run[:6]}/{run}/possorted_genome_bam.bam", content.gzip, f"{run} bam", size),
                     entry(f"vol1/run/{run[:6]}/{run}/possorted_genome_bam.bam.bai", content.gzip, f"{run} bai",
                           size // 100)]
    sra = [entry(f"sra/{run}/{run}", content.archive, f"{run} sra", size // 2)]
    lite = [entry(f"lite/{run}/{run}.lite.1", content.archive, f"{run} lite", size // 4)]
    # ENA's copy is NCBI's, but for the runs that it packed itself.
    ena_sra = [] if shape in ("ncbi-only", "controlled", "lite-only") else [
        {**sra[0], "path": f"vol1/{run[:3].lower()}/{home}"}]
    if shape == "other-sra":
        ena_sra = [entry(f"vol1/{run[:3].lower()}/{home}", content.archive, f"{run} other", size // 2)]
    for copy in ena_sra if content.keep else []:
        place = root / copy["path"]
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            place.hardlink_to(root / sra[0]["path"])
    return {"fastq": fastq, "submitted": submitted, "ena_sra": ena_sra,
            "sra": [] if shape == "lite-only" else sra, "sralite": lite}
