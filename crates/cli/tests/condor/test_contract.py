"""HTCondor's contract with a plug-in for transfers of several files (protocol versions 2 and 4), case by case.

Every invocation is held against the whole of it by `Starter.end`; a case adds what is its own. That the daemons of HTCondor
invoke it is not shown here: the Python index has their libraries and not them.
"""

import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

import classad2

from servers import Endpoint, Web, WebServer
from starter import PREFILLED, Starter

NEVER, SOON = -1, 0


def setUpModule():
    global world, there, web, slow
    world = Path(tempfile.mkdtemp())
    unittest.addModuleCleanup(shutil.rmtree, world, ignore_errors=True)
    there = Endpoint(world / "there", world / "operator")
    unittest.addModuleCleanup(there.end)
    web = WebServer()
    unittest.addModuleCleanup(web.end)
    (there.root / "in/tree/deep").mkdir(parents=True)
    for name in ["a", "b", "c d", 'q"u\\o', "ümlaut", "100%", *(f"n{i}" for i in range(20))]:
        (there.root / "in" / name).write_bytes(name.encode() * 1000)
    (there.root / "in/empty").touch()
    (there.root / "in/tree/deep/x").write_text("x")
    (there.root / "in/tree/y").write_text("yy")
    for i in range(5):
        Web.files[f"w{i}"] = f"content {i}".encode() * 100
    Web.files |= {"empty": b"", "sp ace": b"space"}
    # Who never answers is given up after half a minute, which the other cases do not wait for.
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{closed.getsockname()[1]}"
    ticket = there.address.split("@")[0]
    slow = {}
    for name, url in [
        ("tg_contact", f"{ticket}@{nobody}/a"),
        ("tg_resolution", f"{ticket}@no-such-host.invalid/a"),
        ("http_contact", f"http://{nobody}/a"),
        ("http_resolution", "http://no-such-host.invalid/a"),
    ]:
        starter = Starter(world / name)
        slow[name] = starter.begin([(url, str(starter.scratch / "a"))])


class Case(unittest.TestCase):
    def setUp(self):
        self.starter = Starter(world / self.id().replace(".", "-"))
        self.scratch = self.starter.scratch

    def here(self, name, content=None):
        path = self.scratch / name
        if content is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return str(path)

    def fetch(self, *pairs, **how):
        return self.starter.invoke([(url, self.here(name)) for url, name in pairs], **how)

    def store(self, *pairs, **how):
        return self.starter.invoke([(url, self.here(name)) for url, name in pairs], upload=True, **how)

    def assert_same(self, *names):
        for name in names:
            self.assertEqual((self.scratch / name).read_bytes(), (there.root / "in" / name).read_bytes(), name)

    def assert_failed(self, answered, name, kind, retryable, failure=None, within=None):
        error = answered.error(name)
        self.assertEqual((error["ErrorType"], error.get("FailureType"), error["Retryable"]), (kind, failure, retryable), str(error))
        if within is not None:
            self.assertIn(within, error["ErrorString"])


class Query(Case):
    def test_it_says_what_it_can_do_and_nothing_else(self):
        code, ad, said = self.starter.query()
        self.assertEqual((code, said), (0, ""))
        self.assertEqual(
            set(ad), {"MultipleFileSupport", "PluginType", "PluginVersion", "ProtocolVersion", "SupportedMethods"}
        )
        self.assertEqual((ad["MultipleFileSupport"], ad["PluginType"], ad["ProtocolVersion"]), (True, "FileTransfer", 4))

    def test_it_names_its_schemes(self):
        self.assertEqual(self.starter.query()[1]["SupportedMethods"], "tg,ssh,http,https,ftp,ftps,sftp,s3,gs")

    def test_it_needs_no_home(self):
        self.assertEqual(self.starter.query(HOME=None)[0], 0)


class FromAnEndpoint(Case):
    def test_a_file(self):
        self.fetch((there.at("in/a"), "a"))
        self.assert_same("a")

    def test_two_files(self):
        self.fetch((there.at("in/a"), "a"), (there.at("in/b"), "b"))
        self.assert_same("a", "b")

    def test_twenty_files(self):
        names = [f"n{i}" for i in range(20)]
        self.fetch(*((there.at(f"in/{name}"), name) for name in names))
        self.assert_same(*names)

    def test_another_name(self):
        self.fetch((there.at("in/a"), "other"))
        self.assertEqual((self.scratch / "other").read_bytes(), b"a" * 1000)

    def test_the_same_file_twice(self):
        self.fetch((there.at("in/a"), "one"), (there.at("in/a"), "two"))
        self.assertEqual((self.scratch / "one").read_bytes(), (self.scratch / "two").read_bytes())

    def test_two_files_to_one_name(self):
        answered = self.fetch((there.at("in/a"), "x"), (there.at("in/b"), "x"))
        self.assertEqual([ad["TransferSuccess"] for ad in answered.ads], [True, True])
        self.assertEqual((self.scratch / "x").read_bytes(), b"b" * 1000)

    def test_a_blank_in_a_name(self):
        self.fetch((there.at("in/c d"), "c d"))
        self.assert_same("c d")

    def test_quotes_and_a_backslash_in_a_name(self):
        self.fetch((there.at('in/q"u\\o'), 'q"u\\o'))
        self.assert_same('q"u\\o')

    def test_a_name_that_is_not_ascii(self):
        self.fetch((there.at("in/ümlaut"), "ümlaut"))
        self.assert_same("ümlaut")

    def test_a_percent_sign_in_a_name(self):
        self.fetch((there.at("in/100%"), "100%"))
        self.assert_same("100%")

    def test_an_empty_file(self):
        answered = self.fetch((there.at("in/empty"), "empty"))
        self.assertEqual(answered.of("empty")["TransferFileBytes"], 0)

    def test_a_directory(self):
        answered = self.fetch((there.at("in/tree/"), "tree"))
        self.assertEqual((self.scratch / "tree/deep/x").read_text(), "x")
        self.assertEqual(answered.of("tree")["TransferFileBytes"], 3)

    def test_a_directory_under_another_name_without_a_slash(self):
        answered = self.fetch((there.at("in/tree"), "renamed"))
        self.assert_failed(answered, "renamed", "Parameter", NEVER, within="slash")

    def test_what_is_there_is_replaced(self):
        self.here("a", b"old")
        self.fetch((there.at("in/a"), "a"))
        self.assert_same("a")

    def test_a_directory_is_in_the_way(self):
        (self.scratch / "a").mkdir()
        self.assert_failed(self.fetch((there.at("in/a"), "a")), "a", "Parameter", NEVER, within="is a directory")

    def test_a_missing_file(self):
        answered = self.fetch((there.at("in/nothing"), "nothing"))
        self.assert_failed(answered, "nothing", "Specification", NEVER)
        self.assertIn("127.0.0.1", answered.error("nothing")["FailedServer"])

    def test_a_missing_file_among_others(self):
        answered = self.fetch(*((there.at(f"in/{name}"), name) for name in ["a", "nothing", "b"]))
        self.assert_failed(answered, "nothing", "Specification", NEVER)
        self.assert_same("a", "b")

    def test_a_ticket_of_another_endpoint(self):
        ticket, place = there.address.split("@")
        forged = f"{ticket[:-6]}AAAAAA@{place}"
        error = self.fetch((f"{forged}/in/a", "a")).error("a")
        self.assertIn(error["ErrorType"], ("Authorization", "Parameter"))
        self.assertEqual(error["Retryable"], NEVER)

    def test_a_ticket_that_may_only_write(self):
        answered = self.fetch((f"{there.ticket('--write-only')}/in/a", "a"))
        self.assert_failed(answered, "a", "Authorization", NEVER, answered.error("a")["FailureType"])

    def test_no_secret_in_an_error(self):
        answered = self.fetch((there.at("in/nothing"), "nothing"))
        secret = there.address.split("@")[0].removeprefix("tg://")
        self.assertNotIn(secret, str(answered.of("nothing")["TransferError"]) + str(answered.error("nothing")) + answered.said)

    def test_a_remembered_name_instead_of_a_ticket(self):
        self.fetch(("tg://dtn/in/a", "a"), environment={"TIDEGATE_REMOTE_DTN": there.address})
        self.assert_same("a")

    def test_without_a_home(self):
        self.fetch((there.at("in/a"), "a"), environment={"HOME": None})
        self.assert_same("a")

    def test_a_home_that_is_not_there(self):
        self.fetch((there.at("in/a"), "a"), environment={"HOME": "/proc/none"})
        self.assert_same("a")


class FromServers(Case):
    def test_a_file(self):
        self.fetch((web.at("w0"), "w0"))
        self.assertEqual((self.scratch / "w0").read_bytes(), Web.files["w0"])

    def test_five_files(self):
        self.fetch(*((web.at(f"w{i}"), f"w{i}") for i in range(5)))
        self.assertEqual((self.scratch / "w4").read_bytes(), Web.files["w4"])

    def test_another_name(self):
        self.fetch((web.at("w1"), "renamed.txt"))
        self.assertEqual((self.scratch / "renamed.txt").read_bytes(), Web.files["w1"])

    def test_an_escaped_name(self):
        self.fetch((web.at("sp%20ace"), "sp ace"))
        self.assertEqual((self.scratch / "sp ace").read_bytes(), b"space")

    def test_a_scheme_in_capitals(self):
        self.fetch((web.at("w0", "HTTP"), "w0"))
        self.assertEqual((self.scratch / "w0").read_bytes(), Web.files["w0"])

    def test_an_empty_file(self):
        self.fetch((web.at("empty"), "empty"))
        self.assertEqual((self.scratch / "empty").read_bytes(), b"")

    def test_a_redirect(self):
        self.fetch((web.at("redirect/w2"), "w2"))
        self.assertEqual((self.scratch / "w2").read_bytes(), Web.files["w2"])

    def test_a_login(self):
        self.fetch((web.at("login/w3", login="me:secret@"), "w3"))
        self.assertEqual((self.scratch / "w3").read_bytes(), Web.files["w3"])

    def test_what_is_there_is_replaced(self):
        self.here("w0", b"old")
        self.fetch((web.at("w0"), "w0"))
        self.assertEqual((self.scratch / "w0").read_bytes(), Web.files["w0"])

    def test_without_a_home(self):
        self.fetch((web.at("w0"), "w0"), environment={"HOME": None})
        self.assertEqual((self.scratch / "w0").read_bytes(), Web.files["w0"])

    def test_not_found(self):
        self.assert_failed(self.fetch((web.at("nothing"), "x")), "x", "Specification", NEVER)

    def test_forbidden(self):
        answered = self.fetch((web.at("status/403"), "x"))
        self.assert_failed(answered, "x", "Authorization", NEVER, answered.error("x")["FailureType"])

    def test_a_login_is_missing(self):
        answered = self.fetch((web.at("login/w3"), "x"))
        self.assert_failed(answered, "x", "Authorization", NEVER, answered.error("x")["FailureType"])

    def test_one_of_three_fails(self):
        answered = self.fetch((web.at("w0"), "w0"), (web.at("nothing"), "x"), (web.at("w1"), "w1"))
        self.assert_failed(answered, "x", "Specification", NEVER)
        self.assertEqual((self.scratch / "w1").read_bytes(), Web.files["w1"])

    def test_each_of_many_files_is_answered_for(self):
        url = "http://no-such-host.invalid"
        answered = self.fetch(*((f"{url}/{i}", f"g{i}") for i in range(5)))
        self.assertEqual({ad["TransferErrorData"][0]["ErrorType"] for ad in answered.ads}, {"Resolution"})

    def test_a_scheme_that_it_does_not_know(self):
        self.assert_failed(self.fetch(("gopher://h/a", "a")), "a", "Parameter", NEVER, within="gopher")

    def test_no_scheme(self):
        self.assert_failed(self.fetch(("/etc/hosts", "a")), "a", "Parameter", NEVER)

    def test_several_lines_in_a_url(self):
        self.assert_failed(self.fetch((web.at("w0\n out=y"), "a")), "a", "Parameter", NEVER)
        self.assertFalse((self.scratch / "y").exists())

    def test_different_kinds_together(self):
        answered = self.fetch((web.at("w0"), "w0"), (there.at("in/a"), "a"), ("gopher://h/b", "b"), (there.at("in/b"), "c"))
        self.assertEqual([answered.of(name)["TransferSuccess"] for name in ("w0", "/a", "/b", "/c")], [True, True, False, True])

    def test_the_starter_ends_it(self):
        begun = self.starter.begin([(web.at("slow"), self.here("slow")), (web.at("w0"), self.here("w0"))])
        while not list(self.scratch.glob(".tidegate*")):
            pass
        begun.process.send_signal(signal.SIGTERM)
        error = begun.end().error("slow")
        self.assertEqual((error["ErrorType"], error["Retryable"]), ("Transfer", SOON))


class ToAnEndpoint(Case):
    def at(self, path):
        return there.at(f"out/{self.scratch.name}/{path}")

    def arrived(self, path):
        return (there.root / "out" / self.scratch.name / path).read_bytes()

    def test_a_file(self):
        self.here("a", b"result")
        self.store((self.at("a"), "a"))
        self.assertEqual(self.arrived("a"), b"result")

    def test_several_files(self):
        for name in "abc":
            self.here(name, name.encode())
        self.store(*((self.at(name), name) for name in "abc"))
        self.assertEqual([self.arrived(name) for name in "abc"], [b"a", b"b", b"c"])

    def test_another_name(self):
        self.here("a", b"result")
        self.store((self.at("deep/er/run7"), "a"))
        self.assertEqual(self.arrived("deep/er/run7"), b"result")

    def test_an_empty_file(self):
        self.here("a", b"")
        self.store((self.at("a"), "a"))
        self.assertEqual(self.arrived("a"), b"")

    def test_a_directory(self):
        self.here("tree/deep/x", b"x")
        self.store((self.at("tree"), "tree"))
        self.assertEqual(self.arrived("tree/deep/x"), b"x")

    def test_into_a_directory(self):
        self.here("a", b"result")
        self.store((self.at("into/"), "a"))
        self.assertEqual(self.arrived("into/a"), b"result")

    def test_what_is_there_is_replaced(self):
        for content in (b"old", b"new one"):
            self.here("a", content)
            self.store((self.at("a"), "a"))
        self.assertEqual(self.arrived("a"), b"new one")

    def test_a_file_that_is_not_there(self):
        self.here("b", b"b")
        answered = self.store((self.at("gone"), "gone"), (self.at("b"), "b"))
        self.assert_failed(answered, "gone", "Parameter", NEVER)
        self.assertEqual(self.arrived("b"), b"b")

    def test_a_ticket_that_may_only_read(self):
        self.here("a", b"a")
        answered = self.store((f"{there.ticket('--read-only')}/out/a", "a"))
        self.assert_failed(answered, "a", "Authorization", NEVER, answered.error("a")["FailureType"])


class ToServers(Case):
    def test_a_file(self):
        self.here("up", b"result")
        self.store((web.at("up"), "up"))
        self.assertEqual(Web.files["up"], b"result")

    def test_two_files(self):
        self.here("up1", b"1")
        self.here("up2", b"2")
        self.store((web.at("up1"), "up1"), (web.at("up2"), "up2"))
        self.assertEqual((Web.files["up1"], Web.files["up2"]), (b"1", b"2"))

    def test_another_name(self):
        self.here("a", b"result")
        self.store((web.at("under another"), "a"))
        self.assertEqual(Web.files["under another"], b"result")

    def test_without_a_home(self):
        self.here("homeless", b"result")
        self.store((web.at("homeless"), "homeless"), environment={"HOME": None})
        self.assertEqual(Web.files["homeless"], b"result")

    def test_forbidden(self):
        self.here("a", b"a")
        answered = self.store((web.at("status/403/a"), "a"))
        self.assert_failed(answered, "a", "Authorization", NEVER, answered.error("a")["FailureType"])

    def test_no_room_there(self):
        self.here("a", b"a")
        self.assert_failed(self.store((web.at("status/507/a"), "a")), "a", "Transfer", SOON, "NoSpace")

    def test_servers_that_nothing_is_put_to(self):
        self.here("a", b"a")
        answered = self.store(("ftp://h/a", "a"), ("gs://b/a", "a"))
        for ad in answered.ads:
            self.assertEqual(ad["TransferErrorData"][0]["ErrorType"], "Parameter")


class Input(Case):
    """All of the language may come, and what is not known says nothing."""

    def understood(self, text):
        pairs = [(there.at("in/a"), self.here("a"))]
        url, name = (classad2.quote(part) for part in pairs[0])
        self.starter.invoke(pairs, text=text.replace("@URL", url).replace("@NAME", name))
        self.assert_same("a")

    def test_names_in_any_case(self):
        self.understood("[ url = @URL; LOCALFILENAME = @NAME ]")

    def test_comments(self):
        self.understood("// one\n[ Url = @URL; /* two\n three */ LocalFileName = @NAME; ]")

    def test_expressions_of_all_kinds(self):
        self.understood(
            '[ Url = @URL; A = 1 + 2 * (3 - x) / -4 % 5; B = x =?= undefined ? {1, "]"} : [ y = 1; z = .a.b[0] ];'
            " C = a is b || !(c isnt d) && ~e >>> 2; D = strcat(\"a\", f(1, g)); E = 1.5e-3; F = 0x1F; G = 10M;"
            " 'odd name' = error; H = x ?: y; LocalFileName = @NAME ]"
        )

    def test_adjacent_texts_and_escapes(self):
        text = classad2.quote(self.here("a"))
        self.understood(f'[ Url = @URL; LocalFileName = {text.replace("a", chr(92) + "141")} ]')

    def test_the_last_of_two_values_counts(self):
        self.understood('[ Url = "gopher://h/x"; Url = @URL; LocalFileName = @NAME ]')

    def test_ads_of_no_file_before_and_behind(self):
        self.understood('[ JobAd = [ Owner = "me"; Args = {} ] ]\n[ Url = @URL; LocalFileName = @NAME ]\n[ Caches = { "c" } ]')

    def test_ads_in_one_line(self):
        self.understood("[][ Url=@URL;LocalFileName=@NAME ][]")

    def test_nothing_to_do(self):
        answered = self.starter.invoke([], text="\n[ JobAd = [ Owner = \"me\" ] ]\n")
        self.assertEqual((answered.code, answered.said), (0, ""))

    def refused(self, text, within):
        code, said = self.starter.misuse(["-infile", self.starter.infile, "-outfile", self.starter.outfile], text)
        self.assertEqual(code, 1)
        self.assertIn(within, said)
        self.assertEqual(len(said.strip().splitlines()), 1)

    def test_no_ads(self):
        self.refused("Url = 1\n", "line 1")

    def test_an_ad_without_an_end(self):
        self.refused('[ Url = "a"; LocalFileName = "b"', "']'")

    def test_a_url_without_a_file(self):
        self.refused('[\n Url = "https://h/a" ]', "LocalFileName is missing")


class CommandLine(Case):
    def pairs(self):
        return [(there.at("in/a"), self.here("a"))]

    def test_the_files_in_another_order(self):
        words = ["-outfile", str(self.scratch / ".job.out"), "-infile", str(self.scratch / ".job.in")]
        self.starter.invoke(self.pairs(), words=words)
        self.assert_same("a")

    def test_the_direction_first(self):
        self.here("a", b"a")
        words = ["-upload", "-infile", str(self.scratch / ".job.in"), "-outfile", str(self.scratch / ".job.out")]
        self.starter.invoke([(there.at("out/first"), self.here("a"))], upload=True, words=words)
        self.assertEqual((there.root / "out/first").read_bytes(), b"a")

    def test_words_that_mean_nothing(self):
        for words in ([], ["-infile"], ["-infile", "x"], ["-nonsense"], ["-classad", "x"]):
            code, said = self.starter.misuse(words)
            self.assertEqual((code, len(said.strip().splitlines())), (1, 1), said)

    def test_files_that_are_not_there(self):
        for words in (["-infile", "/none/x", "-outfile", self.starter.outfile], ["-infile", self.starter.infile, "-outfile", "/none/x"]):
            code, said = self.starter.misuse(words)
            self.assertEqual(code, 1)
            self.assertIn("/none/x", said)


class Answers(Case):
    def test_there_is_no_room_prepared(self):
        self.assertTrue(self.fetch((there.at("in/a"), "a"), prefilled=0).ads)

    def test_answers_that_need_more_room(self):
        answered = self.fetch(*((f"gopher://h/{'x' * 300}/{i}", f"g{i}") for i in range(60)))
        self.assertGreater(answered.bytes, PREFILLED)

    def test_a_full_disk_is_told_of_on_that_disk(self):
        (there.root / "in/large").write_bytes(b"\0x" * (2 << 20))
        disk = self.scratch / "disk"
        disk.mkdir()
        (self.scratch / "ads").write_text(str(classad2.ClassAd({"Url": there.at("in/large"), "LocalFileName": str(disk / "large")})))
        script = """
            mount -t tmpfs -o size=1m tmpfs disk || exit 77
            head -c "$2" /dev/zero | tr '\\0' ' ' >disk/out
            "$1" -infile ads -outfile disk/out
            code=$?
            cp disk/out out
            exit $code
        """
        ran = subprocess.run(
            ["unshare", "-rm", "sh", "-c", script, "sh", self.starter.plugin, str(PREFILLED)],
            cwd=self.scratch, env=self.starter.environment(), capture_output=True, text=True, timeout=60,
        )
        if ran.returncode == 77 or "unshare" in ran.stderr:
            self.skipTest("no file system may be mounted here")
        self.assertEqual(ran.returncode, 1, ran.stderr)
        error = next(iter(classad2.parseAds((self.scratch / "out").read_text())))["TransferErrorData"][0]
        self.assertEqual((error["ErrorType"], error["FailureType"], error["Retryable"]), ("Transfer", "NoSpace", NEVER))


class WithoutAServer(Case):
    """What was begun before all others, the last in the order of names."""

    def assert_contact(self, name):
        self.assert_failed(slow[name].end(), "/a", "Contact", SOON)

    def assert_unresolved(self, name):
        error = slow[name].end().error("/a")
        self.assertEqual((error["ErrorType"], error.get("FailedName")), ("Resolution", "no-such-host.invalid"), str(error))

    def test_no_endpoint_there(self):
        self.assert_contact("tg_contact")

    def test_no_web_server_there(self):
        self.assert_contact("http_contact")

    def test_an_endpoint_of_an_unknown_name(self):
        self.assert_unresolved("tg_resolution")

    def test_a_web_server_of_an_unknown_name(self):
        self.assert_unresolved("http_resolution")
