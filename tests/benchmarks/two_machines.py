"""Whether training on two machines equals training on one, and survives the loss of one.

    python tests/benchmarks/two_machines.py     # Linux, as root, some minutes

A machine is a network namespace with a host name of its own; a pair of virtual network cards
connects the two. `torchrun` runs on each of them, as in the guide. The model must be that of two
processes on one machine, bit for bit, whether the machines run to the end, or a process or all
processes of a machine are killed in the middle and start again, or all are stopped. Machines that
do not share the run directory must end before the first step, and leave no file.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from processes import mtkit
from random_runs import SMALL, write_run

from mtkit.artifacts.manifest import open_artifact

TRAINING = {"steps": 400, "validate_every": 400, "save_every": 20, "log_every": 100}
KILL_STEP = "step-00000100"
"""A kill comes when this checkpoint, or a later one, is there."""
HOSTS = Path("/etc/netns")
"""`ip netns exec NAME` shows the files of /etc/netns/NAME in /etc."""
SETTINGS = {
    # As many threads as each of two processes on one machine has, because sums depend on them.
    "OMP_NUM_THREADS": "1",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
}
"""Environment variables of torchrun."""
TRAIN = ["mtkit", "train", "-q", "-c", "mtkit.yaml"]


@dataclass(frozen=True)
class Machine:
    """A network namespace; `folder` is the current directory of its commands."""

    name: str
    address: str
    folder: Path

    def start(self) -> subprocess.Popen[bytes]:
        """Start the agent of torchrun on this machine."""
        inside = ["ip", "netns", "exec", self.name, "unshare", "--uts", "sh", "-c"]
        inside += [f'hostname {self.name}; exec "$@"', "sh"]
        agent = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
        agent += ["--nproc-per-node", "1", "--max-restarts", "1", "--rdzv-backend", "c10d"]
        agent += ["--rdzv-id", "two", "--rdzv-endpoint", "mtkit-1:29500", "-m", *TRAIN]
        with open(self.log, "ab") as log:
            return subprocess.Popen([*inside, *agent], cwd=self.folder, stdout=log, stderr=log)

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def processes(self, text: str = "") -> list[int]:
        """Return the processes of this machine whose command contains `text`."""
        listed = subprocess.run(
            ["ip", "netns", "pids", self.name], check=True, capture_output=True, text=True
        )
        pids = map(int, listed.stdout.split())
        return [pid for pid in pids if text.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def send(self, number: int, text: str = "") -> None:
        """Send a signal to the processes whose command contains `text`."""
        for pid in self.processes(text):
            os.kill(pid, number)


@contextmanager
def connected(folders: Sequence[Path]) -> Iterator[list[Machine]]:
    """Two machines that work in these folders, connected by a cable."""
    machines = [
        Machine(name=f"mtkit-{number}", address=f"10.77.0.{number}", folder=folder)
        for number, folder in enumerate(folders, start=1)
    ]
    hosts = "".join(f"{machine.address} {machine.name}\n" for machine in machines)
    try:
        for machine in machines:
            _ip("netns", "add", machine.name)
            (HOSTS / machine.name).mkdir(parents=True)
            (HOSTS / machine.name / "hosts").write_text(f"127.0.0.1 localhost\n{hosts}", "utf-8")
        _ip("link", "add", "mtkit-1", "type", "veth", "peer", "name", "mtkit-2")
        for machine in machines:
            _ip("link", "set", machine.name, "netns", machine.name)
            inside = ("-n", machine.name)
            _ip(*inside, "address", "add", f"{machine.address}/24", "dev", machine.name)
            _ip(*inside, "link", "set", machine.name, "up")
            _ip(*inside, "link", "set", "lo", "up")
        yield machines
    finally:
        for machine in machines:
            machine.send(signal.SIGKILL)
            _ip("netns", "delete", machine.name)
            shutil.rmtree(HOSTS / machine.name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def main() -> None:
    os.environ |= SETTINGS
    with tempfile.TemporaryDirectory(prefix="mtkit-machines-") as temporary:
        prepared = Path(temporary) / "prepared"
        write_prepared_run(prepared)
        single = copy_of(prepared, "single")
        subprocess.run(
            [sys.executable, "-m", *TRAIN, "--set", "training.ranks=2"], cwd=single, check=True
        )
        expected = identity(single)
        folder = copy_of(prepared, "whole")
        print(f"run to the end: {train(folder, folder)}, {equality(folder, expected)}")
        for victim, text in (("a process", "-u\0-m\0mtkit"), ("a machine", "")):
            folder = copy_of(prepared, victim)
            ended = train(folder, folder, victim=text)
            print(f"{victim} killed: {ended}, {equality(folder, expected)}")
        folder = copy_of(prepared, "stopped")
        print(f"all stopped: {stop(folder)}")
        print(f"  run again: {train(folder, folder)}, {equality(folder, expected)}")
        first, second = copy_of(prepared, "first"), copy_of(prepared, "second")
        print(f"run directory not shared: {train(first, second)}")
        for place in (first, second):
            (message,) = {line for line in log_of(place) if line.startswith("process 1 does not")}
            assert not (place / "run" / "checkpoints").exists()
        print(f"  {message}")


def write_prepared_run(folder: Path) -> None:
    """Write a run that lacks only the training to a new folder."""
    write_run(folder, SMALL)
    file = folder / "mtkit.yaml"
    config = json.loads(file.read_text(encoding="utf-8"))
    config |= {"run": "run", "training": {**TRAINING, "device": "cpu"}}
    file.write_text(json.dumps(config), encoding="utf-8")
    for stage in ("train-spm", "batch"):
        subprocess.run(mtkit(stage, "-q"), cwd=folder, check=True)


def copy_of(prepared: Path, name: str) -> Path:
    return Path(shutil.copytree(prepared, prepared.with_name(name)))


def train(first: Path, second: Path, victim: str | None = None) -> str:
    """Train on two machines, and say how long it took.

    `victim`: kill the processes of the second machine whose command contains this text, when there
    is a checkpoint, and start the agent again if it is among them.
    """
    with connected([first, second]) as machines:
        start = time.monotonic()
        agents = [machine.start() for machine in machines]
        if victim is None:
            resumed = ""
        else:
            checkpoint = wait_for_checkpoint(first, KILL_STEP, agents)
            killed = time.monotonic()
            machines[1].send(signal.SIGKILL, victim)
            if not victim:
                agents[1].wait()
                agents[1] = machines[1].start()
            # No step is lost that has a checkpoint, so the next one is new.
            wait_for_checkpoint(first, f"{checkpoint}~", agents)
            resumed = f", next checkpoint {time.monotonic() - killed:.0f} s after the kill"
        codes = [agent.wait() for agent in agents]
        return f"exit codes {codes} after {time.monotonic() - start:.0f} s{resumed}"


def stop(folder: Path) -> str:
    """Train on two machines until all their processes get SIGTERM, and say how they ended."""
    with connected([folder, folder]) as machines:
        agents = [machine.start() for machine in machines]
        wait_for_checkpoint(folder, KILL_STEP, agents)
        start = time.monotonic()
        for machine in machines:
            machine.send(signal.SIGTERM)
        codes = [agent.wait() for agent in agents]
        seconds = time.monotonic() - start
        return f"exit codes {codes} after {seconds:.0f} s, with {last_checkpoint(folder)}"


def wait_for_checkpoint(folder: Path, least: str, agents: Sequence[subprocess.Popen[bytes]]) -> str:
    """Wait until there is a checkpoint from `least` on, or all agents have ended; return it."""
    while last_checkpoint(folder) < least and any(agent.poll() is None for agent in agents):
        time.sleep(0.01)
    return last_checkpoint(folder)


def last_checkpoint(folder: Path) -> str:
    return max((path.name for path in (folder / "run/checkpoints").glob("step-*")), default="")


def identity(folder: Path) -> str:
    return open_artifact(folder / "run/model", "model").identity


def equality(folder: Path, expected: str) -> str:
    if not (folder / "run/model").exists():
        return "no model:\n" + "\n".join(log_of(folder)[-5:])
    return "same bits" if identity(folder) == expected else "OTHER BITS"


def log_of(folder: Path) -> list[str]:
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.log"))]
    return "".join(texts).splitlines()


if __name__ == "__main__":
    main()
