"""The modules run by Nextflow itself, against a stand-in for the archives."""

import csv
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

MODULES = Path(__file__).parents[1] / "modules/nf-core/tidegate"
NEXTFLOW = os.environ.get("NEXTFLOW") or shutil.which("nextflow")
TIDEGATE = Path(os.environ.get("TIDEGATE", Path(__file__).parents[3] / "target/debug/tidegate")).resolve()

pytestmark = pytest.mark.skipif(NEXTFLOW is None, reason="no nextflow")


def run(directory, workflow, *more):
    (directory / "main.nf").write_text(workflow)
    programs = directory / "bin-of-test"
    programs.mkdir(exist_ok=True)
    (programs / "tidegate").exists() or (programs / "tidegate").symlink_to(TIDEGATE)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "NXF_HOME": str(directory / "nextflow")}
    environment |= {"NXF_OFFLINE": "true", "NXF_DISABLE_CHECK_LATEST": "true", "NXF_PLUGINS_DEFAULT": "false"}
    command = [NEXTFLOW, "run", "main.nf", "-ansi-log", "false", *more]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=300, env=environment)


def sums(directory):
    """Each file of a directory, and whether its .md5 is that of its content."""
    told = {path.name.removesuffix(".md5"): path.read_text().split() for path in directory.glob("*.md5")}
    return {
        name: told.get(name) == [hashlib.md5((directory / name).read_bytes()).hexdigest(), name]
        for name in (path.name for path in directory.glob("*.fastq.gz"))
    }


GET = """
include {{ TIDEGATE_GET as SRA_FASTQ_FTP }} from '{modules}/get/main'

workflow {{
    SRA_FASTQ_FTP(Channel.of({samples}))
    SRA_FASTQ_FTP.out.fastq.map {{ it[1] }}.flatten().subscribe {{ it.copyTo('out/') }}
    SRA_FASTQ_FTP.out.md5.map {{ it[1] }}.flatten().subscribe {{ it.copyTo('out/') }}
    SRA_FASTQ_FTP.out.versions.subscribe {{ it.copyTo('out/') }}
}}
"""


def sample(run, kind, wrong=False):
    """What fetchngs knows of a run, as Groovy writes it."""
    urls = run["fastq_ftp"].split(";")
    md5 = run["fastq_md5"].split(";")
    if wrong:
        md5[0] = "0" * 32
    single = "true" if kind == "single" else "false"
    named = ", ".join(f"'{url}'" for url in (urls[:1] if kind == "single" else urls))
    meta = f"id: '{run['experiment_accession']}_{run['run_accession']}', single_end: {single}, md5_1: '{md5[0]}', md5_2: '{md5[-1]}'"
    return f"[[{meta}], [{named}]]"


def test_it_takes_the_place_of_fetchngs_download(tmp_path, archive):
    (tmp_path / "out").mkdir()
    samples = ", ".join([sample(archive[0], "paired"), sample(archive[1], "single")])
    ran = run(tmp_path, GET.format(modules=MODULES, samples=samples))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    ids = [f"{run['experiment_accession']}_{run['run_accession']}" for run in archive]
    assert sums(tmp_path / "out") == {f"{ids[0]}_1.fastq.gz": True, f"{ids[0]}_2.fastq.gz": True, f"{ids[1]}.fastq.gz": True}
    version = subprocess.run([TIDEGATE, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    assert f"    tidegate: {version}\n" in (tmp_path / "out/versions.yml").read_text()


def test_a_wrong_checksum_fails_the_task_and_says_why(tmp_path, archive):
    ran = run(tmp_path, GET.format(modules=MODULES, samples=sample(archive[0], "paired", wrong=True)))
    assert ran.returncode != 0
    assert "md5" in ran.stdout and "0" * 32 in ran.stdout


def test_too_few_urls_are_told(tmp_path):
    meta = "id: 'x', single_end: false, md5_1: '', md5_2: ''"
    ran = run(tmp_path, GET.format(modules=MODULES, samples=f"[[{meta}], ['h/x']]"))
    assert ran.returncode != 0
    assert "x: 2 URLs are needed, and there are 1" in ran.stdout + ran.stderr


FETCH = """
include {{ TIDEGATE_FETCH }} from '{modules}/fetch/main'

workflow {{
    TIDEGATE_FETCH(Channel.of([[id: 'ids'], file('ids.csv')]), 'rnaseq')
    TIDEGATE_FETCH.out.fastq.mix(TIDEGATE_FETCH.out.md5).map {{ it[1] }}.flatten().subscribe {{ it.copyTo('out/') }}
    TIDEGATE_FETCH.out.samplesheet.map {{ it[1] }}.subscribe {{ it.copyTo('out/') }}
}}
"""


def test_accessions_come_with_a_sample_sheet(tmp_path, archive):
    (tmp_path / "out").mkdir()
    (tmp_path / "ids.csv").write_text("".join(f"{run['run_accession']}\n" for run in archive))
    ran = run(tmp_path, FETCH.format(modules=MODULES))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    names = {f"{run['experiment_accession']}_{run['run_accession']}_{i}.fastq.gz" for run in archive for i in (1, 2)}
    assert sums(tmp_path / "out") == dict.fromkeys(names, True)
    rows = list(csv.DictReader((tmp_path / "out/samplesheet.csv").open()))
    assert list(rows[0])[:4] == ["sample", "fastq_1", "fastq_2", "strandedness"]
    assert {row["run_accession"] for row in rows} == {run["run_accession"] for run in archive}


def test_stubs_run(tmp_path):
    (tmp_path / "ids.csv").write_text("SRR1\n")
    (tmp_path / "out").mkdir()
    ran = run(tmp_path, FETCH.format(modules=MODULES), "-stub-run")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "out/samplesheet.csv").exists()
