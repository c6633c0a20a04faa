"""Listing, and the file system of fsspec: what its own tests ask, and what they do not."""

import asyncio
import errno
import hashlib
import os
import pickle
import re
import subprocess
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tidegate

from common import needs
from test_transfers import TransferTest


class ServedTest(TransferTest):
    # Each file and directory is made durable, for which a disk takes most of the time.
    beneath = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

    def setUp(self):
        super().setUp()
        self.address = self.serve("--allow-delete")
        self.root = self.home / "root"


class ListTest(ServedTest):
    def test_a_place_is_listed_with_types(self):
        (self.root / "a").mkdir()
        (self.root / "a" / "b").write_text("four")
        os.symlink("a", self.root / "link")
        flat, deep = tidegate.ls(self.address), tidegate.ls(self.address, recursive=True)
        wanted = [("a", "directory", None), ("link", "directory", "a")]
        self.assertEqual([(one.path, one.kind, one.link) for one in flat], wanted)
        self.assertEqual([(one.path, one.bytes) for one in deep if one.kind == "file"], [("a/b", 4)])
        self.assertEqual(asyncio.run(tidegate.aio.ls(self.root, recursive=True)), deep)
        missing = [f"{self.address}none", self.home / "none"]
        for place, kind in [*((place, FileNotFoundError) for place in missing), ("x:/", ValueError)]:
            with self.assertRaises(kind) as raised:
                tidegate.ls(place)
            self.assertNotIn("\n", str(raised.exception))


@needs("fsspec", "pytest")
class FileSystemTest(ServedTest):
    def setUp(self):
        import fsspec

        super().setUp()
        self.fs = fsspec.filesystem("tidegate", place=self.address, skip_instance_cache=True)

    def test_files_are_opened_by_their_urls(self):
        import fsspec

        content = os.urandom(3 << 20)
        with fsspec.open(f"{self.address}dir/large", "wb") as file:
            file.write(content)
        self.assertEqual((self.root / "dir" / "large").read_bytes(), content)
        os.environ["TIDEGATE_REMOTE_SERVED"] = self.address
        self.addCleanup(os.environ.pop, "TIDEGATE_REMOTE_SERVED")
        with fsspec.open("tidegate://served/dir/large", block_size=1 << 16) as file:
            file.seek(2 << 20)
            self.assertEqual(file.read(100), content[2 << 20 : (2 << 20) + 100])
        fs, path = fsspec.url_to_fs("tidegate://served/dir/large")
        self.assertEqual((path, fs.unstrip_protocol(path)), ("dir/large", "tidegate://served/dir/large"))
        secret = self.address.split("@")[0].removeprefix("tg://")
        self.assertNotIn(secret, fsspec.url_to_fs(f"{self.address}dir")[0].unstrip_protocol("dir"))

    def test_large_and_small_files_travel_whole(self):
        for size in (0, 5, 600_000, (1 << 20) + 1):
            content = os.urandom(size)
            self.fs.pipe_file("in/file", content)
            self.assertEqual((self.root / "in" / "file").read_bytes(), content)
            self.assertEqual(self.fs.cat_file("in/file"), content)
            self.fs.get_file("in/file", self.home / "got")
            self.assertEqual((self.home / "got").read_bytes(), content)
            self.assertEqual(self.fs.blake3("in/file"), tidegate.hash(self.home / "got"))
        self.assertEqual(self.fs.checksum("in/file"), int(tidegate.hash(self.home / "got"), 16))
        self.assertEqual(self.fs.find(""), ["in/file"])
        for name in ("in/small", "in/empty"):
            self.fs.pipe_file(name, name.encode())
        self.fs.get("in", str(self.home / "tree"), recursive=True)
        self.fs.put(str(self.home / "tree"), "again", recursive=True)
        self.assertEqual(self.fs.find("again"), ["again/empty", "again/file", "again/small"])
        self.assertEqual((self.root / "again" / "file").read_bytes(), content)
        with self.assertRaises(FileNotFoundError):
            self.fs.get(["in/small", "in/none"], [str(self.home / "one"), str(self.home / "two")])

    def test_ranges_are_those_of_slices(self):
        content = os.urandom(2_000_000)
        (self.root / "file").write_bytes(content)
        bounds = [(0, 10), (5, None), (None, None), (-10, None), (100, -100), (1_999_990, 3_000_000), (7, 7)]
        starts, ends = [list(column) for column in zip(*bounds, strict=True)]
        got = self.fs.cat_ranges(["file"] * len(bounds), starts, ends)
        self.assertEqual(got, [content[start:end] for start, end in bounds])
        got = self.fs.cat_ranges(["file", "none"], [0, 0], [4, 4])
        self.assertEqual(got[0], content[:4])
        self.assertIsInstance(got[1], FileNotFoundError)
        self.assertEqual(self.fs.cat(["file"]), {"file": content})
        with self.assertRaises(FileNotFoundError):
            self.fs.cat(["file", "none"])
        with ThreadPoolExecutor(8) as threads:
            got = list(threads.map(lambda at: self.fs.cat_file("file", at, at + 999), range(0, 1_000_000, 9_999)))
        self.assertEqual(got, [content[at : at + 999] for at in range(0, 1_000_000, 9_999)])

    def test_a_file_that_changes_while_it_is_read_is_told(self):
        (self.root / "file").write_bytes(bytes(100_000))
        with self.fs.open("file", block_size=1000, cache_type="none") as file:
            file.read(1000)
            (self.root / "file").write_bytes(bytes(100_001))
            with self.assertRaises(tidegate.Error) as raised:
                file.read(1000)
        self.assertEqual(raised.exception.kind, "changed")

    def test_what_is_half_written_gets_no_name(self):
        with self.assertRaises(ZeroDivisionError), self.fs.open("file", "wb") as file:
            file.write(b"half")
            1 // 0
        self.assertFalse(self.fs.exists("file"))

    def test_names_are_changed_and_removed(self):
        self.fs.pipe({"a/b/one": b"1", "a/two": b"2"})
        self.fs.mv("a", "moved/here", recursive=True)
        self.assertEqual(self.fs.find(""), ["moved/here/b/one", "moved/here/two"])
        self.fs.mv("moved/here/two", "moved/")
        self.assertTrue(self.fs.isfile("moved/two"))
        self.assertEqual(self.fs.glob("moved/**/o*"), ["moved/here/b/one"])
        self.assertEqual(self.fs.glob("moved/*"), ["moved/here", "moved/two"])
        with self.assertRaises(ValueError):
            self.fs.rm("moved")
        os.symlink("..", self.root / "moved" / "up")
        self.fs.rm("moved", recursive=True)
        self.assertEqual(self.fs.ls(""), [])
        self.fs.mkdir("new/deep")
        for call in (
            lambda: self.fs.mkdir("new"),
            lambda: self.fs.makedirs("new/deep"),
            lambda: self.fs.pipe_file("new", b"", mode="create"),
        ):
            with self.assertRaises(FileExistsError):
                call()
        self.fs.rmdir("new/deep")
        self.assertEqual(self.fs.ls("", detail=False), ["new"])

    def test_what_is_to_be_new_replaces_nothing_that_appears_meanwhile(self):
        large = bytes(tidegate.fs.MAX_CONTENT + 1)
        self.fs.pipe_file("large", large, mode="create")
        self.fs.pipe_file("small", b"new", mode="create")
        with self.fs.open("opened", "xb") as file:
            file.write(b"new")
        self.assertEqual([self.fs.cat("large"), self.fs.cat("small"), self.fs.cat("opened")], [large, b"new", b"new"])

        def opened():
            with self.fs.open("opened", "xb") as file:
                file.write(b"other")

        # As if it had not been there when it was looked for.
        self.fs._must_not_exist = lambda path: None
        self.fs.mkdir("directory")
        for call in (
            lambda: self.fs.pipe_file("large", large, mode="create"),
            lambda: self.fs.pipe_file("small", b"other", mode="create"),
            lambda: self.fs.mkdir("directory"),
            lambda: self.fs.makedirs("directory"),
            opened,
        ):
            with self.assertRaises(FileExistsError):
                call()
        self.assertEqual([self.fs.cat("small"), self.fs.cat("opened")], [b"new", b"new"])

    def test_each_refusal_has_its_class_and_is_one_line(self):
        import fsspec

        (self.root / "dir").mkdir()
        bare = self.address.replace(self.address.split("@")[0].removeprefix("tg://") + "@", "")
        for call, kind in [
            (lambda: self.fs.info("none"), FileNotFoundError),
            (lambda: self.fs.ls("none"), FileNotFoundError),
            (lambda: self.fs.open("none"), FileNotFoundError),
            (lambda: self.fs.rm("none"), FileNotFoundError),
            (lambda: self.fs.cat_file("dir"), tidegate.UsageError),
            (lambda: self.fs.open("file", "ab"), tidegate.UsageError),
            (lambda: self.fs.pipe_file("dir", b""), tidegate.UsageError),
            (lambda: self.fs.info("../etc/passwd"), tidegate.Error),
            (lambda: self.fs.info("dir/.tidegate"), tidegate.Error),
            (lambda: fsspec.filesystem("tidegate", place="none:/").info(""), tidegate.UsageError),
            (lambda: fsspec.filesystem("tidegate", place=bare).info(""), tidegate.UsageError),
            (lambda: fsspec.filesystem("tidegate", place=self.address, nonsense=1).info(""), tidegate.UsageError),
        ]:
            with self.assertRaises(kind) as raised:
                call()
            self.assertNotIn("\n", str(raised.exception))

    def test_a_directory_is_no_file(self):
        (self.root / "dir").mkdir()
        large = bytes(tidegate.fs.MAX_CONTENT + 1)
        for call in (
            lambda: self.fs.open("dir"), lambda: self.fs.open("dir", "wb"), lambda: self.fs.open("dir", "r").read(),
            lambda: self.fs.cat_file("dir"), lambda: self.fs.cat_file("dir", 0, 5), lambda: self.fs.cat(["dir"]), lambda: self.fs.blake3("dir"),
            lambda: self.fs.pipe_file("dir", b""), lambda: self.fs.pipe_file("dir", large), lambda: self.fs.rm_file("dir"),
            lambda: self.fs.rm("dir"), lambda: self.fs.mv("dir", "other"), lambda: self.fs.put_file(self.data, "dir"),
        ):
            with self.assertRaises(IsADirectoryError) as raised:
                call()
            self.assertEqual((raised.exception.errno, raised.exception.filename), (errno.EISDIR, "dir"))
            self.assertIsInstance(raised.exception, tidegate.UsageError)
        self.assertEqual((self.fs.ls("", detail=False), self.fs.find("")), (["dir"], []))
        with self.assertRaises(FileNotFoundError) as raised:
            self.fs.open("dir/none")
        self.assertEqual((raised.exception.errno, raised.exception.filename), (errno.ENOENT, "dir/none"))

    def test_what_is_of_another_type_is_refused_before_anything_is_written(self):
        import fsspec

        self.fs.pipe_file("file", b"content")
        for call in (
            lambda: self.fs.pipe_file("file", 5), lambda: self.fs.pipe_file("file", [1]), lambda: self.fs.pipe_file("file", "x"),
            lambda: self.fs.pipe_file(b"file", b"x"), lambda: self.fs.rm("file", recursive="no"),
            lambda: self.fs.touch("file", truncate="no"), lambda: self.fs.mv("file", "other", recursive=1),
            lambda: self.fs.info(None), lambda: fsspec.filesystem("tidegate", place=self.address, sessions=True),
            lambda: fsspec.filesystem("tidegate", place=self.address, tls_ca=True),
            lambda: fsspec.filesystem("tidegate", place=Path("here")), lambda: fsspec.filesystem("tidegate", place=b"here"),
        ):
            with self.assertRaises(TypeError):
                call()
        with self.assertRaises(tidegate.UsageError):
            self.fs.pipe_file("file", b"x", mode="Create")
        self.assertEqual(self.fs.cat_file("file"), b"content")

    def test_another_process_has_connections_of_its_own(self):
        (self.root / "file").write_text("content")
        self.assertEqual(self.fs.cat_file("file"), b"content")
        self.assertEqual(pickle.loads(pickle.dumps(self.fs)).cat_file("file"), b"content")
        reader, writer = os.pipe()
        if (child := os.fork()) == 0:
            os.write(writer, self.fs.cat_file("file"))
            os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(os.read(reader, 100), b"content")


@needs("fsspec", "pytest")
class SuiteTest(ServedTest):
    def test_its_own_suite_passes(self):
        suite = Path(__file__).parent / "fsspec_suite.py"
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={self.home / 'pytest'}", suite],
            env=os.environ | {"TIDEGATE_SERVED": self.address}, capture_output=True, text=True,
        )
        self.assertEqual(ran.returncode, 0, ran.stdout[-3000:])
        self.assertGreater(int(re.search(r"(\d+) passed", ran.stdout)[1]), 100)


@needs("fsspec")
class SessionsTest(TransferTest):
    """A ticket has few sessions, and several want them."""

    def setUp(self):
        super().setUp()
        self.address = self.serve("--sessions", "2")
        self.content = os.urandom(8 << 20)
        (self.home / "root" / "file").write_bytes(self.content)

    def test_processes_that_share_a_ticket_wait_for_a_session(self):
        code = (
            "import sys, hashlib, fsspec; fs = fsspec.filesystem('tidegate', place=sys.argv[1]); print('ready', flush=True);"
            "sys.stdin.readline(); print(hashlib.sha256(fs.cat_file('file')).hexdigest(), flush=True); fs.close()"
        )
        readers = [
            subprocess.Popen([sys.executable, "-c", code, self.address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(4)
        ]
        for reader in readers:
            self.addCleanup(reader.communicate)
            self.assertEqual(reader.stdout.readline(), "ready\n")
        for reader in readers:
            reader.stdin.write("go\n")
            reader.stdin.flush()
        wanted = hashlib.sha256(self.content).hexdigest()
        self.assertEqual([reader.stdout.readline().strip() for reader in readers], [wanted] * 4)

    def test_sessions_that_nobody_uses_are_closed(self):
        import fsspec

        first, second, third = (
            fsspec.filesystem("tidegate", place=self.address, skip_instance_cache=True) for _ in range(3)
        )
        self.assertEqual(first.cat_file("file"), self.content)
        # What the large read has opened besides is closed by itself, and all by hand.
        self.assertEqual(second.info("file")["size"], len(self.content))
        first.close()
        self.assertEqual(third.info("file")["size"], len(self.content))
        self.assertEqual(first.cat_file("file"), self.content, "it opens another")


# Too large to be installed for every run of the tests: `pip install pandas pyarrow zarr xarray` into their environment.
@needs("fsspec", "pandas", "pyarrow", "zarr", "xarray")
class ReadersTest(ServedTest):
    def setUp(self):
        super().setUp()
        os.environ["TIDEGATE_REMOTE_SERVED"] = self.address
        self.addCleanup(os.environ.pop, "TIDEGATE_REMOTE_SERVED")

    def test_tables_are_written_and_read(self):
        import pandas
        import pyarrow.dataset
        import pyarrow.fs

        table = pandas.DataFrame({"name": [f"sample {i}" for i in range(100_000)], "value": range(100_000)})
        table.to_csv("tidegate://served/table.csv", index=False)
        table.to_parquet("tidegate://served/set/table.parquet", row_group_size=10_000)
        pandas.testing.assert_frame_equal(pandas.read_csv("tidegate://served/table.csv"), table)
        found = pandas.read_parquet("tidegate://served/set", filters=[("value", ">=", 99_990)])
        self.assertEqual(list(found["value"]), list(range(99_990, 100_000)))
        import fsspec

        fs = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fsspec.filesystem("tidegate", place="served:/")))
        data = pyarrow.dataset.dataset("set", filesystem=fs, format="parquet")
        self.assertEqual(data.count_rows(), 100_000)

    def test_arrays_are_written_and_read(self):
        import numpy
        import xarray
        import zarr

        values = numpy.arange(1_000_000).reshape(1000, 1000)
        array = zarr.create_array("tidegate://served/array.zarr", shape=values.shape, chunks=(100, 100), dtype=values.dtype)
        array[:] = values
        again = zarr.open_array("tidegate://served/array.zarr", mode="r")
        self.assertTrue((again[250:750, 333] == values[250:750, 333]).all())
        xarray.Dataset({"t": (("x", "y"), values)}).to_zarr("tidegate://served/set.zarr")
        self.assertEqual(int(xarray.open_zarr("tidegate://served/set.zarr")["t"].sum()), int(values.sum()))


if __name__ == "__main__":
    unittest.main()
