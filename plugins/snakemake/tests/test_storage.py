"""What Snakemake asks of any storage, and what is special about this one."""

import errno
import logging
import multiprocessing
import time

import pytest
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_storage_plugins.tests import TestStorageBase

from snakemake_storage_plugin_tidegate import StorageObject, StorageProvider, StorageProviderSettings, part_of
from snakemake_storage_plugin_tidegate.budget import slot
from snakemake_storage_plugin_tidegate.query import Query


class AtEndpoint(TestStorageBase):
    __test__ = False
    files_only = False

    def get_storage_provider_cls(self):
        return StorageProvider

    @pytest.fixture(autouse=True)
    def served(self, endpoint):
        self.root, self.address = endpoint


class TestByName(AtEndpoint):
    __test__ = True

    def get_query(self, tmp_path):
        return "tidegate://dtn/by-name/test.txt"

    def get_query_not_existing(self, tmp_path):
        return "tidegate://dtn/by-name/nothing.txt"


class TestByTicket(AtEndpoint):
    __test__ = True

    def get_query(self, tmp_path):
        return f"{self.address}/by-ticket/test.txt"

    def get_query_not_existing(self, tmp_path):
        return f"{self.address}/nowhere/nothing.txt"


class TestAccession(TestStorageBase):
    __test__ = True
    retrieve_only = True

    def get_storage_provider_cls(self):
        return StorageProvider

    @pytest.fixture(autouse=True)
    def served(self, archive):
        self.run = archive[0]["run_accession"]

    def get_query(self, tmp_path):
        return f"accession://{self.run}/{self.run}_1.fastq.gz"

    def get_query_not_existing(self, tmp_path):
        return f"accession://{self.run}/{self.run}_7.fastq.gz"


class TestUrl(TestAccession):
    @pytest.fixture(autouse=True)
    def served(self, archive):
        self.url = archive[0]["fastq_ftp"].split(";")[1]

    def get_query(self, tmp_path):
        return self.url

    def get_query_not_existing(self, tmp_path):
        return self.url + ".nothing"


def provider(tmp_path, **settings):
    return StorageProvider(local_prefix=tmp_path / "local", logger=logging.getLogger(), settings=StorageProviderSettings(**settings))


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("gopher://h/x", "begins with none of"),
        ("/etc/hosts", "begins with none of"),
        ("tg://h", "names no file"),
        ("tg:///x", "names no host"),
        ("tidegate://dtn/a/../../etc/passwd", "'..'"),
        ("accession://SRR1/a/b", "one name"),
        ("accession://ids.txt/x", "no accession"),
        ("https://h/.tidegate/x", ".tidegate"),
    ],
)
def test_queries_that_make_no_sense_are_refused(tmp_path, query, why):
    result = StorageProvider.is_valid_query(query)
    assert not result
    assert why in str(result)


def test_queries_with_wildcards_are_valid():
    assert StorageProvider.is_valid_query("tidegate://dtn/{sample}/{run}.bam")
    assert StorageProvider.is_valid_query("accession://{run}/{run}_1.fastq.gz")


def test_no_secret_is_shown_or_becomes_a_path(tmp_path):
    here = provider(tmp_path)
    for query in ("tg://SECRET@h:7117/a/b", "https://me:SECRET@h/a/b?X-Amz-Signature=SECRET"):
        assert "SECRET" not in here.safe_print(query) + here.object(query).local_suffix()
    assert "SECRET" not in str(StorageProvider.is_valid_query("tg://SECRET@h"))


def test_files_of_different_queries_are_different_here():
    queries = ["tg://T@h/a", "tg://h:1/a", "https://h/a", "https://h/a?x", "https://h/a?y", "tidegate://h/a", "tidegate://h/b/a"]
    assert len({Query.parse(query).suffix for query in queries}) == len(queries)


def test_outputs_go_only_where_their_age_is_known(tmp_path):
    with pytest.raises(WorkflowError, match="input only"):
        provider(tmp_path).object("s3://bucket/x").store_object()


def test_matches_of_a_pattern_are_found(tmp_path, endpoint):
    root, _ = endpoint
    for name in ("one.txt", "two.txt"):
        (root / "glob" / "deep").mkdir(parents=True, exist_ok=True)
        (root / "glob" / "deep" / name).write_text(name)
    found = provider(tmp_path).object("tidegate://dtn/glob/deep/{name}.txt").list_candidate_matches()
    assert sorted(found) == [f"tidegate://dtn/glob/deep/{name}.txt" for name in ("one", "two")]


def test_a_missing_endpoint_is_told_and_is_no_missing_file(tmp_path):
    unknown: StorageObject = provider(tmp_path).object("tidegate://nobody/x")
    with pytest.raises(Exception, match="nobody"):
        unknown.exists()


def held(directory, began, go):
    with slot(directory, 2):
        began.release()
        go.wait()


def test_slots_are_shared_by_processes_and_freed_by_those_that_die(tmp_path):
    fork = multiprocessing.get_context("spawn")
    began, go = fork.Semaphore(0), fork.Event()
    others = [fork.Process(target=held, args=(tmp_path / "slots", began, go)) for _ in range(3)]
    for other in others:
        other.start()
    assert began.acquire(timeout=60) and began.acquire(timeout=60)
    # Two hold the two slots, so that the third waits until one of them dies.
    assert not began.acquire(timeout=0.3)
    go.set()
    assert began.acquire(timeout=60)
    for other in others:
        other.join(timeout=60)


def held_until_killed(directory, began):
    with slot(directory, 2):
        began.release()
        time.sleep(600)


def test_slots_are_held_where_the_file_system_has_no_locks(tmp_path, monkeypatch):
    def refuse(file, operation):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr("fcntl.flock", refuse)
    fork = multiprocessing.get_context("fork")
    began = fork.Semaphore(0)
    others = [fork.Process(target=held_until_killed, args=(tmp_path, began)) for _ in range(3)]
    for other in others[:2]:
        other.start()
        assert began.acquire(timeout=60)
    others[2].start()
    assert not began.acquire(timeout=0.3)
    others[0].kill()
    assert began.acquire(timeout=60)
    for other in others:
        other.kill()
        other.join(timeout=60)
    with slot(tmp_path, 2):
        assert any(path.is_symlink() for path in tmp_path.iterdir())


def test_the_budget_is_shared(tmp_path):
    assert (part_of("800Mbit/s", 4), part_of("1 Gbit/s", 3)) == ("200Mbit/s", "0.333333333333Gbit/s")
    for rate in ("fast", "10", "-1Mbit/s"):
        with pytest.raises(WorkflowError, match="no rate"):
            part_of(rate, 2)
    with pytest.raises(WorkflowError, match="a stream for each"):
        provider(tmp_path, streams=2, transfers=3)
