"""A running transfer as a Gymnasium environment: each step is an epoch that really passes."""

import json
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from os import PathLike, environ
from pathlib import Path
from typing import IO, Any, ClassVar

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded

from . import _gymnasium as _gymnasium
from ._core import FEATURES, Observation, View
from ._paths import Actions, Reward, Start, action_space, observation_space, render_mode_of, start_of
from ._told import observation_of
from ._types import Bounds, PerStage
from ._values import place, text, texts, three, whole

# How long a process may take to end that was asked to, in seconds: it says good-bye to its peer first.
_ENDING = 20.0


class LiveEnv(gymnasium.Env[npt.NDArray[np.float32], npt.NDArray[Any]]):
    """A transfer that really runs: once an epoch, set how many workers read, send and write.

    Actions, observations, rewards and their parameters are those of `TransferEnv`, so that an agent of the one runs on
    the other. Time passes at its own pace: a step takes `epoch_ms`, and longer where an epoch showed too little. An
    agent that takes longer than half an epoch to answer is late; the set-point before stands until its answer comes.

    **Episode.** `reset()` begins a transfer, lets an epoch pass at a random set-point (or at `start`, or at
    `options["start"]`) and shows it. `epochs` steps later the episode is truncated and the transfer stopped; it is
    terminated when everything is moved. `close()` ends all processes.

    **Path.** Without `source`, zeros are moved from memory to memory; with it, a file or a directory is copied. Without
    `destination`, the other end is an endpoint of the environment's own on the loopback, and what is copied there is
    removed after each episode. A destination is what `tidegate copy` takes: an address or a remembered name with a path.
    What is there already is not copied again. `options` are further options of `tidegate probe` and `copy`, such as
    `["--limit-network", "100Mbit/s"]` for a path whose best set-point is known.

    **Info.** `observation` (a `tidegate.Observation`), `concurrency` (int64, (3,)) and `goodput_bps`. A live path has no
    oracle, so there is no `best_bps`, and `reference_bps` has to be given: the rate of the link, or the best seen so far.

    Parameters
    ----------
    source, destination, options: the path, as above.
    reference_bps: what throughput is shown and rewarded relative to.
    epochs: steps an episode, at least 1.
    epoch_ms: length of an epoch, 100 to 60000.
    max_workers: the most workers a stage, 1 to 512.
    actions, reward, k, start, render_mode: as for `TransferEnv`.
    program: the program `tidegate`; that of the environment variable TIDEGATE or of PATH unless given.
    patience_s: how long a step may take before it raises `TimeoutError`, in seconds.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 1}  # type: ignore[misc]

    def __init__(
        self,
        source: str | PathLike[str] | None = None,
        destination: str | None = None,
        *,
        reference_bps: float,
        options: Sequence[str] = (),
        epochs: int = 60,
        epoch_ms: float = 1000.0,
        max_workers: int = 32,
        actions: Actions = "continuous",
        reward: Reward = "end_to_end",
        k: float = 1.02,
        start: Start = "random",
        program: str | PathLike[str] | None = None,
        patience_s: float = 120.0,
        render_mode: str | None = None,
    ) -> None:
        epochs, max_workers = whole("epochs", epochs), whole("max_workers", max_workers)
        more = texts("options", options)
        if epochs < 1 or not 100 <= epoch_ms <= 60_000 or not 1 <= max_workers <= 512:
            raise ValueError("epochs must be at least 1, epoch_ms from 100 to 60000 and max_workers from 1 to 512")
        every, one = Bounds(1, max_workers), Bounds(1, 1)
        self.bounds = PerStage(every, every, every) if source is not None else PerStage(one, every, one)
        self.reference_bps = float(reference_bps)
        self._view = View(bounds=self.bounds, reference_bps=self.reference_bps, actions=actions, reward=reward, k=k)
        self.observation_space = observation_space()
        self.action_space = action_space(actions, self.bounds)
        self.render_mode = render_mode_of(render_mode)
        self._epochs = epochs
        self._start = self._first(start)
        self._processes = _Processes(
            _program(program),
            None if source is None else place("source", source),
            None if destination is None else text("destination", destination),
            [*more, "--epoch", f"{epoch_ms:g}ms", "--max-workers", str(max_workers)],
        )
        self._finalizer = weakref.finalize(self, self._processes.close)
        self._patience = float(patience_s)
        self._run: _Run | None = None
        self._seen: Observation | None = None
        self._taken = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Begins a transfer; `options["start"]` is its first set-point. A seed fixes what is drawn, not what a path does."""
        start = self._first(start_of(options, ()))
        super().reset(seed=seed)
        self._end()
        if start is None:
            start = self._start
        if start is None:
            start = [int(self.np_random.integers(low, high + 1)) for low, high in self.bounds]
        self._run = self._processes.begin(self._patience)
        try:
            self._run.hear()
            self._run.say(start)
            told = self._run.hear()
        except BaseException:
            self._end()
            raise
        if told is None:
            self._end()
            raise RuntimeError("everything was moved before an epoch had passed: give more to move, or a shorter epoch_ms")
        self._seen = observation_of(told)
        self._taken = 0
        return self._state(), self._info()

    def step(
        self, action: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Lets an epoch pass with the workers that `action` asks for."""
        if self._run is None or self._seen is None:
            raise ResetNeeded("step() without an episode: call reset() first")
        numbers = np.asarray(action, dtype=np.float64)
        if numbers.shape != (3,):
            raise ValueError(f"an action must have the shape (3,), not {numbers.shape}")
        setpoint = self._view.setpoint(numbers.tolist())
        self._taken += 1
        try:
            self._run.say(setpoint)
            told = self._run.hear()
        except BaseException:
            self._end()
            raise
        reward = 0.0
        if told is not None:
            self._seen = observation_of(told)
            reward = self._view.worth(self._seen)
        terminated = told is None or self._seen.remaining_bytes == 0
        truncated = not terminated and self._taken >= self._epochs
        if terminated or truncated:
            self._end()
        return self._state(), reward, terminated, truncated, self._info()

    def render(self) -> str | None:
        """The last epoch as a line of text, if `render_mode` is "ansi"."""
        if self.render_mode != "ansi":
            return None
        if self._seen is None:
            return "not begun: call reset()"
        return f"{self._taken:>4}/{self._epochs}  {self._seen!r}"

    def close(self) -> None:
        """Ends the transfer and the endpoint; the environment is of no use afterwards."""
        self._end()
        self._finalizer()

    def _end(self) -> None:
        self._run = None
        self._processes.end()

    def _first(self, start: Start) -> list[int] | None:
        """The set-point to begin with; None for one that is drawn."""
        if isinstance(start, str):
            if start != "random":
                raise ValueError(f"start must be 'random' or three numbers of workers, not {start!r}")
            return None
        numbers = three("start", start)
        if len(numbers) != 3 or min(numbers) < 1:
            raise ValueError(f"start must be 'random' or three numbers of workers, not {start!r}")
        return [min(max(n, stage.min), stage.max) for n, stage in zip(numbers, self.bounds, strict=True)]

    def _state(self) -> npt.NDArray[np.float32]:
        assert self._seen is not None
        state = np.array(self._view.state(self._seen), dtype=np.float32)
        assert state.shape == (FEATURES,)
        return state

    def _info(self) -> dict[str, Any]:
        assert self._seen is not None
        return {
            "observation": self._seen,
            "goodput_bps": float(self._seen.goodput_bps),
            "concurrency": np.array(self._seen.concurrency, dtype=np.int64),
        }


def _program(given: str | PathLike[str] | None) -> str:
    """Where the program `tidegate` is."""
    name = environ.get("TIDEGATE") or "tidegate" if given is None else place("program", given)
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"there is no program {name}: build it (cargo build --release), and give program= or TIDEGATE")
    return str(Path(found).resolve())


class _Run:
    """A transfer that asks what to do, by a bridge that it runs as its rule (--optimizer exec:)."""

    def __init__(self, process: subprocess.Popen[bytes], end: socket.socket, messages: IO[bytes]) -> None:
        self.process = process
        self.messages = messages
        self._socket = end
        self._lines = end.makefile("rb")

    def hear(self) -> dict[str, Any] | None:
        """What is told next; None once the transfer has ended well."""
        try:
            line = self._lines.readline()
        except TimeoutError:
            raise TimeoutError(f"no epoch within {self._socket.gettimeout():g} s: {self._last_words()}") from None
        if line.endswith(b"\n"):
            told: dict[str, Any] = json.loads(line)
            return told
        code = self.process.wait(_ENDING)
        if code != 0:
            raise RuntimeError(f"tidegate ended with {code}: {self._last_words()}")
        return None

    def say(self, setpoint: Sequence[int]) -> None:
        """Answers with a set-point; one that has ended is heard of by `hear`."""
        try:
            self._socket.sendall(json.dumps({"setpoint": list(setpoint)}).encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            pass

    def close(self) -> None:
        """Stops the transfer."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        _wait(self.process)
        self._lines.close()
        self._socket.close()
        self.messages.close()

    def _last_words(self) -> str:
        self.messages.seek(0)
        lines = self.messages.read().decode(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"


class _Processes:
    """The processes of an environment: its endpoint, if it has one of its own, and the transfer that runs."""

    def __init__(
        self, program: str, source: str | None, destination: str | None, options: Sequence[str]
    ) -> None:
        self._program = program
        self._source = source
        self._destination = destination
        self._options = options
        self._home = tempfile.TemporaryDirectory(prefix="tidegate-live-")
        self._endpoint: subprocess.Popen[bytes] | None = None
        self._address = ""
        self._run: _Run | None = None
        self._episodes = 0

    def begin(self, patience_s: float) -> _Run:
        """Begins a transfer."""
        home = Path(self._home.name)
        destination = self._destination
        if destination is None:
            self._serve(home)
            self._episodes += 1
            # By the environment, since everybody may read command lines.
            destination = f"live:/{self._episodes}/"
        command = ["probe", "--json", "--time", "86400s"] if self._source is None else ["copy", "--json", "--quiet"]
        ours, theirs = socket.socketpair()
        with theirs:
            bridge = [sys.executable, "-I", "-S", str(Path(__file__).with_name("_bridge.py")), str(theirs.fileno())]
            rule = f"exec:{shlex.join(bridge)}"
            places = [place for place in (self._source, destination) if place is not None]
            messages = tempfile.TemporaryFile()
            try:
                process = subprocess.Popen(
                    [self._program, *command, "--optimizer", rule, "--state", str(home / "state"), *self._options, "--", *places],
                    env=environ | ({"TIDEGATE_REMOTE_LIVE": self._address} if self._address else {}),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=messages,
                    pass_fds=[theirs.fileno()],
                )
            except BaseException:
                ours.close()
                messages.close()
                raise
        ours.settimeout(patience_s)
        self._run = _Run(process, ours, messages)
        return self._run

    def end(self) -> None:
        """Ends the transfer that runs, and removes what it brought."""
        if self._run is not None:
            self._run.close()
            self._run = None
            shutil.rmtree(Path(self._home.name) / "root" / str(self._episodes), ignore_errors=True)

    def close(self) -> None:
        """Ends everything."""
        self.end()
        if self._endpoint is not None:
            self._endpoint.terminate()
            _wait(self._endpoint)
            if self._endpoint.stdout is not None:
                self._endpoint.stdout.close()
            self._endpoint = None
        self._home.cleanup()

    def _serve(self, home: Path) -> None:
        if self._endpoint is not None and self._endpoint.poll() is None:
            return
        (home / "root").mkdir(exist_ok=True)
        self._endpoint = subprocess.Popen(
            [self._program, "endpoint", "--root", str(home / "root"), "--listen", "127.0.0.1:0"]
            + ["--state", str(home / "endpoint"), "--data-plane", "clear"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._endpoint.stdout is not None
        self._address = self._endpoint.stdout.readline().decode().strip()
        if not self._address.startswith("tg://"):
            raise RuntimeError(f"{self._program} endpoint did not start: it ended with {self._endpoint.wait(_ENDING)}")


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Waits for a process to end, and makes it."""
    try:
        process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
