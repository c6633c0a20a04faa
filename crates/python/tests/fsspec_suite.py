"""fsspec's own tests of a file system, on an endpoint; run by pytest, for test_fs."""

import os

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.tests.abstract import AbstractFixtures
from fsspec.tests.abstract.copy import AbstractCopyTests
from fsspec.tests.abstract.get import AbstractGetTests
from fsspec.tests.abstract.open import AbstractOpenTests
from fsspec.tests.abstract.pipe import AbstractPipeTests
from fsspec.tests.abstract.put import AbstractPutTests


class Fixtures(AbstractFixtures):
    @pytest.fixture(scope="class")
    def fs(self):
        return fsspec.filesystem("tidegate", place=os.environ["TIDEGATE_SERVED"])

    @pytest.fixture
    def fs_path(self):
        return "suite"

    @pytest.fixture(scope="class")
    def local_fs(self):
        return LocalFileSystem(auto_mkdir=True)


class TestCopy(AbstractCopyTests, Fixtures):
    pass


class TestGet(AbstractGetTests, Fixtures):
    pass


class TestPut(AbstractPutTests, Fixtures):
    pass


class TestOpen(AbstractOpenTests, Fixtures):
    pass


class TestPipe(AbstractPipeTests, Fixtures):
    pass
