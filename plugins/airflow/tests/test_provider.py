"""The provider with Airflow's own classes against a real `tidegate serve`."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest
import uuid
from pathlib import Path

TIDEGATE = Path(os.environ.get("TIDEGATE", "target/debug/tidegate")).resolve()
world = tempfile.TemporaryDirectory()
HERE = Path(world.name)
os.environ |= {"AIRFLOW_HOME": str(HERE / "airflow"), "AIRFLOW__CORE__UNIT_TEST_MODE": "True"}

from airflow.sdk import DAG  # noqa: E402
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred  # noqa: E402

from tidegate_airflow import get_provider_info  # noqa: E402
from tidegate_airflow.hook import TidegateHook  # noqa: E402
from tidegate_airflow.operator import TidegateTransferOperator  # noqa: E402
from tidegate_airflow.service import Service, wanted  # noqa: E402
from tidegate_airflow.trigger import JobTrigger  # noqa: E402


def connect(name, **parts):
    os.environ[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps({"conn_type": "tidegate", **parts})


def setUpModule():
    global service, port
    home = {"PATH": os.environ["PATH"], "HOME": str(HERE)}
    command = [TIDEGATE, "serve", "--listen", "127.0.0.1:0", "--state", HERE / "state"]
    with open(HERE / "serve.log", "w") as log:
        service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=home)
    port = int(service.stdout.readline().strip().rpartition(":")[2])
    token = (HERE / "state/service/token").read_text().strip()
    connect("tidegate_default", host="127.0.0.1", port=port, password=token)
    connect("stranger", host="127.0.0.1", port=port, password="wrong")
    connect("nobody", host="127.0.0.1", port=1, password=token)
    connect("no_token", host="127.0.0.1", port=port)
    (HERE / "data/deep").mkdir(parents=True)
    (HERE / "data/deep/a").write_bytes(b"a" * 100_000)


def tearDownModule():
    service.terminate()
    service.wait(timeout=30)
    service.stdout.close()
    world.cleanup()


class TypesTest(unittest.TestCase):
    def test_a_source_is_one_text_or_several_and_nothing_else(self):
        for source in ("/a", ["/a"], ("/a",), {"/a"}, iter(["/a"])):
            self.assertEqual(wanted(source, "/b", {"options": {"delete": True}})["sources"], ["/a"])
        for source in (b"/a", {"/a": 1}, [b"/a"], [1], None, Path("/a"), [["/a"]]):
            self.assertRaises(TypeError, wanted, source, "/b", None)
        for destination, job in ((Path("/b"), None), (None, None), ("/b", ["--delete"]), ("/b", "x")):
            self.assertRaises(TypeError, wanted, "/a", destination, job)


def context(try_number=1):
    ti = types.SimpleNamespace(dag_id="d", run_id=uuid.uuid4().hex, task_id="t", map_index=-1, try_number=try_number)
    return {"ti": ti}


def task(destination="out", **more):
    asked = {"source": str(HERE / "data"), "destination": str(HERE / destination), "poll_interval": 0.1, **more}
    with DAG("d"):
        return TidegateTransferOperator(task_id="t", **asked)


def deferred(task, context):
    """What a task hands to the triggerer, as it comes out of the database."""
    try:
        task.execute(context)
    except TaskDeferred as asked:
        path, arguments = asked.trigger.serialize()
        assert path == "tidegate_airflow.trigger.JobTrigger"
        return asked.method_name, JobTrigger(**json.loads(json.dumps(arguments)))
    raise AssertionError("it was not deferred")


def event_of(trigger):
    async def first():
        async for event in trigger.run():
            return event.payload

    return asyncio.run(first())


class Transfers(unittest.TestCase):
    def test_the_triggerer_waits_and_the_task_returns_the_summary(self):
        copy, now = task("deferred/"), context()
        method, trigger = deferred(copy, now)
        summary = copy.resume_execution(method, {"event": event_of(trigger)}, now)
        self.assertEqual((summary["status"], summary["verified"], summary["bytes"]), ("complete", True, 100_000))
        self.assertEqual((HERE / "deferred/data/deep/a").stat().st_size, 100_000)

    def test_a_worker_waits_where_it_is_told_to(self):
        summary = task("waited/", deferrable=False, job={"options": {"filter": ["- a"]}}).execute(context())
        self.assertEqual((summary["status"], summary["files"]["total"]), ("complete", 0))

    def test_the_same_try_is_submitted_once_and_another_try_again(self):
        copy, now = task("once/"), context()
        first, again = (deferred(copy, now)[1].job_id for _ in range(2))
        now["ti"].try_number = 2
        self.assertEqual(first, again)
        self.assertNotEqual(deferred(copy, now)[1].job_id, first)

    def test_what_is_missing_is_not_tried_again(self):
        copy = task(source=str(HERE / "nothing"), deferrable=False, job={"retries": 0})
        with self.assertRaisesRegex(AirflowFailException, "failed: .*nothing"):
            copy.execute(context())

    def test_a_job_that_was_cancelled_fails_the_task_for_good(self):
        # What it waits for has no end: nobody is there, and a job outlives that for a day.
        hook = TidegateHook().get_conn()
        endless = {"source": "http://127.0.0.1:1/x", "destination": str(HERE)}
        blocker = asyncio.run(hook.submit(endless, uuid.uuid4().hex))
        copy, now = task("killed/", job={"after": [blocker]}), context()
        method, trigger = deferred(copy, now)
        copy.on_kill()
        event = event_of(trigger)
        self.assertEqual(event["state"], "cancelled")
        with self.assertRaisesRegex(AirflowFailException, "cancelled"):
            copy.resume_execution(method, {"event": event}, now)
        asyncio.run(hook.cancel(blocker))

    def test_a_job_that_makes_no_sense_is_refused_at_once(self):
        with self.assertRaisesRegex(AirflowFailException, "nonsense"):
            task(job={"nonsense": 1}).execute(context())

    def test_a_token_that_is_not_the_services(self):
        with self.assertRaises(AirflowFailException) as raised:
            task(conn_id="stranger").execute(context())
        self.assertNotIn("wrong", str(raised.exception))

    def test_a_service_that_does_not_answer(self):
        with self.assertRaisesRegex(AirflowException, "127.0.0.1:1 does not answer"):
            task(conn_id="nobody").execute(context())
        event = event_of(JobTrigger("nobody", 7, 0.01, 0.05))
        self.assertEqual((event["id"], event["state"]), (7, "unknown"))

    def test_a_connection_without_a_token(self):
        with self.assertRaisesRegex(ValueError, "no_token has no password"):
            task(conn_id="no_token").execute(context())


DAG_FILE = """
from airflow.sdk import DAG, task
from tidegate_airflow.operator import TidegateTransferOperator

with DAG("runs", schedule=None):
    fetch = TidegateTransferOperator(task_id="fetch", source={source!r}, destination="{here}/{{{{ dag.dag_id }}}}/", poll_interval=0.2)

    @task
    def told(summary):
        assert (summary["status"], summary["bytes"]) == ("complete", 100_000), summary

    told(fetch.output)
"""


class Dag(unittest.TestCase):
    def test_airflow_runs_it_in_a_dag_and_hands_on_the_summary(self):
        dags = HERE / "dags"
        dags.mkdir()
        (dags / "runs.py").write_text(DAG_FILE.format(source=str(HERE / "data"), here=HERE / "by-dag"))
        environment = os.environ | {"AIRFLOW__CORE__DAGS_FOLDER": str(dags), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
        environment |= {"AIRFLOW__CORE__UNIT_TEST_MODE": "False", "AIRFLOW_HOME": str(HERE / "airflow-of-dag")}
        airflow = Path(sys.executable).with_name("airflow")
        for command in (["db", "migrate"], ["dags", "test", "runs"]):
            ran = subprocess.run([airflow, *command], capture_output=True, text=True, timeout=300, env=environment)
            self.assertEqual(ran.returncode, 0, ran.stdout[-3000:] + ran.stderr[-3000:])
        self.assertIn("Trigger completed", ran.stdout)
        self.assertEqual((HERE / "by-dag/runs/data/deep/a").stat().st_size, 100_000)


class Provider(unittest.TestCase):
    def test_airflow_is_told_of_the_connection(self):
        kind = get_provider_info()["connection-types"][0]
        self.assertEqual((kind["connection-type"], kind["hook-class-name"]), ("tidegate", f"{TidegateHook.__module__}.TidegateHook"))

    def test_no_secret_is_shown(self):
        self.assertNotIn("secret", repr(Service("http://h", "secret")))
