"""The server: the shapes of answers, parts of files, and every fault."""

import http.client
import json
import tempfile
import threading
import time
import unittest
import urllib.parse
from pathlib import Path

from standin.faults import Faults
from standin.make import SHAPES, make
from standin.server import Server, asked

SEARCH = "/ena/portal/api/search"
FILEREPORT = "/ena/portal/api/filereport"


class Serving(unittest.TestCase):
    """A server over one small data set."""

    @classmethod
    def setUpClass(cls) -> None:
        held = tempfile.TemporaryDirectory()
        cls.addClassCleanup(held.cleanup)
        cls.root = Path(held.name)
        cls.runs = {run["shape"]: run for run in make(cls.root, len(SHAPES), 0.2, 3, SHAPES)["runs"]}

    def serve(self, real_names: bool = False, **faults) -> None:
        self.server = Server(("127.0.0.1", 0), self.root, Faults(**faults), None, real_names)
        thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def ask(self, path: str, form: dict | None = None, headers: dict | None = None, method: str | None = None):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=10)
        self.addCleanup(connection.close)
        body = urllib.parse.urlencode(form) if form else None
        connection.request(method or ("POST" if form else "GET"), path, body, headers or {})
        answer = connection.getresponse()
        return answer, answer.read()

    def table(self, path: str, form: dict | None = None) -> list[dict[str, str]]:
        answer, body = self.ask(path, form)
        self.assertEqual(answer.status, 200, body)
        header, *rows = [line.split("\t") for line in body.decode().splitlines()]
        self.assertEqual(header[0], "run_accession")
        return [dict(zip(header, row, strict=True)) for row in rows]

    def name(self, shape: str, column: str = "run_accession") -> str:
        return self.runs[shape]["columns"][column]


class Interfaces(Serving):
    def test_ena_answers_by_accession_list_and_query(self) -> None:
        self.serve()
        report = f"{FILEREPORT}?accession={self.name('three')}&result=read_run&fields=fastq_ftp,fastq_bytes,run_alias"
        self.assertEqual(self.ask(report)[0].status, 400)
        [row] = self.table(report.replace(",run_alias", ",tax_id"))
        self.assertEqual([len(row[name].split(";")) for name in ["fastq_ftp", "fastq_bytes"]], [3, 3])
        names = f"{self.name('paired')},{self.name('no-fastq')},SRR1234567"
        rows = self.table(SEARCH, {"result": "read_run", "includeAccessionType": "run", "includeAccessions": names,
                                   "fields": "fastq_ftp,sra_ftp,sra_md5"})
        self.assertEqual([row["run_accession"] for row in rows], names.split(",")[:2])
        self.assertTrue(rows[1]["fastq_ftp"] == "" and rows[1]["sra_ftp"])
        query = f'secondary_study_accession="{self.name("paired", "secondary_study_accession")}"'
        self.assertEqual(len(self.table(SEARCH, {"query": query})), 9)
        self.assertEqual(self.ask("/ena/portal/api/count", {"query": query})[1], b"count\n9\n")
        answer, body = self.ask(SEARCH, {"query": query, "format": "json", "limit": "2"})
        self.assertEqual(len(json.loads(body)), 2)

    def test_places_have_their_real_names_if_asked_for(self) -> None:
        self.serve(real_names=True)
        [row] = self.table(f"{FILEREPORT}?accession={self.name('single')}")
        self.assertTrue(row["fastq_ftp"].startswith("ftp.sra.ebi.ac.uk/vol1/"), row)
        _, body = self.ask("/sdl/2/retrieve", {"acc": self.name("single")})
        self.assertIn(b"https://sra-pub-run-odp.s3.amazonaws.com/sra/", body)

    def test_nothing_is_said_in_every_way(self) -> None:
        for empty, status, body in [("header", 200, b"run_accession\tfastq_ftp\n"), ("204", 204, b""),
                                    ("404", 404, b'{"message":"not found"}'), ("[]", 200, b"[]")]:
            self.serve(empty=empty)
            answer, found = self.ask(f"{FILEREPORT}?accession=SRR1234567&fields=fastq_ftp")
            self.assertEqual((answer.status, found), (status, body))

    def test_ncbi_knows_what_ena_does_not(self) -> None:
        self.serve()
        run = self.name("ncbi-only")
        self.assertEqual(self.table(f"{FILEREPORT}?accession={run}"), [])
        _, body = self.ask("/entrez/eutils/esearch.fcgi", {"db": "sra", "term": run, "usehistory": "y", "retmax": "0"})
        found = json.loads(body)["esearchresult"]
        self.assertEqual((found["count"], found["idlist"]), ("1", []))
        page = {"db": "sra", "query_key": found["querykey"], "WebEnv": found["webenv"], "rettype": "runinfo"}
        lines = self.ask("/entrez/eutils/efetch.fcgi", page)[1].decode().strip().splitlines()
        self.assertEqual([line.split(",")[0] for line in lines], ["Run", run])
        self.assertEqual(lines[0].count(","), 46)

    def test_geo_leads_to_experiments_and_studies(self) -> None:
        self.serve()
        sample = self.name("paired", "sample_alias")
        term = f"({sample}[GEO Accession] AND gsm[Entry Type]) OR (GSE900001[GEO Accession] AND gse[Entry Type])"
        self.ask("/entrez/eutils/esearch.fcgi", {"db": "gds", "term": term, "usehistory": "y"})
        _, body = self.ask("/entrez/eutils/esummary.fcgi", {"db": "gds", "query_key": "1", "WebEnv": "x"})
        result = json.loads(body)["result"]
        targets = {result[uid]["accession"]: result[uid]["extrelations"][0]["targetobject"] for uid in result["uids"]}
        self.assertEqual(targets, {sample: self.name("paired", "experiment_accession"), "GSE900001": "SRP900001"})

    def test_sdl_tells_full_from_lite(self) -> None:
        self.serve()

        def located(shape: str, **more: str) -> dict:
            _, body = self.ask("/sdl/2/retrieve", {"acc": self.name(shape), "filetype": "run", **more})
            return json.loads(body)["result"][0]

        self.assertNotIn("noqual", located("paired")["files"][0])
        self.assertIs(located("paired", capability="zqa:z")["files"][0]["noqual"], True)
        self.assertIs(located("lite-only")["files"][0]["noqual"], True)
        self.assertEqual(located("controlled")["status"], "403")
        answer = json.loads(self.ask("/sdl/2/retrieve", {"acc": "SRR1234567"})[1])
        self.assertEqual(answer["result"][0]["msg"], "Cannot resolve accession")

    def test_files_come_whole_and_in_parts(self) -> None:
        self.serve()
        entry = self.runs["single"]["fastq"][0]
        path, data = f"/{entry['path']}", (self.root / entry["path"]).read_bytes()
        answer, body = self.ask(path)
        self.assertEqual((answer.status, body), (200, data))
        answer, body = self.ask(path, headers={"Range": "bytes=5-9", "If-Range": answer.headers["ETag"]})
        self.assertEqual((answer.status, body), (206, data[5:10]))
        self.assertEqual(answer.headers["Content-Range"], f"bytes 5-9/{len(data)}")
        self.assertEqual(self.ask(path, headers={"Range": "bytes=5-9", "If-Range": '"other"'})[0].status, 200)
        self.assertEqual(self.ask(path, headers={"Range": f"bytes={len(data)}-"})[0].status, 416)
        answer, body = self.ask(path, method="HEAD")
        self.assertEqual((answer.headers["Content-Length"], body), (str(len(data)), b""))
        for bad in ["/runs.json", "/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/vol1"]:
            self.assertEqual(self.ask(bad)[0].status, 404, bad)

    def test_parts_are_read(self) -> None:
        for header, part in [("bytes=0-4", (0, 5)), ("bytes=7-", (7, 10)), ("bytes=-3", (7, 10)),
                             ("bytes=8-99", (8, 10)), (None, None), ("bytes=1-2,4-5", None),
                             ("lines=1-2", None), ("bytes=x-", None)]:
            self.assertEqual(asked(header, 10), part)

    def test_interfaces_fail_as_asked(self) -> None:
        report = f"{FILEREPORT}?accession={self.name('single')}"
        self.serve(html=1, limit_in_200=1, fail=1, fail_status=500)
        starts = [self.ask(report)[1][:10] for _ in range(4)]
        self.assertEqual(starts, [b'{"error":"', b"<!DOCTYPE ", b"an error w", b"run_access"])
        self.serve(requests_a_second=2, retry_after=1.5)
        answers = [self.ask(report)[0] for _ in range(3)]
        self.assertEqual([answer.status for answer in answers], [200, 200, 429])
        self.assertEqual(answers[2].headers["Retry-After"], "1.5")
        self.serve(fail=-1, at="sdl")
        self.assertEqual(self.ask(report)[0].status, 200)
        self.assertEqual(self.ask("/sdl/2/retrieve", {"acc": "SRR1"})[0].status, 503)

    def test_bodies_are_dropped_and_ranges_ignored(self) -> None:
        entry = self.runs["single"]["fastq"][0]
        path = f"/{entry['path']}"
        self.serve(drop_after=4000, drops=1, ignore_ranges=True)
        with self.assertRaises(http.client.IncompleteRead) as caught:
            self.ask(path)
        self.assertTrue(2000 <= len(caught.exception.partial) <= 6000)
        answer, body = self.ask(path, headers={"Range": "bytes=5-9"})
        self.assertEqual((answer.status, len(body)), (200, entry["bytes"]))
        self.assertNotIn("Accept-Ranges", answer.headers)

    def test_one_connection_too_many_is_refused(self) -> None:
        entry = self.runs["single"]["fastq"][0]
        self.serve(connections=1, busy=503, connection_rate=200_000)
        slow = threading.Thread(target=self.ask, args=(f"/{entry['path']}",))
        slow.start()
        deadline = time.monotonic() + 10
        while self.server.faults.open == 0 and time.monotonic() < deadline:
            time.sleep(0.005)
        self.assertEqual(self.ask(f"/{entry['path']}")[0].status, 503)
        self.server.faults.busy = 0
        self.assertRaises(ConnectionError, self.ask, f"/{entry['path']}")
        slow.join()
        counts = json.loads(self.ask("/standin/requests")[1])
        self.assertEqual((counts["bodies_at_once"], counts["bodies_refused"]), (1, 2))

    def test_requests_are_counted(self) -> None:
        self.serve()
        self.table(f"{FILEREPORT}?accession={self.name('single')}")
        counts = json.loads(self.ask("/standin/requests")[1])
        self.assertEqual(counts[FILEREPORT], 1)
