"""Objects that are put in parts."""

import hashlib
import os

from boto3.s3.transfer import TransferConfig

from endpoint import Case

DOCUMENT = "<CompleteMultipartUpload>{}</CompleteMultipartUpload>"


class Multipart(Case):
    def setUp(self):
        self.bucket = self.site.bucket()

    def begin(self, key, **how):
        self.key = key
        self.upload = self.s3.create_multipart_upload(Bucket=self.bucket, Key=key, **how)["UploadId"]

    def part(self, number, body, **how):
        how = {"UploadId": self.upload} | how
        return self.s3.upload_part(Bucket=self.bucket, Key=self.key, PartNumber=number, Body=body, **how)["ETag"]

    def complete(self, *parts, **how):
        listed = {"Parts": [{"PartNumber": number, "ETag": tag} for number, tag in parts]}
        return self.s3.complete_multipart_upload(
            Bucket=self.bucket, Key=self.key, UploadId=self.upload, MultipartUpload=listed, **how
        )

    def abort(self):
        return self.s3.abort_multipart_upload(Bucket=self.bucket, Key=self.key, UploadId=self.upload)

    def assertMade(self, content):
        self.assertEqual(self.content(self.bucket, self.key), content)
        self.assertNothingLeft()

    def assertNothingLeft(self):
        self.assertFalse((self.site.root / self.bucket / ".tidegate").exists())

    def test_parts_of_any_sizes_in_any_order_become_one_object(self):
        for name, sizes in {"even": [4000, 4000, 10], "small": [1], "odd": [3, 7000, 1, 0, 2], "empty": [0]}.items():
            with self.subTest(name):
                self.begin(name)
                bodies = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
                tags = {}
                for number in reversed(range(len(sizes))):
                    tags[number + 1] = self.part(number + 1, bodies[number])
                    self.assertEqual(tags[number + 1], f'"{hashlib.md5(bodies[number]).hexdigest()}"')
                made = self.complete(*sorted(tags.items()))
                self.assertEqual((made["Bucket"], made["Key"]), (self.bucket, name))
                self.assertEqual(made["ETag"], self.s3.head_object(Bucket=self.bucket, Key=name)["ETag"])
                self.assertMade(b"".join(bodies))

    def test_numbers_may_have_gaps_and_what_is_not_listed_is_left_out(self):
        self.begin("gaps")
        tags = {number: self.part(number, f"{number};".encode()) for number in (3, 20, 7, 10000)}
        self.complete((3, tags[3]), (7, tags[7]), (10000, tags[10000]))
        self.assertMade(b"3;7;10000;")

    def test_a_part_that_came_again_is_the_last_that_came(self):
        self.begin("again")
        first = self.part(1, b"first")
        second = self.part(1, b"second")
        last = self.part(2, b"x")
        self.refused("InvalidPart", self.complete, *[(1, first), (2, last)])
        self.complete((1, second), (2, last))
        self.assertMade(b"secondx")

    def test_a_list_that_is_not_of_the_parts_is_refused_and_the_upload_goes_on(self):
        self.begin("listed")
        one, two = self.part(1, b"one"), self.part(2, b"two")
        for code, parts in [
            ("InvalidPartOrder", [(2, two), (1, one)]),
            ("InvalidPartOrder", [(1, one), (1, one)]),
            ("InvalidPart", [(1, one), (3, two)]),
            ("InvalidPart", [(1, two)]),
            ("InvalidPart", [(1, '"ffffffffffffffffffffffffffffffff"')]),
            ("MalformedXML", []),
        ]:
            with self.subTest(code, parts=parts):
                self.refused(code, self.complete, *parts)
                self.assertIsNone(self.site.read(f"{self.bucket}/listed"))
        self.complete((1, one), (2, two))
        self.assertMade(b"onetwo")

    def test_a_damaged_list_makes_nothing(self):
        self.begin("damaged")
        tag = self.part(1, b"one").strip('"')
        part = f"<Part><PartNumber>1</PartNumber><ETag>{tag}</ETag></Part>"
        target = f"/{self.bucket}/damaged?uploadId={self.upload}"
        for document in [
            "",
            "no XML",
            DOCUMENT.format(part)[:-1],
            DOCUMENT.format(part[:-1]),
            DOCUMENT.format(part) + part,
            DOCUMENT.format(""),
            DOCUMENT.format(part.replace("PartNumber>1", "PartNumber>one")),
            DOCUMENT.format(part.replace("PartNumber>1", "PartNumber>-1")),
            DOCUMENT.format(part.replace("ETag", "Tag")),
            DOCUMENT.format(f"<!-- {part} -->"),
            f"<!DOCTYPE x [<!ENTITY e '{part}'>]>{DOCUMENT.format('&e;')}",
            f"<Delete>{part}</Delete>",
            b"\xff\xfe" + DOCUMENT.format(part).encode("utf-16-le"),
        ]:
            body = document if isinstance(document, bytes) else document.encode()
            answer = self.site.ask_s3("POST", target, {}, body)
            self.assertEqual((answer.status, answer.code), (400, "MalformedXML"), document)
        self.assertIsNone(self.site.read(f"{self.bucket}/damaged"))
        self.abort()
        self.assertNothingLeft()

    def test_what_is_over_is_known_no_more(self):
        self.begin("over")
        tag = self.part(1, b"one")
        self.complete((1, tag))
        self.refused("NoSuchUpload", self.complete, (1, tag))
        self.refused("NoSuchUpload", self.part, 1, b"late")
        self.refused("NoSuchUpload", self.abort)
        self.assertMade(b"one")
        self.begin("over")
        tag = self.part(1, b"two")
        self.abort()
        self.refused("NoSuchUpload", self.abort)
        self.refused("NoSuchUpload", self.complete, (1, tag))
        self.assertMade(b"one")

    def test_an_upload_is_of_its_key_and_of_its_token(self):
        self.begin("own")
        tag = self.part(1, b"one")
        how = {"Bucket": self.bucket, "UploadId": self.upload, "PartNumber": 1, "Body": b"x"}
        self.refused("NoSuchUpload", self.s3.upload_part, **how | {"Key": "other"})
        self.refused("NoSuchUpload", self.s3.upload_part, **how | {"Key": "own", "UploadId": "none"})
        self.refused("NoSuchUpload", self.s3.upload_part, **how | {"Key": "own", "UploadId": "../own"})
        self.refused("NoSuchUpload", self.site.s3(self.site.issue()).upload_part, **how | {"Key": "own"})
        self.complete((1, tag))
        self.assertMade(b"one")

    def test_a_part_has_a_number(self):
        self.begin("numbers")
        for number in "0", "10001", "-1", "x", "", "1.5", "99999999999999999999":
            target = f"/{self.bucket}/numbers?partNumber={number}&uploadId={self.upload}"
            answer = self.site.ask_s3("PUT", target, {}, b"x")
            self.assertEqual((answer.status, answer.code), (400, "InvalidArgument"), number)
        self.assertStatus(405, self.site.ask_s3("PUT", f"/{self.bucket}/numbers?partNumber=1", {}, b"x"))
        self.abort()
        self.assertIsNone(self.site.read(f"{self.bucket}/numbers"))

    def test_a_part_is_held_to_its_sum(self):
        self.begin("sums")
        good = self.part(1, b"123456789", ChecksumCRC32="y/Q5Jg==")
        self.refused("BadDigest", self.part, 1, b"123456780", ChecksumCRC32="y/Q5Jg==")
        self.refused("BadDigest", self.part, 2, b"x", ContentMD5="JfnnlDI7RTiF9RgfG2JNCw==")
        self.refused("InvalidPart", self.complete, (1, good), (2, good))
        listed = {"Parts": [{"PartNumber": 1, "ETag": good, "ChecksumCRC32": "AAAAAA=="}]}
        how = {"Bucket": self.bucket, "Key": "sums", "UploadId": self.upload}
        self.refused("InvalidPart", self.s3.complete_multipart_upload, MultipartUpload=listed, **how)
        self.refused("InvalidRequest", self.complete, (1, good), MpuObjectSize=8)
        self.complete((1, good), MpuObjectSize=9)
        self.assertMade(b"123456789")

    def test_an_object_of_parts_is_created_or_replaced_under_conditions(self):
        self.begin("conditional")
        tag = self.part(1, b"one")
        self.s3.put_object(Bucket=self.bucket, Key="conditional", Body=b"there")
        for fails in {"IfNoneMatch": "*"}, {"IfMatch": '"other"'}:
            self.refused("PreconditionFailed", self.complete, (1, tag), **fails)
        self.assertEqual(self.content(self.bucket, "conditional"), b"there")
        self.complete((1, tag), IfMatch=self.s3.head_object(Bucket=self.bucket, Key="conditional")["ETag"])
        self.assertMade(b"one")

    def test_uploads_and_their_parts_are_not_listed(self):
        self.begin("unlisted")
        self.part(1, b"one")
        self.refused("NotImplemented", self.s3.list_multipart_uploads, Bucket=self.bucket)
        self.refused("NotImplemented", self.s3.list_parts, Bucket=self.bucket, Key="unlisted", UploadId=self.upload)
        self.assertNotIn("unlisted", self.keys(self.bucket))
        self.abort()

    def test_a_part_is_copied_from_an_object_or_a_range_of_it(self):
        self.s3.put_object(Bucket=self.bucket, Key="a source", Body=b"0123456789")
        source = {"Bucket": self.bucket, "Key": "a source"}
        self.begin("copied")

        def copy(number, **how):
            how = {"CopySource": source} | how
            return self.s3.upload_part_copy(Bucket=self.bucket, Key="copied", UploadId=self.upload, PartNumber=number, **how)

        first = copy(1, CopySourceRange="bytes=2-5")["CopyPartResult"]
        self.assertEqual(first["ETag"], f'"{hashlib.md5(b"2345").hexdigest()}"')
        whole = copy(2)["CopyPartResult"]["ETag"]
        last = copy(3, CopySourceRange="bytes=9-9")["CopyPartResult"]["ETag"]
        for wanted in "bytes=10-10", "bytes=5-10", "bytes=5-4", "bytes=0-", "bytes=-3", "0-1", "bytes=0-1,3-4", "x":
            self.refused("InvalidArgument", copy, 4, CopySourceRange=wanted)
        self.refused("NoSuchKey", copy, 4, CopySource=f"{self.bucket}/none")
        self.refused("PreconditionFailed", copy, 4, CopySourceIfMatch='"x"')
        self.complete((1, first["ETag"]), (2, whole), (3, last))
        self.assertMade(b"234501234567899")

    def test_large_files_go_and_come_in_parts(self):
        config = TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20)
        content, file = os.urandom(12 << 20), self.site.home / "large"
        file.write_bytes(content)
        self.s3.upload_file(str(file), self.bucket, "large", Config=config)
        self.assertEqual(self.site.read(f"{self.bucket}/large"), content)
        self.s3.download_file(self.bucket, "large", str(file) + ".back", Config=config)
        self.assertEqual((self.site.home / "large.back").read_bytes(), content)
        self.s3.copy({"Bucket": self.bucket, "Key": "large"}, self.bucket, "large copy", Config=config)
        self.assertEqual(self.site.read(f"{self.bucket}/large copy"), content)
        self.assertNothingLeft()
