"""Lists of buckets and objects: pages, prefixes, delimiters, where a list begins, and how names are written."""

from urllib.parse import quote

from endpoint import Case

# Their order is that of their bytes, which is not that in which a tree is walked.
KEYS = ["a", "d!", "d-x/1", "d.txt", "d/e!", "d/e/1", "d/e/2", "d/e0", "d0", "sub x/y", "z"]


class Listing(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bucket = cls.site.bucket(*KEYS)

    def list(self, query):
        answer = self.site.ask_s3("GET", f"/{self.bucket}?{query}")
        self.assertStatus(200, answer, query)
        return answer

    def pages(self, operation, size, **how):
        """The keys and the common prefixes of all pages of a list."""
        config = {"PageSize": size}
        pages = list(self.s3.get_paginator(operation).paginate(Bucket=self.bucket, PaginationConfig=config, **how))
        for page in pages:
            count = len(page.get("Contents", [])) + len(page.get("CommonPrefixes", []))
            self.assertLessEqual(count, size)
            self.assertEqual(page.get("KeyCount", count), count)
            self.assertEqual(page["IsTruncated"], page is not pages[-1])
        keys = [found["Key"] for page in pages for found in page.get("Contents", [])]
        return keys, [found["Prefix"] for page in pages for found in page.get("CommonPrefixes", [])]

    def test_pages_of_any_size_have_every_key_once_and_in_order(self):
        for operation in "list_objects", "list_objects_v2":
            for size in 1, 2, 5, len(KEYS), 1000:
                with self.subTest(operation, size=size):
                    self.assertEqual(self.pages(operation, size), (KEYS, []))

    def test_common_prefixes_are_told_once_across_pages(self):
        keys, prefixes = ["a", "d!", "d.txt", "d0", "z"], ["d-x/", "d/", "sub x/"]
        for operation in "list_objects", "list_objects_v2":
            for size in 1, 2, 3, 8, 1000:
                with self.subTest(operation, size=size):
                    self.assertEqual(self.pages(operation, size, Delimiter="/"), (keys, prefixes))

    def test_a_prefix_with_a_delimiter_lists_one_level(self):
        for prefix, expected in {
            "d/": (["d/e!", "d/e0"], ["d/e/"]),
            "d/e/": (["d/e/1", "d/e/2"], []),
            "d/e": (["d/e!", "d/e0"], ["d/e/"]),
            "d": (["d!", "d.txt", "d0"], ["d-x/", "d/"]),
            "sub": ([], ["sub x/"]),
        }.items():
            for size in 1, 1000:
                with self.subTest(prefix, size=size):
                    self.assertEqual(self.pages("list_objects_v2", size, Prefix=prefix, Delimiter="/"), expected)

    def test_an_unusual_prefix_is_bytes_and_no_path(self):
        for prefix, expected in {
            "": KEYS,
            "d": [key for key in KEYS if key.startswith("d")],
            "d/e/1": ["d/e/1"],
            "sub x": ["sub x/y"],
            "/": [],
            "//": [],
            "d//": [],
            "d/../": [],
            "../": [],
            ".": [],
            ".tidegate/": [],
            "a/": [],
            "+": [],
            "\n": [],
            "none/of/these": [],
            "x" * 2000: [],
        }.items():
            with self.subTest(prefix[:20]):
                self.assertEqual(self.keys(self.bucket, Prefix=prefix), expected)

    def test_a_list_begins_behind_what_it_is_told(self):
        for after, left in {"a": 10, "d/": 7, "d/e/1": 5, "d/e/9": 4, "zz": 0, "\t": 11, "b": 10, "": 11, "sub+x": 1}.items():
            with self.subTest(after):
                expected = KEYS[len(KEYS) - left :]
                self.assertEqual(self.keys(self.bucket, StartAfter=after), expected)
                answer = self.s3.list_objects(Bucket=self.bucket, Marker=after)
                self.assertEqual([found["Key"] for found in answer.get("Contents", [])], expected)
                self.assertEqual(answer["Marker"], after)

    def test_a_continuation_token_comes_before_what_a_list_begins_behind(self):
        page = self.s3.list_objects_v2(Bucket=self.bucket, MaxKeys=3, StartAfter="a")
        self.assertEqual((page["StartAfter"], page["KeyCount"], page["IsTruncated"]), ("a", 3, True))
        token = page["NextContinuationToken"]
        page = self.s3.list_objects_v2(Bucket=self.bucket, MaxKeys=2, ContinuationToken=token, StartAfter="a")
        self.assertEqual([found["Key"] for found in page["Contents"]], KEYS[4:6])
        self.assertEqual(page["ContinuationToken"], token)

    def test_a_page_is_as_long_as_was_asked_for_and_a_thousand_at_most(self):
        for most, count in ("1", 1), ("1000", 11), ("5000", 11), ("0", 0):
            answer = self.list(f"list-type=2&max-keys={most}")
            self.assertEqual(len(answer.all("Key")), count, most)
            self.assertEqual(answer.find("MaxKeys"), str(min(int(most), 1000)))
            self.assertEqual(answer.find("IsTruncated"), "true" if most == "1" else "false")

    def test_what_is_asked_amiss_is_refused(self):
        for query, status, code in [
            ("max-keys=blah", 400, "InvalidArgument"),
            ("max-keys=-1", 400, "InvalidArgument"),
            ("list-type=3", 400, "InvalidArgument"),
            ("encoding-type=xml", 400, "InvalidArgument"),
            ("list-type=2&continuation-token=%21", 400, "InvalidArgument"),
            ("delimiter=a", 501, "NotImplemented"),
            ("delimiter=%0A", 501, "NotImplemented"),
        ]:
            answer = self.site.ask_s3("GET", f"/{self.bucket}?{query}")
            self.assertEqual((answer.status, answer.code), (status, code), query)

    def test_an_empty_delimiter_is_none(self):
        answer = self.list("delimiter=")
        self.assertEqual((answer.all("Key"), answer.all("CommonPrefixes"), answer.find("Delimiter")), (KEYS, [], None))

    def test_names_are_encoded_where_that_is_asked_for(self):
        keys = ["\x01control", "am&p<", "e\u0301", "line\nfeed", "per%cent", "plus+", "quo\"te'", "sp ace", "é"]
        keys.sort(key=str.encode)
        bucket = self.site.bucket(*keys, "dir +/x")
        answer = self.site.ask_s3("GET", f"/{bucket}?list-type=2&encoding-type=url&delimiter=/&start-after=%00")
        self.assertEqual(answer.all("Key"), [quote(key) for key in keys])
        self.assertEqual((answer.all("Prefix"), answer.find("StartAfter")), (["", "dir%20%2B/"], "%00"))
        self.assertEqual(answer.find("EncodingType"), "url")
        answer = self.site.ask_s3("GET", f"/{bucket}?encoding-type=url&prefix=plus%2B&marker=p")
        self.assertEqual([answer.find(name) for name in ("Prefix", "Marker", "Key")], ["plus%2B", "p", "plus%2B"])
        self.assertEqual(self.keys(bucket), sorted([*keys, "dir +/x"], key=str.encode))

    def test_names_that_xml_cannot_have_are_listed_encoded_alone(self):
        bucket = self.site.bucket("plain", "\x01control", "\ufffe")
        self.assertEqual(self.site.ask_s3("GET", f"/{bucket}").all("Key"), ["plain"])
        self.assertEqual(self.site.ask_s3("GET", f"/{bucket}?encoding-type=url").all("Key"), ["%01control", "plain", "%EF%BF%BE"])

    def test_a_list_tells_what_a_head_tells(self):
        (found,) = self.s3.list_objects_v2(Bucket=self.bucket, Prefix="d/e/1")["Contents"]
        head = self.s3.head_object(Bucket=self.bucket, Key="d/e/1")
        self.assertEqual((found["ETag"], found["Size"]), (head["ETag"], head["ContentLength"]))
        self.assertEqual((found["LastModified"], found["StorageClass"]), (head["LastModified"], "STANDARD"))

    def test_links_are_listed_as_far_as_they_are_served_and_never_walked(self):
        bucket = self.site.bucket("sub/x", "file")
        root = self.site.root / bucket
        for target, link in ("/etc", "out"), (".", "circle"), ("sub", "dir"), ("file", "same"), ("none", "dangling"):
            (root / link).symlink_to(target)
        self.assertEqual(self.keys(bucket), ["file", "same", "sub/x"])
        found = self.s3.list_objects_v2(Bucket=bucket, Delimiter="/")["CommonPrefixes"]
        self.assertEqual([prefix["Prefix"] for prefix in found], ["dir/", "sub/"])

    def test_an_empty_bucket_is_an_empty_list(self):
        bucket = self.site.bucket()
        for call in self.s3.list_objects, self.s3.list_objects_v2:
            answer = call(Bucket=bucket, Delimiter="/")
            self.assertEqual((answer.get("Contents"), answer.get("CommonPrefixes"), answer["IsTruncated"]), (None, None, False))
            self.refused("NoSuchBucket", call, Bucket="none")

    def test_a_token_lists_what_it_opens(self):
        bucket = self.site.bucket("in/a", "out")
        narrow = self.site.s3(self.site.issue("--path", f"{bucket}/in", "--read-only"))
        self.assertEqual([found["Name"] for found in narrow.list_buckets()["Buckets"]], [bucket])
        self.assertEqual([found["Key"] for found in narrow.list_objects_v2(Bucket=bucket, Prefix="in/")["Contents"]], ["in/a"])
        self.refused("AccessDenied", narrow.list_objects_v2, Bucket=bucket)
        self.refused("AccessDenied", narrow.list_objects_v2, Bucket=self.bucket)
        self.refused("AccessDenied", narrow.get_object, Bucket=bucket, Key="out")
        blind = self.site.s3(self.site.issue("--write-only"))
        self.refused("AccessDenied", blind.list_objects_v2, Bucket=bucket)
        self.assertIn(bucket, [found["Name"] for found in self.s3.list_buckets()["Buckets"]])
