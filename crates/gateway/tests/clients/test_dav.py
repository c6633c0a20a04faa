"""WebDAV: what is told of files and directories, and what is made, moved and removed by it (RFC 4918)."""

from endpoint import Case

MD5 = {"Content-MD5": "JfnnlDI7RTiF9RgfG2JNCw=="}
NINE = b"123456789"


class Dav(Case):
    def setUp(self):
        self.bucket = self.site.bucket("file", "dir/x", "dir/sub/y")
        self.root = self.site.root / self.bucket

    def ask(self, method, path, headers=(), body=b"", **how):
        return self.site.ask(method, f"/{self.bucket}/{path}", headers, body, **how)

    def to(self, path):
        return {"Destination": f"{self.site.url}/{self.bucket}/{path}"}

    def names(self):
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*"))

    def assertUnchanged(self):
        self.assertEqual(self.names(), ["dir", "dir/sub", "dir/sub/y", "dir/x", "file"])
        self.assertEqual((self.root / "file").read_bytes(), b"file")


class Properties(Dav):
    def hrefs(self, path, depth, body=b""):
        answer = self.ask("PROPFIND", path, {"Depth": depth}, body)
        self.assertStatus(207, answer, (path, depth))
        self.assertTrue(answer.headers["content-type"].startswith("application/xml"))
        return {href.removeprefix(f"/{self.bucket}/") for href in answer.all("href")}

    def test_depths(self):
        self.assertEqual(self.hrefs("", "0"), {""})
        self.assertEqual(self.hrefs("", "1"), {"", "file", "dir/"})
        for directory in "dir/", "dir":
            self.assertEqual(self.hrefs(directory, "1"), {"dir/", "dir/x", "dir/sub/"})
        for depth in "0", "1", "infinity":
            self.assertEqual(self.hrefs("file", depth), {"file"})
        for headers in {"Depth": "infinity"}, {}:
            answer = self.ask("PROPFIND", "dir/", headers)
            self.assertStatus(403, answer, headers)
            self.assertIn("propfind-finite-depth", answer.text)
        for depth in "2", "-1", "", "0,1", "Infinitely":
            self.assertStatus(400, self.ask("PROPFIND", "dir/", {"Depth": depth}), depth)

    def test_what_is_told_is_what_a_head_tells(self):
        head = self.ask("HEAD", "file")
        answer = self.ask("PROPFIND", "file", {"Depth": "0"})
        told = [answer.find(name) for name in ("getetag", "getlastmodified", "getcontentlength", "displayname", "getcontenttype")]
        expected = [head.headers[name] for name in ("etag", "last-modified", "content-length")]
        self.assertEqual(told, [*expected, "file", head.headers["content-type"]])
        self.assertEqual(answer.all("collection"), [])
        self.assertEqual(len(self.ask("PROPFIND", "dir/", {"Depth": "0"}).all("collection")), 1)

    def test_a_document_may_ask_for_anything_and_is_told_the_same(self):
        for body in [
            b"",
            b"<propfind xmlns='DAV:'><allprop/></propfind>",
            b"<?xml version='1.0'?><D:propfind xmlns:D='DAV:'><D:propname/></D:propfind>",
            b"<propfind xmlns='DAV:'><prop><getetag/><x xmlns='urn:x'/></prop></propfind>",
        ]:
            self.assertEqual(self.hrefs("", "1", body), {"", "file", "dir/"}, body)
        for body in [
            b"<propfind xmlns='DAV:'>",
            b"<propfind",
            b"<propertyupdate xmlns='DAV:'/>",
            b"text",
            b"<!DOCTYPE p [<!ENTITY a 'aaaa'>]><propfind>&a;</propfind>",
            b"<propfind/><propfind/>",
        ]:
            self.assertStatus(400, self.ask("PROPFIND", "", {"Depth": "1"}, body), body)

    def test_what_is_not_there_or_not_opened_is_told(self):
        self.assertStatus(404, self.ask("PROPFIND", "none", {"Depth": "0"}))
        narrow = self.site.issue("--path", f"{self.bucket}/dir", "--read-only")
        self.assertStatus(207, self.ask("PROPFIND", "dir/", {"Depth": "1"}, token=narrow))
        for path in "", "file":
            self.assertStatus(403, self.ask("PROPFIND", path, {"Depth": "1"}, token=narrow), path)
        self.assertStatus(401, self.site.send("PROPFIND", f"/{self.bucket}/", {"Depth": "1"}))

    def test_what_can_be_done_is_told(self):
        for path in "", "file", "dir/", "none":
            answer = self.ask("OPTIONS", path)
            self.assertStatus(204, answer, path)
            self.assertEqual(answer.headers["dav"], "1")
            self.assertEqual(set(answer.headers["allow"].split(", ")), {"OPTIONS", "GET", "HEAD", "PROPFIND", "PUT", "DELETE", "MKCOL", "MOVE"})
        self.assertStatus(204, self.site.ask("OPTIONS", "*"))

    def test_locks_properties_and_copies_are_refused_and_nothing_is_done(self):
        info = b"<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>"
        for method, headers, body in [
            ("LOCK", {"Timeout": "Second-60"}, info),
            ("UNLOCK", {"Lock-Token": "<urn:uuid:x>"}, b""),
            ("PROPPATCH", {}, b"<propertyupdate xmlns='DAV:'/>"),
            ("COPY", self.to("copy"), b""),
            ("REPORT", {}, b"<x/>"),
            ("PATCH", {}, b"x"),
            ("POST", {}, b"x"),
            ("TRACE", {}, b""),
        ]:
            for path in "file", "none":
                answer = self.ask(method, path, headers, body)
                self.assertStatus(405, answer, method)
                self.assertIn("MOVE", answer.headers["allow"])
        for method in "PUT", "DELETE", "MOVE":
            headers = {"If": "(<urn:uuid:x>)"} | self.to("moved") | MD5
            self.assertStatus(412, self.ask(method, "file", headers, NINE if method == "PUT" else b""), method)
        self.assertUnchanged()


class Making(Dav):
    def test_a_directory_is_made_where_there_is_one_to_make_it_in(self):
        for path in "made", "with-slash/", "dir/new/":
            self.assertStatus(201, self.ask("MKCOL", path), path)
            self.assertStatus(405, self.ask("MKCOL", path), f"{path} again")
        for path, status in ("file", 405), ("none/x", 409), ("file/x", 409), ("..", 400), ("a//b", 400), (".tidegate/x", 400):
            self.assertStatus(status, self.ask("MKCOL", path), path)
        self.assertStatus(415, self.ask("MKCOL", "body", {"Content-Type": "application/xml"}, b"<mkcol xmlns='DAV:'/>"))
        self.assertEqual(self.names(), sorted(["dir", "dir/new", "dir/sub", "dir/sub/y", "dir/x", "file", "made", "with-slash"]))
        self.assertStatus(403, self.ask("MKCOL", "forbidden", token=self.site.issue("--read-only")))

    def test_a_file_is_put_where_there_is_a_directory_for_it(self):
        answer = self.ask("PUT", "dir/new", MD5, NINE)
        self.assertStatus(201, answer)
        head = self.ask("HEAD", "dir/new")
        self.assertEqual((answer.headers["etag"], head.headers["content-length"]), (head.headers["etag"], "9"))
        self.assertStatus(204, self.ask("PUT", "file", MD5, NINE))
        self.assertEqual((self.root / "file").read_bytes(), NINE)
        for path, status in ("dir", 409), ("dir/", 409), ("none/x", 409), ("file/x", 409), ("new/", 409), ("a//b", 400), ("..", 400):
            self.assertStatus(status, self.ask("PUT", path, MD5, NINE), path)
        for headers in {}, MD5 | {"Content-Range": "bytes 0-8/20"}, {"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="}:
            self.assertStatus(400, self.ask("PUT", "other", headers, NINE), headers)
        self.assertEqual(self.names(), ["dir", "dir/new", "dir/sub", "dir/sub/y", "dir/x", "file"])

    def test_a_file_is_put_and_removed_under_conditions(self):
        tag = self.ask("HEAD", "file").headers["etag"]
        old = {"If-Unmodified-Since": "Sat, 03 Feb 2001 04:05:06 GMT"}
        for method in "PUT", "DELETE", "MOVE":
            for condition in {"If-Match": '"other"'}, {"If-None-Match": "*"}, {"If-None-Match": tag}, {"If-Match": f"W/{tag}"}, old:
                headers = condition | self.to("moved") | (MD5 if method == "PUT" else {})
                self.assertStatus(412, self.ask(method, "file", headers, NINE if method == "PUT" else b""), (method, condition))
        self.assertUnchanged()
        self.assertStatus(204, self.ask("PUT", "file", MD5 | {"If-Match": tag}, NINE))
        self.assertStatus(412, self.ask("DELETE", "file", {"If-Match": tag}))
        self.assertStatus(201, self.ask("PUT", "created", MD5 | {"If-None-Match": "*"}, NINE))
        self.assertStatus(412, self.ask("PUT", "created", MD5 | {"If-None-Match": "*"}, NINE))
        for path in "none", "no/such":
            self.assertStatus(412, self.ask("PUT", path, MD5 | {"If-Match": "*"}, NINE), path)
        self.assertStatus(204, self.ask("DELETE", "file", {"If-Match": "*"}))
        self.assertEqual(self.names(), ["created", "dir", "dir/sub", "dir/sub/y", "dir/x"])

    def test_what_is_removed_is_a_file_or_an_empty_directory(self):
        for path, status in ("dir", 409), ("dir/", 409), ("none", 404), ("none/x", 404), ("file/", 404), ("file/x", 404), ("..", 400):
            self.assertStatus(status, self.ask("DELETE", path), path)
        self.assertUnchanged()
        for path in "dir/sub/y", "dir/sub/", "dir/x", "dir", "file":
            self.assertStatus(204, self.ask("DELETE", path), path)
            self.assertStatus(404, self.ask("DELETE", path), path)
        self.assertEqual(self.names(), [])
        self.assertStatus(403, self.site.ask("DELETE", "/"))


class Moving(Dav):
    def move(self, source, to, **headers):
        target = to if isinstance(to, dict) else self.to(to)
        return self.ask("MOVE", source, target | headers)

    def test_a_file_and_a_directory_are_moved(self):
        self.assertStatus(201, self.move("file", "dir/moved"))
        self.assertStatus(201, self.move("dir/", "else/"))
        self.assertEqual(self.names(), ["else", "else/moved", "else/sub", "else/sub/y", "else/x"])
        # A destination may be an absolute path, and have names in any spelling.
        self.assertStatus(201, self.move("else/moved", {"Destination": f"/{self.bucket}/%66ile%20%2B"}))
        self.assertEqual((self.root / "file +").read_bytes(), b"file")

    def test_what_is_there_is_replaced_where_that_is_allowed(self):
        for said in "F", "f", " F ":
            self.assertStatus(412, self.move("file", "dir/x", Overwrite=said), said)
        self.assertUnchanged()
        for said in "", "false", "no", "TF", "0":
            self.assertStatus(400, self.move("file", "dir/x", Overwrite=said), said)
        self.assertUnchanged()
        self.assertStatus(204, self.move("file", "dir/x", Overwrite="T"))
        self.assertStatus(204, self.move("dir/x", "dir/sub/y"))
        self.assertEqual((self.root / "dir/sub/y").read_bytes(), b"file")
        self.assertStatus(201, self.move("dir/sub/y", "new", Overwrite="F"))
        self.assertStatus(403, self.ask("MOVE", "new", self.to("new2"), token=self.site.issue()))

    def test_what_cannot_be_moved_stays(self):
        for source, to, status in [
            ("file", "file", 403),
            ("dir", "dir/", 403),
            ("dir/", "dir/inner", 409),
            ("dir", "dir/sub/inner", 409),
            ("dir/sub", "dir", 409),
            ("file", "dir", 409),
            ("dir", "file", 409),
            ("file", "none/x", 409),
            ("file", "file/x", 409),
            ("none", "x", 404),
            ("file/", "x", 404),
            ("file", "../x", 400),
            ("file", "a//b", 400),
            ("file", ".tidegate/x", 400),
        ]:
            self.assertStatus(status, self.move(source, to), (source, to))
            self.assertUnchanged()

    def test_a_destination_must_be_a_url(self):
        for headers in {}, {"Destination": ""}, {"Destination": "not a url"}, {"Destination": "https://"}, {"Destination": "\xff"}:
            self.assertStatus(400, self.ask("MOVE", "file", headers), headers)
        self.assertUnchanged()

    def test_a_token_moves_within_what_it_opens(self):
        narrow = self.site.issue("--path", f"{self.bucket}/dir", "--delete")
        self.assertStatus(403, self.ask("MOVE", "dir/x", self.to("x"), token=narrow))
        self.assertStatus(403, self.ask("MOVE", "file", self.to("dir/file"), token=narrow))
        self.assertStatus(403, self.ask("MOVE", "dir", self.to("dir/d"), token=narrow))
        self.assertUnchanged()
        self.assertStatus(201, self.ask("MOVE", "dir/x", self.to("dir/z"), token=narrow))

    def test_what_another_site_sends_is_refused(self):
        for said in "cross-site", "same-site", "x":
            self.assertStatus(403, self.move("file", "x", **{"Sec-Fetch-Site": said}), said)
        self.assertUnchanged()
        self.assertStatus(201, self.move("file", "x", **{"Sec-Fetch-Site": "same-origin"}))
