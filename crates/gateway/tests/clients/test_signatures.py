"""Who asks, and what vouches for what is sent: signatures in headers and URLs, checksums, and what is wrong with them."""

import base64
import hashlib
import zlib
from datetime import datetime, timedelta, timezone

import boto3
from botocore import UNSIGNED
from botocore.config import Config

import signing
from endpoint import Case, Token

MD5 = base64.b64encode(hashlib.md5(b"123456789").digest()).decode()
CRC32 = "y/Q5Jg=="


def ago(**how):
    return datetime.now(timezone.utc) - timedelta(**how)


class Signing(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bucket = cls.site.bucket("key")
        cls.target = f"/{cls.bucket}/key"

    def put(self, headers=(), body=b"123456789", **how):
        return self.site.ask_s3("PUT", f"/{self.bucket}/put", headers, body, **how)

    def assertNothingPut(self):
        self.assertIsNone(self.site.read(f"{self.bucket}/put"))


class Headers(Signing):
    def test_a_signature_of_another_key_or_of_none_is_refused(self):
        token = self.site.token
        for other, code in [
            (Token(token.word + "x"), "SignatureDoesNotMatch"),
            (Token(f"{token.id}.{'0' * len(token.secret)}"), "SignatureDoesNotMatch"),
            (Token(f"none.{token.secret}"), "InvalidAccessKeyId"),
        ]:
            answer = self.site.ask_s3("GET", self.target, token=other)
            self.assertEqual((answer.status, answer.code), (403, code), other)

    def test_a_header_that_is_no_signature_is_refused_in_one_line(self):
        good = self.site.sign("GET", self.target)
        authorization = good["Authorization"]
        for said, status in [
            ("", 401),
            ("AWS", 401),
            (f"AWS {self.site.token.id}:b2xkIHN0eWxl", 401),
            ("AWS4-ECDSA-P256-SHA256 Credential=x", 401),
            (f"Bearer {self.site.token.id}", 401),
            ("AWS4-HMAC-SHA256", 400),
            ("AWS4-HMAC-SHA256 ", 400),
            (authorization.replace("aws4_request", "aws3_request"), 400),
            (authorization.replace("/s3/", "/"), 400),
            (authorization.replace("SignedHeaders=", "Headers="), 400),
            (authorization.partition(", Signature")[0], 400),
            (authorization[:-1], 403),
            (authorization[:-2] + "zz", 403),
            (authorization.replace("anywhere", "elsewhere"), 403),
            (authorization.replace("host;", ""), 403),
        ]:
            answer = self.site.send("GET", self.target, good | {"Authorization": said})
            self.assertStatus(status, answer, said)
            told = answer.text if status == 401 else answer.find("Message")
            self.assertEqual(len(told.strip().splitlines()), 1, told)

    def test_nobody_is_let_in_without_a_token(self):
        for method in "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PROPFIND":
            answer = self.site.send(method, self.target)
            self.assertStatus(401, answer, method)
            self.assertTrue(answer.headers["www-authenticate"].startswith("Basic "))
        unsigned = boto3.client(
            "s3", endpoint_url=self.site.url, region_name="anywhere", verify=str(self.site.home / "cert.pem"),
            config=Config(signature_version=UNSIGNED, s3={"addressing_style": "path"}, retries={"max_attempts": 0}),
        )
        self.refused(401, unsigned.get_object, Bucket=self.bucket, Key="key")
        self.refused(401, unsigned.put_object, Bucket=self.bucket, Key="put", Body=b"x")
        self.assertNothingPut()

    def test_clocks_may_be_a_quarter_of_an_hour_apart(self):
        for when in ago(minutes=14), ago(minutes=-14):
            self.assertStatus(200, self.site.ask_s3("GET", self.target, when=when))
        for when in ago(minutes=16), ago(minutes=-16), ago(days=1), ago(days=-1), ago(days=20 * 365), datetime(9999, 1, 1):
            answer = self.site.ask_s3("GET", self.target, when=when)
            self.assertEqual((answer.status, answer.code), (403, "RequestTimeTooSkewed"), when)

    def test_a_time_that_cannot_be_read_or_is_of_another_day_is_refused(self):
        good = self.site.sign("GET", self.target)
        for time in "Bad Date", "", "20130524", "19500101T000000Z", "99999999T999999Z", "20240230T000000Z", "Fri, 24 May 2013 00:00:00 GMT":
            answer = self.site.send("GET", self.target, good | {"X-Amz-Date": time})
            self.assertEqual((answer.status, answer.code), (400, "AuthorizationHeaderMalformed"), time)
        for missing in "X-Amz-Date", "X-Amz-Content-Sha256":
            answer = self.site.send("GET", self.target, {name: value for name, value in good.items() if name != missing})
            self.assertStatus(400, answer, missing)

    def test_what_was_signed_is_what_is_asked_for(self):
        good = self.site.sign("GET", f"{self.target}?x-id=GetObject", {"x-amz-meta-a": "b"})
        self.assertStatus(200, self.site.send("GET", f"{self.target}?x-id=GetObject", good))
        for method, target, headers in [
            ("HEAD", f"{self.target}?x-id=GetObject", good),
            ("DELETE", f"{self.target}?x-id=GetObject", good),
            ("GET", f"{self.target}2?x-id=GetObject", good),
            ("GET", f"{self.target}?x-id=GetObjecT", good),
            ("GET", f"{self.target}?x-id=GetObject&partNumber=1", good),
            ("GET", self.target, good),
            ("GET", f"{self.target}?x-id=GetObject", good | {"Host": "elsewhere"}),
            ("GET", f"{self.target}?x-id=GetObject", good | {"x-amz-meta-a": "c"}),
            ("GET", f"{self.target}?x-id=GetObject", good | {"x-amz-meta-more": "c"}),
            ("GET", f"{self.target}?x-id=GetObject", good | {"X-Amz-Content-Sha256": "0" * 64}),
        ]:
            self.assertStatus(403, self.site.send(method, target, headers), (method, target))
        self.assertIsNotNone(self.site.read(f"{self.bucket}/key"))

    def test_spaces_in_headers_and_the_order_of_a_query_do_not_matter(self):
        target = f"/{self.bucket}?prefix=k&list-type=2&max-keys=3&delimiter=%2f&start-after="
        headers = self.site.sign("GET", target, {"x-amz-meta-a": "  b   c  ", "x-amz-meta-B": ""})
        for asked in target, target.replace("%2f", "/"), f"/{self.bucket}?start-after&list-type=2&delimiter=%2F&max-keys=3&prefix=%6b":
            answer = self.site.send("GET", asked, headers)
            self.assertEqual(answer.all("Key"), ["key"], answer.text)

    def test_a_token_that_was_revoked_signs_no_more(self):
        token = self.site.issue()
        self.assertStatus(200, self.site.ask_s3("GET", self.target, token=token))
        url = self.site.presign("GET", self.target, token=token)
        self.site.revoke(token)
        for answer in self.site.ask_s3("GET", self.target, token=token), self.site.send("GET", url):
            self.assertEqual((answer.status, answer.code), (403, "InvalidAccessKeyId"))

    def test_the_region_is_any(self):
        for region in "auto", "us-east-1", "":
            self.assertStatus(200, self.site.ask_s3("GET", self.target, region=region), region)


class Urls(Signing):
    def fetch(self, method, target, headers=(), body=b""):
        return self.site.send(method, target, headers, body)

    def test_a_signed_url_reads_and_writes_what_it_says(self):
        url = self.s3.generate_presigned_url("get_object", Params={"Bucket": self.bucket, "Key": "key"}, ExpiresIn=60)
        answer = self.fetch("GET", url.removeprefix(self.site.url))
        self.assertEqual((answer.status, answer.body), (200, b"key"))
        url = self.s3.generate_presigned_url("put_object", Params={"Bucket": self.bucket, "Key": "by url"}, ExpiresIn=60)
        target = url.removeprefix(self.site.url)
        self.assertStatus(400, self.fetch("PUT", target, {}, b"123456789"), "nothing vouches for it")
        self.assertStatus(400, self.fetch("PUT", target, {"Content-MD5": MD5}, b"1234567890"))
        self.assertIsNone(self.site.read(f"{self.bucket}/by url"))
        self.assertStatus(200, self.fetch("PUT", target, {"Content-MD5": MD5}, b"123456789"))
        self.assertEqual(self.site.read(f"{self.bucket}/by url"), b"123456789")
        url = self.s3.generate_presigned_url("delete_object", Params={"Bucket": self.bucket, "Key": "by url"}, ExpiresIn=60)
        self.assertStatus(204, self.fetch("DELETE", url.removeprefix(self.site.url)))
        self.assertIsNone(self.site.read(f"{self.bucket}/by url"))

    def test_a_signed_url_holds_as_long_as_it_says(self):
        for how, status in [
            ({"when": ago(seconds=50), "expires": "60"}, 200),
            ({"when": ago(seconds=62), "expires": "60"}, 403),
            ({"when": ago(days=6), "expires": "604800"}, 200),
            ({"when": ago(days=8), "expires": "604800"}, 403),
            ({"expires": "604801"}, 400),
            ({"expires": "99999999999999999999"}, 400),
            ({"expires": "-1"}, 400),
            ({"expires": "soon"}, 400),
            ({"expires": ""}, 400),
            ({"when": ago(minutes=-16)}, 403),
            ({"when": ago(seconds=2), "expires": "0"}, 403),
        ]:
            answer = self.fetch("GET", self.site.presign("GET", self.target, **how))
            self.assertStatus(status, answer, how)
            if status != 200:
                self.assertIsNotNone(answer.code)

    def test_nothing_of_a_signed_url_can_be_changed(self):
        url = self.site.presign("GET", f"{self.target}?x-id=GetObject", {"x-amz-meta-a": "b"})
        held = {"x-amz-meta-a": "b"}
        self.assertStatus(200, self.fetch("GET", url, held))
        now = signing.stamp(ago(seconds=-30))
        for method, target, headers in [
            ("HEAD", url, held),
            ("PUT", url, held),
            ("DELETE", url, held),
            ("GET", url.replace(self.target, f"/{self.bucket}/other"), held),
            ("GET", signing.changed(url, "x-id", "HeadObject"), held),
            ("GET", signing.changed(url, "X-Amz-Expires", "3600"), held),
            ("GET", signing.changed(url, "X-Amz-Date", now), held),
            ("GET", signing.changed(url, "X-Amz-SignedHeaders", "host"), {}),
            ("GET", signing.changed(url, "X-Amz-Signature", "0" * 64), held),
            ("GET", f"{url}&partNumber=1", held),
            ("GET", f"{url}&X-Amz-Security-Token=x", held),
            ("GET", url, {}),
            ("GET", url, {"x-amz-meta-a": "c"}),
            ("GET", url, held | {"x-amz-copy-source": "/x/y"}),
            ("GET", url, held | {"Host": "elsewhere"}),
        ]:
            self.assertStatus(403, self.fetch(method, target, headers), (method, target, headers))
        # Headers that S3 gives no meaning to change nothing, and may come.
        self.assertEqual(self.fetch("GET", url, held | {"Range": "bytes=1-1", "X-Other": "x"}).body, b"e")

    def test_a_signed_url_of_another_kind_is_refused(self):
        url = self.site.presign("GET", self.target)
        for target, status in [
            (self.site.presign("GET", self.target, algorithm="AWS4-HMAC-SHA1"), 400),
            (signing.changed(url, "X-Amz-Algorithm", "x"), 400),
            (url.replace("X-Amz-Algorithm", "X-Amz-Method"), 400),
            (url.replace("X-Amz-Credential", "X-Amz-Who"), 400),
            (url.replace("X-Amz-Date", "X-Amz-When"), 400),
            (url.replace("X-Amz-Expires", "X-Amz-Ends"), 400),
            (signing.changed(url, "X-Amz-Credential", "a/b/c"), 400),
            (url.replace("X-Amz-Signature", "X-Amz-Sign"), 401),
            (f"{self.target}?AWSAccessKeyId={self.site.token.id}&Expires=99999999999&Signature=x", 401),
        ]:
            self.assertStatus(status, self.fetch("GET", target), target)

    def test_a_link_and_a_signature_are_not_mixed(self):
        url = self.site.presign("GET", self.target)
        self.assertStatus(200, self.fetch("GET", f"{self.target}?token={self.site.token.word}"))
        link = f"{self.target}?token={self.site.token.word}"
        self.assertStatus(403, self.fetch("PUT", link, {"Content-MD5": MD5}, b"123456789"))
        self.assertStatus(403, self.fetch("GET", f"{url}&token={self.site.token.word}"))


class Checksums(Signing):
    def test_an_md5_is_held_to_its_word(self):
        for told, code in [
            ("", "InvalidDigest"),
            ("YWJyYWNhZGFicmE=", "InvalidDigest"),
            ("not base64!", "InvalidDigest"),
            (MD5[:-2], "InvalidDigest"),
            (base64.b64encode(b"0" * 16).decode(), "BadDigest"),
        ]:
            answer = self.put({"Content-MD5": told})
            self.assertEqual((answer.status, answer.code), (400, code), told)
            self.assertNothingPut()
        self.assertStatus(200, self.put({"Content-MD5": MD5}))
        self.s3.delete_object(Bucket=self.bucket, Key="put")

    def test_each_kind_of_sum_is_held_to_its_word(self):
        for kind in "CRC32", "SHA1", "SHA256":
            self.s3.put_object(Bucket=self.bucket, Key=f"kind {kind}", Body=b"123456789", ChecksumAlgorithm=kind)
            self.assertEqual(self.site.read(f"{self.bucket}/kind {kind}"), b"123456789")
        sums = {
            "crc32": CRC32,
            "crc32c": "4waSgw==",
            "crc64nvme": "rosUhgp5mIg=",
            "sha1": base64.b64encode(hashlib.sha1(b"123456789").digest()).decode(),
            "sha256": base64.b64encode(hashlib.sha256(b"123456789").digest()).decode(),
        }
        for kind, told in sums.items():
            header = f"x-amz-checksum-{kind}"
            self.assertStatus(200, self.put({header: told}, payload="UNSIGNED-PAYLOAD"), kind)
            answer = self.put({header: told}, b"123456780", payload="UNSIGNED-PAYLOAD")
            self.assertEqual((answer.status, answer.code), (400, "BadDigest"), kind)
            answer = self.put({header: told[4:]}, payload="UNSIGNED-PAYLOAD")
            self.assertEqual((answer.status, answer.code), (400, "InvalidDigest"), kind)
            self.assertEqual(self.site.read(f"{self.bucket}/put"), b"123456789")
        self.s3.delete_object(Bucket=self.bucket, Key="put")

    def test_a_body_is_what_its_signature_says(self):
        headers = self.site.sign("PUT", f"/{self.bucket}/put", {}, b"123456789")
        answer = self.site.send("PUT", f"/{self.bucket}/put", headers, b"123456780")
        self.assertEqual((answer.status, answer.code), (400, "BadDigest"))
        self.assertStatus(400, self.put(payload="UNSIGNED-PAYLOAD"), "nothing vouches for it")
        for payload in "x", "0" * 63, "STREAMING-OTHER", "STREAMING-":
            self.assertIn(self.put(payload=payload).status, (400, 501), payload)
        self.assertNothingPut()

    def chunks(self, chunks, change=lambda body: body, trailer="", headers=()):
        payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" + ("-TRAILER" if trailer else "")
        said = {"Content-Encoding": "aws-chunked", "X-Amz-Decoded-Content-Length": str(sum(map(len, chunks)))} | dict(headers)
        if trailer:
            said["X-Amz-Trailer"] = trailer.partition(":")[0]
        target, token = f"/{self.bucket}/put", self.site.token
        signed = self.site.sign("PUT", target, said, payload=payload)
        body = signing.chunked(signed, chunks, (token.id, token.secret), trailer)
        return self.site.send("PUT", target, signed, change(body))

    def test_signed_chunks_are_taken_as_they_were_signed_alone(self):
        chunks = [b"a" * 9000, b"b" * 10, b"c"]
        crc = base64.b64encode(zlib.crc32(b"".join(chunks)).to_bytes(4, "big")).decode()
        for change in [
            lambda body: body.replace(b"aaa", b"aab", 1),
            lambda body: body.replace(b"signature=", b"signature=0", 1),
            lambda body: body.replace(b"\r\nc\r\n", b"\r\nd\r\n"),
            lambda body: body[:-40],
            lambda body: body[: body.rindex(b"0;")] + b"0\r\n\r\n",
            lambda body: body[: body.index(b"a;")] + body[body.index(b"1;") :],
            lambda body: body.replace(b";chunk-signature", b";signature"),
            lambda body: b"x" + body,
            lambda body: body + b"x",
        ]:
            self.assertIn(self.chunks(chunks, change).status, (400, 403))
            self.assertNothingPut()
        trailer = f"x-amz-checksum-crc32:{crc}"
        for change in lambda body: body.replace(crc.encode(), b"AAAAAA=="), lambda body: body[: body.index(b"x-amz-trailer-s")] + b"\r\n":
            self.assertStatus(403, self.chunks(chunks, change, trailer))
        answer = self.chunks(chunks, trailer="x-amz-checksum-crc32:AAAAAA==")
        self.assertEqual((answer.status, answer.code), (400, "BadDigest"))
        self.assertStatus(400, self.chunks(chunks, headers={"X-Amz-Decoded-Content-Length": "9012"}))
        self.assertNothingPut()
        for more in "", trailer:
            self.assertStatus(200, self.chunks(chunks, trailer=more))
            self.assertEqual(self.site.read(f"{self.bucket}/put"), b"".join(chunks))
            self.s3.delete_object(Bucket=self.bucket, Key="put")

    def test_unsigned_chunks_need_the_sum_behind_them(self):
        def put(body, trailer="x-amz-checksum-crc32"):
            headers = {"Content-Encoding": "aws-chunked", "X-Amz-Decoded-Content-Length": "9"}
            headers |= {"X-Amz-Trailer": trailer} if trailer else {}
            headers = self.site.sign("PUT", f"/{self.bucket}/put", headers, payload="STREAMING-UNSIGNED-PAYLOAD-TRAILER")
            return self.site.send("PUT", f"/{self.bucket}/put", headers, body)

        begin, end = b"9\r\n123456789\r\n0\r\n", f"x-amz-checksum-crc32:{CRC32}\r\n\r\n".encode()
        for body in begin + b"\r\n", begin + end.replace(b"crc32:", b"crc32c:"), begin + end.replace(b"J", b"K"), begin, b"":
            self.assertStatus(400, put(body), body)
        self.assertStatus(400, put(begin + b"\r\n", None))
        self.assertNothingPut()
        self.assertStatus(200, put(begin + end))
        self.s3.delete_object(Bucket=self.bucket, Key="put")

    def test_a_request_that_is_no_request_costs_an_answer_at_most(self):
        for data in b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01" * 50 + b"\r\n\r\n":
            answer = self.site.raw(data)
            self.assertTrue(answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer)
        answer = self.site.raw(f"GET {self.target} HTTP/1.1\r\nConnection: close\r\nAuthorization: Bearer {self.site.token.word}\r\n\r\n".encode())
        self.assertTrue(answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 400")), answer)
