"""Programs that people have: rclone, aria2, cadaver and litmus. They are of the system, and `make test` leaves them out."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from endpoint import Endpoint

# What litmus asks of WebDAV servers and an endpoint does not do: copies and properties of others, removal of whole trees by one
# request, and to find fault with how XML uses namespaces.
NOT_DONE = {
    "basic": [],
    "http": [],
    "locks": [],
    "copymove": ["copy_simple", "copy_overwrite", "copy_coll", "copy_shallow", "move", "move_coll"],
    "props": ["propfind_invalid2", "propset", "propmanyns", "propget"],
}


def setUpModule():
    global sites
    sites = {}


def tearDownModule():
    for site in sites.values():
        site.end()


def needs(*programs):
    """Skips a test where a program is not installed, or is not to be used."""
    if os.environ.get("TIDEGATE_TEST_INSTALLED") == "no":
        return unittest.skip("left to the tests of installed programs")
    missing = [program for program in programs if shutil.which(program) is None]
    return unittest.skipIf(missing, f"{', '.join(missing)} is not installed")


class Programs(unittest.TestCase):
    def setUp(self):
        self.home = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)

    def start(self, scheme):
        """An endpoint that takes what nothing vouches for, as these programs send it."""
        if scheme not in sites:
            sites[scheme] = Endpoint("--allow-unverified-put", scheme=scheme)
        self.site = sites[scheme]
        self.bucket = self.site.bucket("a b.txt", "sub/deep/x", "sub-x")
        self.site.write(f"{self.bucket}/big", os.urandom(3 << 20))
        self.root = self.site.root / self.bucket
        for target, link in ("sub-x", "file"), ("sub", "dir"), (".", "circle"):
            (self.root / link).symlink_to(target)

    def run_program(self, *words, code=0, told=None, **more):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "RCLONE_CA_CERT": str(self.site.home / "cert.pem")}
        ran = subprocess.run(
            words, env=environment | more, cwd=self.home, input=told, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120
        )
        self.assertEqual(ran.returncode, code, f"{words}: {ran.stdout}")
        return ran.stdout

    def tree(self, root):
        """What is served of it: links, too, but none that leads to what contains it."""
        found = {}
        for directory, names, files in os.walk(root, followlinks=True):
            names[:] = [name for name in names if name != "circle"]
            for path in (Path(directory) / name for name in files):
                found[str(path.relative_to(root))] = path.read_bytes()
        return found

    def through_rclone(self, remote):
        def rclone(*words):
            return self.run_program("rclone", "--config", "", "--retries", "1", *words)

        here, back = self.home / "here", f"{remote}{self.bucket}-back"
        rclone("copy", f"{remote}{self.bucket}", str(here))
        self.assertEqual(self.tree(here), self.tree(self.root))
        rclone("copy", str(here), back)
        rclone("check", "--download", str(here), back)
        rclone("moveto", f"{back}/sub-x", f"{back}/moved")
        rclone("delete", f"{back}/sub")
        (here / "sub/deep/x").unlink()
        (here / "sub-x").rename(here / "moved")
        self.assertEqual(self.tree(self.site.root / f"{self.bucket}-back"), self.tree(here))
        self.assertEqual(set(rclone("lsf", f"{remote}{self.bucket}").split("\n")) - {""}, {"a b.txt", "big", "dir/", "file", "sub-x", "sub/"})

    @needs("rclone")
    def test_rclone_over_s3(self):
        self.start("https")
        token = self.site.token
        self.through_rclone(f":s3,provider=Other,access_key_id={token.id},secret_access_key={token.secret},endpoint='{self.site.url}':")

    @needs("rclone")
    def test_rclone_over_webdav(self):
        self.start("https")
        password = self.run_program("rclone", "obscure", self.site.token.word).strip()
        self.through_rclone(f":webdav,vendor=other,url='{self.site.url}',user=x,pass={password}:")

    @needs("aria2c")
    def test_aria2_by_several_connections(self):
        self.start("https")
        words = ["-q", f"--ca-certificate={self.site.home / 'cert.pem'}", "-x4", "-s4", "-k1M", "--http-user=x"]
        self.run_program("aria2c", *words, f"--http-passwd={self.site.token.word}", f"{self.site.url}/{self.bucket}/big")
        self.assertEqual((self.home / "big").read_bytes(), self.site.read(f"{self.bucket}/big"))

    def cadaver(self, *commands):
        host = self.site.place.partition(":")[0]
        (self.home / ".netrc").write_text(f"machine {host} login x password {self.site.token.word}\n")
        (self.home / ".netrc").chmod(0o600)
        return self.run_program("cadaver", f"{self.site.url}/{self.bucket}/", told="\n".join([*commands, "quit", ""]))

    @needs("cadaver")
    def test_cadaver_lists_gets_puts_moves_and_deletes(self):
        self.start("http")
        (self.home / "new file").write_bytes(b"new")
        told = self.cadaver("ls", "get big", "mkcol made", 'put "new file"', 'move "new file" made/moved', "delete sub-x", "delete file", "ls made")
        for name in "a b.txt", "sub-x", "Coll:", "sub", "moved":
            self.assertIn(name, told)
        self.assertEqual((self.home / "big").read_bytes(), (self.root / "big").read_bytes())
        self.assertEqual((self.root / "made/moved").read_bytes(), b"new")
        left = {"a b.txt", "big", "dir/deep/x", "made/moved", "sub/deep/x"}
        self.assertEqual(set(self.tree(self.root)), left)
        told = self.cadaver("lock big", "copy big copy", "delete none", "rmcol sub", "propset big a b")
        self.assertEqual(told.count("failed:"), 5, told)
        self.assertEqual(set(self.tree(self.root)), left)

    @needs("litmus")
    def test_litmus_finds_no_fault_but_what_is_not_done(self):
        self.start("http")
        for suite, not_done in NOT_DONE.items():
            shutil.rmtree(self.site.root / "litmus", ignore_errors=True)
            words = ["litmus", "-k", self.site.url, "user", self.site.token.word]
            ran = subprocess.run(
                words, env={"PATH": os.environ["PATH"], "TESTS": suite}, cwd=self.home, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
            )
            with self.subTest(suite):
                self.assertIn(f"summary for `{suite}'", ran.stdout)
                # What warnings come before begins its line anew.
                failed = re.findall(r"(?:^|[\r\n]) *\d+\. ([a-z0-9_]+)\.* FAIL \(", ran.stdout)
                self.assertEqual(failed, not_done, ran.stdout)
