"""Names of any kind: what is put under one is got under that one alone, in every dialect."""

from urllib.parse import quote

from endpoint import Case

ODD = [
    " ",
    " leading and trailing ",
    "+",
    "a+b c%20d",
    "100%",
    "%2F",
    "%00",
    "é",
    "e\u0301",
    "日本語/ü",
    "🌊",
    "quote'\"`",
    "a?b#c&d=e;f",
    "<&>",
    "back\\slash",
    "tab\there",
    "line\nfeed",
    "carriage\rreturn",
    "\x01\x1f\x7f",
    "...",
    ".hidden",
    "..a/b..",
    "a/.../b",
    "~/$HOME/*",
    "-rf",
    ":",
    "x" * 255,
    "/".join(["d" * 127] * 8),
]


class Names(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bucket = cls.site.bucket()

    def test_an_odd_key_is_put_got_listed_copied_and_deleted(self):
        bucket = self.site.bucket()
        for key in ODD:
            with self.subTest(key[:20]):
                self.s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
                self.assertEqual(self.site.read(f"{bucket}/{key}"), key.encode())
                self.assertEqual(self.content(bucket, key), key.encode())
                self.assertEqual(self.keys(bucket, Prefix=key), [key])
                self.s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": key})
                self.assertEqual(self.site.read(f"{bucket}/copy"), key.encode())
        self.assertEqual(self.keys(bucket), sorted([*ODD, "copy"], key=str.encode))
        for key in ODD[::2]:
            self.s3.delete_object(Bucket=bucket, Key=key)
        self.assertEqual(self.keys(bucket), sorted([*ODD[1::2], "copy"], key=str.encode))
        # A document of XML turns a carriage return that is not escaped into a line feed.
        left = [key for key in ODD[1::2] if key.isprintable()]
        told = self.s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in left]})
        self.assertEqual([found["Key"] for found in told["Deleted"]], left)
        self.assertEqual(self.keys(bucket), sorted([*(key for key in ODD[1::2] if key not in left), "copy"], key=str.encode))

    def test_every_dialect_means_the_same_by_a_name(self):
        self.site.write(f"{self.bucket}/shared/placeholder", "x")
        for number, key in enumerate(ODD[:20]):
            with self.subTest(key):
                key = f"shared/{number}{key.replace('/', '|')}"
                target = f"/{self.bucket}/{quote(key, safe='/')}"
                self.s3.put_object(Bucket=self.bucket, Key=key, Body=key.encode())
                self.assertEqual(self.site.ask("GET", target).body, key.encode())
                answer = self.site.ask("PROPFIND", target, {"Depth": "0"})
                self.assertEqual((answer.status, answer.find("href")), (207, target))
                self.assertStatus(204, self.site.ask("DELETE", target))
                self.refused("NoSuchKey", self.s3.get_object, Bucket=self.bucket, Key=key)

    def test_a_name_may_be_written_in_several_ways_and_is_signed_in_each(self):
        self.site.write(f"{self.bucket}/a~b c+d", "x")
        for written in "a~b%20c+d", "%61%7Eb%20c%2Bd", "a%7eb%20c%2bd":
            self.assertStatus(200, self.site.ask_s3("GET", f"/{self.bucket}/{written}"), written)

    def test_a_name_that_no_file_can_have_is_refused_and_makes_nothing(self):
        bucket = self.site.bucket("a")
        for key, code in {
            "/a": "InvalidRequest",
            "//": "InvalidRequest",
            "a//b": "InvalidRequest",
            "d//": "InvalidRequest",
            ".": "InvalidRequest",
            "..": "InvalidRequest",
            "d/../a": "InvalidRequest",
            "./a": "InvalidRequest",
            "d/.": "InvalidRequest",
            "nul\0": "InvalidRequest",
            ".tidegate/x": "InvalidRequest",
            "d/.tidegate": "InvalidRequest",
            "x" * 256: "InvalidRequest",
            "d/" + "é" * 128: "InvalidRequest",
            "/".join(["d" * 200] * 25): "KeyTooLongError",
        }.items():
            target = f"/{bucket}/{quote(key, safe='/')}"
            for method in "PUT", "POST":
                with self.subTest(key[:20], method=method):
                    answer = self.site.ask_s3(method, target + ("?uploads" if method == "POST" else ""))
                    self.assertEqual((answer.status, answer.code), (400, code))
            for method in "GET", "DELETE":
                with self.subTest(key[:20], method=method):
                    self.assertIn(self.site.ask_s3(method, target).status, (400, 404) if method == "GET" else (400, 204))
        self.assertEqual([path.name for path in (self.site.root / bucket).iterdir()], ["a"])

    def test_what_is_in_the_way_is_told(self):
        bucket = self.site.bucket("file", "dir/x")
        for key in "file/below", "file/below/deep", "dir", "file/":
            for what in "PUT", "COPY", "POST":
                with self.subTest(key, what=what):
                    headers = {"x-amz-copy-source": f"/{bucket}/file"} if what == "COPY" else {}
                    target = f"/{bucket}/{key}" + ("?uploads" if what == "POST" else "")
                    answer = self.site.ask_s3("POST" if what == "POST" else "PUT", target, headers)
                    self.assertEqual((answer.status, answer.code), (409, "InvalidRequest"), answer.text)
        self.assertEqual(self.keys(bucket), ["dir/x", "file"])
        self.assertEqual(self.content(bucket, "file"), b"file")

    def test_a_key_that_ends_with_a_slash_is_a_directory(self):
        bucket = self.site.bucket("file")
        for _ in "first", "again":
            self.s3.put_object(Bucket=bucket, Key="some/dir/")
        self.assertTrue((self.site.root / bucket / "some/dir").is_dir())
        self.refused("InvalidRequest", self.s3.put_object, Bucket=bucket, Key="some/dir/", Body=b"x")
        for key in "some/dir/", "some/dir":
            self.refused("NoSuchKey", self.s3.get_object, Bucket=bucket, Key=key)
        self.refused("NoSuchKey", self.s3.get_object, Bucket=bucket, Key="file/")
        self.assertEqual(self.keys(bucket), ["file"])
        (found,) = self.s3.list_objects_v2(Bucket=bucket, Delimiter="/", Prefix="some/")["CommonPrefixes"]
        self.assertEqual(found["Prefix"], "some/dir/")
        self.s3.delete_object(Bucket=bucket, Key="file/")
        self.s3.delete_object(Bucket=bucket, Key="some/dir/")
        self.assertEqual(sorted(path.name for path in (self.site.root / bucket).rglob("*")), ["file", "some"])

    def test_a_link_is_read_written_through_and_removed_itself(self):
        bucket = self.site.bucket("file", "d/x")
        root = self.site.root / bucket
        for target, link in ("file", "link"), ("d", "dir"), ("/etc/passwd", "out"), ("none", "dangling"):
            (root / link).symlink_to(target)
        self.assertEqual((self.content(bucket, "link"), self.content(bucket, "dir/x")), (b"file", b"d/x"))
        self.refused(403, self.s3.get_object, Bucket=bucket, Key="out")
        self.refused(403, self.s3.get_object, Bucket=bucket, Key="dangling")
        self.s3.put_object(Bucket=bucket, Key="dir/y", Body=b"y")
        self.assertEqual(self.site.read(f"{bucket}/d/y"), b"y")
        for key in "link", "dir", "out", "dangling":
            self.s3.delete_object(Bucket=bucket, Key=key)
        self.assertEqual(self.keys(bucket), ["d/x", "d/y", "file"])
