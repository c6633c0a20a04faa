"""Objects and buckets that are made and removed, and what is asked of them that is not kept."""

from endpoint import Case


class Deleting(Case):
    def delete(self, bucket, *keys, **how):
        listed = {"Objects": [{"Key": key} for key in keys]} | how
        return self.s3.delete_objects(Bucket=bucket, Delete=listed)

    def post(self, bucket, document, headers=()):
        body = document if isinstance(document, bytes) else document.encode()
        return self.site.ask_s3("POST", f"/{bucket}?delete", headers, body)

    def test_what_is_not_there_is_gone_as_well(self):
        bucket = self.site.bucket("a")
        for key in "a", "a", "none", "no/such/directory", "a/b":
            answer = self.s3.delete_object(Bucket=bucket, Key=key)
            self.assertEqual(answer["ResponseMetadata"]["HTTPStatusCode"], 204)
        self.assertEqual(self.keys(bucket), [])

    def test_the_name_of_a_directory_is_no_object(self):
        bucket = self.site.bucket("d/a", "d/b")
        for key in "d", "d/":
            self.s3.delete_object(Bucket=bucket, Key=key)
            self.delete(bucket, key)
        self.assertEqual(self.keys(bucket), ["d/a", "d/b"])
        self.delete(bucket, "d/a", "d/b", "d/")
        self.assertFalse((self.site.root / bucket / "d").exists())

    def test_objects_are_deleted_under_conditions(self):
        bucket = self.site.bucket("a")
        tag = self.s3.head_object(Bucket=bucket, Key="a")["ETag"]
        self.refused("PreconditionFailed", self.s3.delete_object, Bucket=bucket, Key="a", IfMatch='"other"')
        self.assertEqual(self.keys(bucket), ["a"])
        for key in "none", "no/such/directory":
            self.refused("PreconditionFailed", self.s3.delete_object, Bucket=bucket, Key=key, IfMatch="*")
        self.s3.delete_object(Bucket=bucket, Key="a", IfMatch=tag)
        self.assertEqual(self.keys(bucket), [])

    def test_many_are_deleted_at_once_and_each_is_told_of(self):
        keys = ["a", "b c", "d/e", "+%", "é", "&<>\"'"]
        bucket = self.site.bucket(*keys, "left")
        told = self.delete(bucket, *keys, "none", "../left", "x" * 300)
        self.assertEqual([found["Key"] for found in told["Deleted"]], [*keys, "none"])
        wrong = [("../left", "InvalidRequest"), ("x" * 300, "InvalidRequest")]
        self.assertEqual([(found["Key"], found["Code"]) for found in told["Errors"]], wrong)
        self.assertEqual(self.keys(bucket), ["left"])

    def test_quietly_only_what_failed_is_told(self):
        bucket = self.site.bucket("a", "b")
        told = self.delete(bucket, "a", "none", ".tidegate/x", Quiet=True)
        self.assertNotIn("Deleted", told)
        self.assertEqual([found["Key"] for found in told["Errors"]], [".tidegate/x"])
        self.assertEqual(self.keys(bucket), ["b"])

    def test_a_thousand_are_deleted_and_not_one_more(self):
        bucket = self.site.bucket("n1000", "n999")
        keys = [f"n{number}" for number in range(1001)]
        self.refused("MalformedXML", self.delete, bucket, *keys)
        self.assertEqual(self.keys(bucket), ["n1000", "n999"])
        self.assertEqual(len(self.delete(bucket, *keys[1:])["Deleted"]), 1000)
        self.assertEqual(self.keys(bucket), [])

    def test_a_damaged_list_deletes_nothing(self):
        bucket = self.site.bucket("a", "b")
        one = "<Object><Key>a</Key></Object>"
        for document in [
            "",
            "a",
            "<Delete></Delete>",
            f"<Delete>{one}",
            f"<Delete>{one}</Delete",
            f"<Delete>{one}</delete>",
            f"<Delete>{one}<Object></Object></Delete>",
            f"<Delete>{one}<Object><Name>b</Name></Object></Delete>",
            f"<Delete>{one}<Quiet>perhaps</Quiet></Delete>",
            f"<Delete>{one}</Delete>{one}",
            f"<!DOCTYPE d SYSTEM 'file:///etc/passwd'><Delete>{one}</Delete>",
            f"<Delete>{one}<Object><Key>&b;</Key></Object></Delete>",
            f"<Delete>{one}<Object><Key>b</Key><Key>c</Key></Object></Delete>",
            f"<Delete>{one}".encode() + b"<Object><Key>\xff</Key></Object></Delete>",
            "<Delete>" + "<a>" * 5000,
        ]:
            answer = self.post(bucket, document)
            self.assertEqual((answer.status, answer.code), (400, "MalformedXML"), document[:60])
        answer = self.post(bucket, f"<Delete>{one}<Object><Key>b</Key><VersionId>1</VersionId></Object></Delete>")
        self.assertEqual((answer.status, answer.code), (501, "NotImplemented"))
        answer = self.post(bucket, f"<Delete>{one}</Delete>", {"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="})
        self.assertEqual((answer.status, answer.code), (400, "BadDigest"))
        self.assertEqual(self.keys(bucket), ["a", "b"])

    def test_who_may_not_delete_does_not(self):
        bucket = self.site.bucket("a")
        for options in [], ["--read-only"]:
            other = self.site.s3(self.site.issue(*options))
            self.refused("AccessDenied", other.delete_object, Bucket=bucket, Key="a")
            self.refused("AccessDenied", other.delete_bucket, Bucket=bucket)
            if options:
                self.refused("AccessDenied", other.put_object, Bucket=bucket, Key="b", Body=b"")
                self.refused("AccessDenied", other.create_bucket, Bucket="not-made")
            told = other.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a"}]})
            self.assertEqual([found["Code"] for found in told["Errors"]], ["AccessDenied"])
        self.assertEqual(self.keys(bucket), ["a"])


class Buckets(Case):
    def test_a_bucket_is_a_directory_that_is_made_and_removed(self):
        self.refused("NoSuchBucket", self.s3.delete_bucket, Bucket="made-and-removed")
        self.refused(404, self.s3.head_bucket, Bucket="made-and-removed")
        for _ in "first", "again":
            self.s3.create_bucket(Bucket="made-and-removed", CreateBucketConfiguration={"LocationConstraint": "anywhere"})
        self.assertTrue((self.site.root / "made-and-removed").is_dir())
        self.s3.head_bucket(Bucket="made-and-removed")
        self.assertIn("made-and-removed", [found["Name"] for found in self.s3.list_buckets()["Buckets"]])
        self.assertIsNone(self.s3.get_bucket_location(Bucket="made-and-removed")["LocationConstraint"])
        self.s3.put_object(Bucket="made-and-removed", Key="a", Body=b"x")
        self.refused("BucketNotEmpty", self.s3.delete_bucket, Bucket="made-and-removed")
        self.s3.delete_object(Bucket="made-and-removed", Key="a")
        self.s3.delete_bucket(Bucket="made-and-removed")
        self.refused("NoSuchBucket", self.s3.list_objects_v2, Bucket="made-and-removed")
        self.refused("NoSuchBucket", self.s3.get_bucket_location, Bucket="made-and-removed")

    def test_a_file_is_no_bucket(self):
        self.site.write("a file", "content")
        answer = self.site.ask_s3("PUT", "/a%20file")
        self.assertEqual((answer.status, answer.code), (409, "BucketAlreadyExists"))
        for method in "HEAD", "GET", "DELETE":
            answer = self.site.ask_s3(method, "/a%20file")
            self.assertStatus(404, answer, method)
            self.assertTrue(method == "HEAD" or answer.code == "NoSuchBucket", answer.text)
        answer = self.site.ask_s3("PUT", "/a%20file/key", {}, b"x")
        self.assertEqual((answer.status, answer.code), (404, "NoSuchBucket"))
        self.assertEqual(self.site.read("a file"), b"content")
        self.assertNotIn("a file", [found["Name"] for found in self.s3.list_buckets()["Buckets"]])

    def test_a_bucket_may_have_any_name_that_a_directory_may(self):
        for name in "a", "UPPER_case", "192.168.5.4", "with%20space", "x" * 255, "-.-", "...", "%C3%A9":
            self.assertStatus(200, self.site.ask_s3("PUT", f"/{name}"), name)
            self.assertStatus(200, self.site.ask_s3("PUT", f"/{name}/key", {}, b"x"), name)
            self.assertEqual(self.site.ask_s3("GET", f"/{name}").all("Key"), ["key"])
            self.assertStatus(204, self.site.ask_s3("DELETE", f"/{name}/key"), name)
            self.assertStatus(204, self.site.ask_s3("DELETE", f"/{name}"), name)
        before = sorted(path.name for path in self.site.root.iterdir())
        for name in ".", "..", "%2e%2e", ".tidegate", ".Tidegate", "a%00b", "x" * 256:
            for method in "PUT", "DELETE", "GET":
                answer = self.site.ask_s3(method, f"/{name}")
                self.assertIn(answer.status, (400, 404), f"{method} {name}: {answer.text}")
        self.assertEqual(sorted(path.name for path in self.site.root.iterdir()), before)

    def test_a_damaged_configuration_makes_nothing(self):
        for document in "x", "<CreateBucketConfiguration>", "<Delete/>", "<CreateBucketConfiguration/><x/>":
            answer = self.site.ask_s3("PUT", "/damaged", {}, document.encode())
            self.assertEqual((answer.status, answer.code), (400, "MalformedXML"), document)
        self.assertFalse((self.site.root / "damaged").exists())

    def test_what_is_not_kept_of_a_bucket_is_answered_so_and_changes_nothing(self):
        bucket = self.site.bucket("a")
        for resource in [
            "accelerate", "acl", "analytics", "cors", "encryption", "inventory", "lifecycle", "logging", "metrics", "notification",
            "object-lock", "ownershipControls", "policy", "policyStatus", "publicAccessBlock", "replication", "requestPayment",
            "tagging", "website",
        ]:
            for method in "GET", "PUT", "DELETE":
                answer = self.site.ask_s3(method, f"/{bucket}?{resource}", {}, b"<x/>" if method == "PUT" else b"")
                self.assertEqual((answer.status, answer.code), (501, "NotImplemented"), f"{method} {resource}")
        self.refused("NotImplemented", self.s3.list_object_versions, Bucket=bucket)
        versioning = {"Status": "Enabled"}
        self.refused("NotImplemented", self.s3.put_bucket_versioning, Bucket=bucket, VersioningConfiguration=versioning)
        self.assertNotIn("Status", self.s3.get_bucket_versioning(Bucket=bucket))
        self.assertEqual(self.keys(bucket), ["a"])

    def test_what_is_not_kept_of_an_object_is_answered_so_and_changes_nothing(self):
        bucket = self.site.bucket("a")
        for resource in "acl", "attributes", "legal-hold", "retention", "tagging", "torrent", "restore", "select", "versionId=1":
            for method in "GET", "PUT", "DELETE", "POST":
                answer = self.site.ask_s3(method, f"/{bucket}/a?{resource}", {}, b"<x/>" if method in ("PUT", "POST") else b"")
                self.assertEqual((answer.status, answer.code), (501, "NotImplemented"), f"{method} {resource}")
        self.assertEqual(self.content(bucket, "a"), b"a")

    def test_a_bucket_that_a_link_leads_to_is_one(self):
        bucket = self.site.bucket("a")
        (self.site.root / "linked").symlink_to(bucket)
        self.assertEqual(self.keys("linked"), ["a"])
        self.s3.put_object(Bucket="linked", Key="b", Body=b"x")
        self.s3.create_bucket(Bucket="linked")
        self.s3.delete_bucket(Bucket="linked")
        self.assertEqual(self.keys(bucket), ["a", "b"])
        self.refused("NoSuchBucket", self.s3.list_objects_v2, Bucket="linked")
