"""A workflow by Snakemake itself: a run of an archive and a file of a web server come in, results go to an endpoint."""

import os
import subprocess
import sys
from pathlib import Path

SNAKEFILE = """
storage:
    provider="tidegate",
    transfers=2,

samples = {samples!r}

rule all:
    input:
        storage("tidegate://dtn/results/all.txt"),

rule count:
    input:
        reads=storage("accession://{{sample}}/{{sample}}_1.fastq.gz"),
        mates=storage("{mates}"),
    output:
        storage("tidegate://dtn/results/{{sample}}.count"),
    shell:
        "zcat {{input.reads}} {{input.mates}} | wc -l >{{output}}"

rule gather:
    input:
        storage(expand("tidegate://dtn/results/{{sample}}.count", sample=samples)),
    output:
        storage("tidegate://dtn/results/all.txt"),
    shell:
        "cat {{input}} >{{output}}"
"""


def run(directory):
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--nocolor"]
    ran = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=300, env=dict(os.environ))
    assert ran.returncode == 0, ran.stderr + Path(directory, "Snakefile").read_text()
    return ran.stderr


def test_a_workflow_runs_and_has_nothing_left_to_do(tmp_path, endpoint, archive):
    root, address = endpoint
    samples = [run["run_accession"] for run in archive]
    (tmp_path / "Snakefile").write_text(SNAKEFILE.format(samples=samples, mates=archive[0]["fastq_ftp"].split(";")[1]))
    said = run(tmp_path)
    assert address.split("@")[0] not in said
    counts = [int((root / "results" / f"{sample}.count").read_text()) for sample in samples]
    assert (root / "results/all.txt").read_text() == "".join(f"{count}\n" for count in counts)
    assert all(count > 0 for count in counts)
    assert "Nothing to be done" in run(tmp_path)
    # What is removed there is made again, and only that.
    (root / "results/all.txt").unlink()
    said = run(tmp_path)
    assert "rule gather" in said and "rule count" not in said
    assert (root / "results/all.txt").exists()
