"""Objects: what is put is what is got, whole or in part, and under which conditions."""

import email
from datetime import datetime, timedelta, timezone

from endpoint import Case

OLD = datetime(2001, 2, 3, 4, 5, 6, tzinfo=timezone.utc)


class Objects(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bucket = cls.site.bucket()

    def put(self, key, body=b"0123456789", **how):
        return self.s3.put_object(Bucket=self.bucket, Key=key, Body=body, **how)

    def head(self, key, **how):
        return self.s3.head_object(Bucket=self.bucket, Key=key, **how)

    def get(self, key, **how):
        return self.s3.get_object(Bucket=self.bucket, Key=key, **how)


class Putting(Objects):
    def test_an_object_is_what_was_put_and_a_head_tells_the_same(self):
        for size in 0, 1, 200_000, 1 << 20:
            body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
            tag = self.put(f"s{size}", body)["ETag"]
            got, head = self.get(f"s{size}"), self.head(f"s{size}")
            self.assertEqual(got["Body"].read(), body)
            self.assertEqual(self.site.read(f"{self.bucket}/s{size}"), body)
            for name in "ETag", "LastModified", "ContentLength", "AcceptRanges":
                self.assertEqual(got[name], head[name])
            self.assertEqual((head["ETag"], head["ContentLength"]), (tag, size))

    def test_an_object_is_replaced_as_a_whole(self):
        first = self.put("replaced", b"long before")["ETag"]
        second = self.put("replaced", b"short")["ETag"]
        self.assertNotEqual(first, second)
        self.assertEqual(self.content(self.bucket, "replaced"), b"short")
        self.put("replaced", b"")
        self.assertEqual(self.content(self.bucket, "replaced"), b"")

    def test_a_type_and_metadata_are_not_kept_but_the_time_of_the_file(self):
        self.put("typed", ContentType="text/html", CacheControl="no-cache", Metadata={"mtime": "981173106.5", "other": "x"})
        head = self.head("typed")
        self.assertEqual((head["ContentType"], head["LastModified"]), ("application/octet-stream", OLD))
        self.assertEqual(head["Metadata"], {"mtime": "981173106.500000000"})
        self.assertTrue(head["ContentDisposition"].startswith("attachment"))
        self.assertEqual((self.site.root / self.bucket / "typed").stat().st_mtime_ns, 981173106_500_000_000)
        got = self.get("typed", ResponseContentType="text/html")
        self.assertEqual(got["ContentType"], "application/octet-stream")

    def test_what_is_not_done_is_not_said_to_be(self):
        self.put("kept")
        for how in [
            {"ServerSideEncryption": "AES256"},
            {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "0" * 32},
            {"ObjectLockLegalHoldStatus": "ON"},
            {"WriteOffsetBytes": 10},
        ]:
            self.refused("NotImplemented", self.put, key="kept", body=b"new", **how)
        target, copied = f"/{self.bucket}/kept", {"x-amz-copy-source": f"/{self.bucket}/kept"}
        for method, headers in [
            ("DELETE", {"x-amz-if-match-size": "3"}),
            ("PUT", copied | {"x-amz-copy-source-server-side-encryption-customer-algorithm": "AES256"}),
            ("PUT", copied | {"x-amz-object-lock-mode": "COMPLIANCE"}),
        ]:
            answer = self.site.ask_s3(method, target, headers)
            self.assertEqual((answer.status, answer.code), (501, "NotImplemented"), headers)
        self.assertEqual(self.content(self.bucket, "kept"), b"0123456789")

    def test_an_encoding_that_would_be_forgotten_is_refused(self):
        answer = self.site.ask_s3("PUT", f"/{self.bucket}/packed", {"Content-Encoding": "gzip"}, b"x")
        self.assertStatus(415, answer)
        # Within chunks as well, as newer clients send all bodies.
        self.refused(415, self.put, key="packed", ContentEncoding="gzip", ChecksumAlgorithm="CRC32")
        self.assertIsNone(self.site.read(f"{self.bucket}/packed"))
        answer = self.site.ask_s3("PUT", f"/{self.bucket}/plain", {"Content-Encoding": "identity"}, b"x")
        self.assertStatus(200, answer)

    def test_a_body_whose_length_is_not_told_is_taken(self):
        headers = self.site.sign("PUT", f"/{self.bucket}/streamed", {}, b"abcdef") | {"Transfer-Encoding": "chunked"}
        answer = self.site.send("PUT", f"/{self.bucket}/streamed", headers, b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n")
        self.assertStatus(200, answer)
        self.assertEqual(self.content(self.bucket, "streamed"), b"abcdef")

    def test_a_body_of_another_length_than_was_told_leaves_nothing(self):
        target, body = f"/{self.bucket}/length", b"0123456789"
        headers = self.site.sign("PUT", target, {}, body)
        self.assertStatus(400, self.site.send("PUT", target, headers | {"Content-Length": "9"}, body))
        for length in "-1", "x", "":
            self.assertStatus(400, self.site.send("PUT", target, headers | {"Content-Length": length}, body), length)
        said = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        # What is left is sent, and then the connection ends.
        with self.subTest("too long"):
            self.cut_off(f"PUT {target} HTTP/1.1\r\n{said}Content-Length: 11\r\n\r\n".encode() + body)
        self.assertIsNone(self.site.read(f"{self.bucket}/length"))

    def cut_off(self, request):
        connection = self.site.connection()
        connection.connect()
        connection.sock.sendall(request)
        work = self.site.root / self.bucket / ".tidegate"
        self.wait(work.exists)
        connection.close()
        self.wait(lambda: not work.exists())

    def test_who_waits_before_sending_is_told_to_go_on_or_why_not(self):
        body = b"x" * 1000
        target = f"/{self.bucket}/expected"
        headers = self.site.sign("PUT", target, {"Expect": "100-continue"}, body)
        wrong = headers | {"Authorization": headers["Authorization"][:-1] + "!"}
        for told, expected in (headers, b"HTTP/1.1 100 "), (wrong, b"HTTP/1.1 403 "):
            said = "".join(f"{name}: {value}\r\n" for name, value in told.items())
            connection = self.site.connection()
            connection.connect()
            connection.sock.sendall(f"PUT {target} HTTP/1.1\r\n{said}Content-Length: {len(body)}\r\n\r\n".encode())
            answer = connection.sock.recv(1000)
            self.assertTrue(answer.startswith(expected), answer)
            # Who may send its body still, or not, cannot be told from the next request.
            self.assertEqual(b"connection: close" in answer, told is wrong, answer)
            if expected.endswith(b"100 "):
                connection.sock.sendall(body)
                self.assertTrue(connection.sock.recv(1000).startswith(b"HTTP/1.1 200 "))
            connection.close()
        self.assertEqual(self.site.read(f"{self.bucket}/expected"), body)

    def test_who_is_refused_while_it_sends_hears_why_and_keeps_its_connection(self):
        self.put("there")
        target, body = f"/{self.bucket}/there", b"x" * 500_000
        headers = self.site.sign("PUT", target, {"If-None-Match": "*"}, body)
        connection = self.site.connection()
        connection.connect()
        used = connection.sock
        for _ in range(5):
            connection.request("PUT", target, body, headers)
            answer = connection.getresponse()
            self.assertIn(b"PreconditionFailed", answer.read())
            self.assertEqual((answer.status, answer.headers["connection"]), (412, None))
            self.assertIs(connection.sock, used)
        connection.close()

    def test_what_is_not_there_is_told_by_its_name(self):
        self.refused("NoSuchKey", self.s3.get_object, Bucket=self.bucket, Key="none")
        self.refused(404, self.s3.head_object, Bucket=self.bucket, Key="none")
        for call, how in [
            (self.s3.get_object, {}),
            (self.s3.put_object, {"Body": b"x"}),
            (self.s3.delete_object, {}),
            (self.s3.create_multipart_upload, {}),
            (self.s3.copy_object, {"CopySource": {"Bucket": self.bucket, "Key": "none"}}),
        ]:
            with self.subTest(call.__name__):
                self.refused("NoSuchBucket", call, Bucket="none", Key="key", **how)
        self.assertFalse((self.site.root / "none").exists())

    def test_a_token_puts_where_it_may_whatever_bucket_that_is(self):
        narrow = self.site.s3(self.site.issue("--path", "made/by/token"))
        narrow.put_object(Bucket="made", Key="by/token/x", Body=b"x")
        self.assertEqual(self.site.read("made/by/token/x"), b"x")
        blind = self.site.s3(self.site.issue("--write-only"))
        blind.put_object(Bucket=self.bucket, Key="blind", Body=b"x")
        self.refused("AccessDenied", blind.get_object, Bucket=self.bucket, Key="blind")
        self.refused("NoSuchBucket", blind.put_object, Bucket="none", Key="blind", Body=b"x")


class Ranges(Objects):
    def test_one_range_is_sent(self):
        self.put("ranged")
        for wanted, expected in {
            "0-0": b"0",
            "4-7": b"4567",
            "4-": b"456789",
            "-4": b"6789",
            "-40": b"0123456789",
            "8-99": b"89",
            "9-9": b"9",
        }.items():
            got = self.get("ranged", Range=f"bytes={wanted}")
            self.assertEqual((got["Body"].read(), got["ResponseMetadata"]["HTTPStatusCode"]), (expected, 206), wanted)
            first = b"0123456789".find(expected)
            self.assertEqual(got["ContentRange"], f"bytes {first}-{first + len(expected) - 1}/10")
            self.assertEqual(got["ContentLength"], len(expected))

    def test_a_range_that_is_not_there_is_refused_in_the_dialect_of_who_asks(self):
        self.put("ranged")
        self.put("empty", b"")
        for key, wanted, size in ("ranged", "10-", 10), ("ranged", "40-50", 10), ("ranged", "-0", 10), ("empty", "0-", 0):
            answer = self.refused("InvalidRange", self.s3.get_object, Bucket=self.bucket, Key=key, Range=f"bytes={wanted}")
            self.assertEqual(answer["ResponseMetadata"]["HTTPStatusCode"], 416)
            self.assertEqual(answer["ResponseMetadata"]["HTTPHeaders"]["content-range"], f"bytes */{size}")
        answer = self.site.ask("GET", f"/{self.bucket}/ranged", {"Range": "bytes=10-"})
        self.assertEqual((answer.status, answer.headers["content-range"]), (416, "bytes */10"))
        self.assertTrue(answer.headers["content-type"].startswith("text/plain"))

    def test_several_ranges_come_as_parts(self):
        self.put("ranged")
        answer = self.site.ask_s3("GET", f"/{self.bucket}/ranged", {"Range": "bytes=0-1,4-4,8-"})
        self.assertStatus(206, answer)
        head = f"Content-Type: {answer.headers['content-type']}\r\n\r\n".encode()
        parts = email.message_from_bytes(head + answer.body).get_payload()
        self.assertEqual([part["content-range"] for part in parts], [f"bytes {part}/10" for part in ("0-1", "4-4", "8-9")])
        self.assertEqual([part.get_payload() for part in parts], ["01", "4", "89"])
        self.assertEqual(int(answer.headers["content-length"]), len(answer.body))

    def test_a_range_that_makes_no_sense_is_none(self):
        self.put("ranged")
        for wanted in "bytes=7-4", "bytes=x-y", "lines=1-2", "bytes=", "bytes", "bytes=--1":
            got = self.get("ranged", Range=wanted)
            self.assertEqual((got["Body"].read(), got["ResponseMetadata"]["HTTPStatusCode"]), (b"0123456789", 200), wanted)

    def test_an_object_is_one_part(self):
        self.put("ranged")
        self.assertEqual(self.get("ranged", PartNumber=1)["Body"].read(), b"0123456789")
        self.refused("InvalidPartNumber", self.s3.get_object, Bucket=self.bucket, Key="ranged", PartNumber=2)

    def test_a_parameter_of_lists_is_none_of_objects(self):
        self.put("ranged")
        for query in "uploads", "versioning", "versions", "location", "list-type=2", "prefix=r", "max-keys=1":
            answer = self.site.ask_s3("GET", f"/{self.bucket}/ranged?{query}")
            self.assertEqual((answer.status, answer.code), (501, "NotImplemented"), query)


class Conditions(Objects):
    def setUp(self):
        self.tag = self.put("there", Metadata={"mtime": str(OLD.timestamp())})["ETag"]
        self.before, self.after = OLD - timedelta(hours=1), OLD + timedelta(hours=1)

    def test_reading_with_conditions(self):
        for call in self.s3.get_object, self.s3.head_object:
            how = {"Bucket": self.bucket, "Key": "there"}
            for holds in [
                {"IfMatch": self.tag},
                {"IfMatch": "*"},
                {"IfNoneMatch": '"other"'},
                {"IfModifiedSince": self.before},
                {"IfUnmodifiedSince": OLD},
                {"IfUnmodifiedSince": self.after},
                {"IfMatch": self.tag, "IfUnmodifiedSince": self.before},
                {"IfNoneMatch": '"other"', "IfModifiedSince": self.after},
            ]:
                self.assertEqual(call(**how, **holds)["ContentLength"], 10, holds)
            for same in {"IfNoneMatch": self.tag}, {"IfNoneMatch": "*"}, {"IfModifiedSince": OLD}, {"IfModifiedSince": self.after}:
                answer = self.refused(304, call, **how, **same)
                self.assertEqual(answer["ResponseMetadata"]["HTTPHeaders"]["etag"], self.tag)
            for fails in {"IfMatch": '"other"'}, {"IfUnmodifiedSince": self.before}, {"IfMatch": f"W/{self.tag}"}:
                answer = self.refused(412, call, **how, **fails)
                if call == self.s3.get_object:
                    self.assertEqual(answer["Error"]["Code"], "PreconditionFailed")

    def test_a_date_that_cannot_be_read_is_no_condition(self):
        for name in "If-Modified-Since", "If-Unmodified-Since":
            for date in "yesterday", "", "Bad Date":
                self.assertStatus(200, self.site.ask_s3("GET", f"/{self.bucket}/there", {name: date}), f"{name}: {date}")

    def test_putting_with_conditions(self):
        for fails in {"IfMatch": '"other"'}, {"IfNoneMatch": "*"}, {"IfNoneMatch": self.tag}:
            self.refused("PreconditionFailed", self.put, key="there", body=b"new", **fails)
        self.assertEqual(self.content(self.bucket, "there"), b"0123456789")
        self.put("there", b"new", IfMatch=self.tag)
        self.refused("PreconditionFailed", self.put, key="there", body=b"late", IfMatch=self.tag)
        self.assertEqual(self.content(self.bucket, "there"), b"new")
        for fails in {"IfMatch": "*"}, {"IfMatch": self.tag}:
            self.refused("PreconditionFailed", self.put, key="nothing", **fails)
        self.refused("PreconditionFailed", self.put, key="no/such/directory", IfMatch="*")
        self.assertFalse((self.site.root / self.bucket / "no").exists())
        self.put("created", IfNoneMatch="*")
        self.refused("PreconditionFailed", self.put, key="created", IfNoneMatch="*")

    def test_a_put_that_is_not_modified_since_replaces(self):
        target = f"/{self.bucket}/there"
        since = {"If-Unmodified-Since": self.before.strftime("%a, %d %b %Y %H:%M:%S GMT")}
        answer = self.site.ask_s3("PUT", target, since, b"new")
        self.assertEqual((answer.status, answer.code), (412, "PreconditionFailed"))
        since = {"If-Unmodified-Since": OLD.strftime("%a, %d %b %Y %H:%M:%S GMT")}
        self.assertStatus(200, self.site.ask_s3("PUT", target, since, b"new"))
        self.assertEqual(self.site.read(f"{self.bucket}/there"), b"new")

    def test_a_range_that_was_of_another_version_is_all_of_this_one(self):
        target = f"/{self.bucket}/there"
        for said, status in (self.tag, 206), ('"other"', 200), (f"W/{self.tag}", 200):
            answer = self.site.ask_s3("GET", target, {"Range": "bytes=2-3", "If-Range": said})
            self.assertEqual((answer.status, answer.body), (status, b"23" if status == 206 else b"0123456789"), said)


class Copying(Objects):
    def copy(self, key, source, **how):
        return self.s3.copy_object(Bucket=self.bucket, Key=key, CopySource=source, **how)

    def test_a_copy_has_the_content_and_the_time_of_its_source(self):
        self.put("sources/s p+%", Metadata={"mtime": str(OLD.timestamp())})
        made = self.copy("copies/new", {"Bucket": self.bucket, "Key": "sources/s p+%"})["CopyObjectResult"]
        head = self.head("copies/new")
        self.assertEqual((made["ETag"], made["LastModified"], head["LastModified"]), (head["ETag"], OLD, OLD))
        self.assertEqual(self.content(self.bucket, "copies/new"), b"0123456789")
        # With a slash before it or without, and encoded as any URL may be.
        for source in f"{self.bucket}/sources/s%20p%2B%25", f"/{self.bucket}/sources/s%20p+%25":
            answer = self.site.ask_s3("PUT", f"/{self.bucket}/copies/{len(source)}", {"x-amz-copy-source": source})
            self.assertStatus(200, answer, source)
        other = self.site.bucket()
        self.s3.copy_object(Bucket=other, Key="x", CopySource={"Bucket": self.bucket, "Key": "copies/new"})
        self.assertEqual(self.content(other, "x"), b"0123456789")

    def test_a_copy_onto_itself_keeps_the_content_and_takes_a_time(self):
        self.put("self", Metadata={"mtime": str(OLD.timestamp())})
        source = {"Bucket": self.bucket, "Key": "self"}
        self.copy("self", source)
        self.assertEqual((self.content(self.bucket, "self"), self.head("self")["LastModified"]), (b"0123456789", OLD))
        later = OLD + timedelta(days=1)
        self.copy("self", source, MetadataDirective="REPLACE", Metadata={"mtime": str(later.timestamp())})
        self.assertEqual((self.content(self.bucket, "self"), self.head("self")["LastModified"]), (b"0123456789", later))

    def test_a_source_that_is_not_there_is_told_and_nothing_is_made(self):
        for source, code in [
            (f"{self.bucket}/none", "NoSuchKey"),
            ("none/key", "NoSuchBucket"),
            (f"{self.bucket}/", "NoSuchKey"),
            (f"{self.bucket}/../x", "InvalidRequest"),
            ("../../etc/passwd", "InvalidRequest"),
            (f"{self.bucket}/none?versionId=1", "NotImplemented"),
        ]:
            with self.subTest(source):
                self.refused(code, self.copy, key="copied/none", source=source)
        self.assertFalse((self.site.root / self.bucket / "copied").exists())

    def test_a_source_is_copied_under_conditions(self):
        tag = self.put("source", Metadata={"mtime": str(OLD.timestamp())})["ETag"]
        source, before, after = f"{self.bucket}/source", OLD - timedelta(hours=1), OLD + timedelta(hours=1)
        for fails in [
            {"CopySourceIfMatch": '"other"'},
            {"CopySourceIfNoneMatch": tag},
            {"CopySourceIfModifiedSince": after},
            {"CopySourceIfUnmodifiedSince": before},
        ]:
            self.refused("PreconditionFailed", self.copy, key="conditional", source=source, **fails)
            self.assertIsNone(self.site.read(f"{self.bucket}/conditional"))
        for holds in [
            {"CopySourceIfMatch": tag},
            {"CopySourceIfNoneMatch": '"other"'},
            {"CopySourceIfModifiedSince": before},
            {"CopySourceIfUnmodifiedSince": after},
            {"CopySourceIfMatch": tag, "CopySourceIfUnmodifiedSince": before},
        ]:
            self.copy("conditional", source, **holds)
            self.s3.delete_object(Bucket=self.bucket, Key="conditional", IfMatch="*")

    def test_a_copy_creates_or_replaces_under_conditions(self):
        self.put("source")
        tag = self.put("target", b"old")["ETag"]
        target, source = f"/{self.bucket}/target", {"x-amz-copy-source": f"/{self.bucket}/source"}
        for fails in {"If-None-Match": "*"}, {"If-Match": '"other"'}:
            answer = self.site.ask_s3("PUT", target, source | fails)
            self.assertEqual((answer.status, answer.code), (412, "PreconditionFailed"))
        self.assertStatus(200, self.site.ask_s3("PUT", target, source | {"If-Match": tag}))
        self.assertEqual(self.content(self.bucket, "target"), b"0123456789")
