"""The scripts of the guide to several machines run, on stubs of Slurm, and do what they say."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from torch.distributed.run import get_args_parser

import mtkit

PAGE = (Path(mtkit.__file__).parent / "guide/machines.md").read_text(encoding="utf-8")
SCRIPTS = dict(re.findall(r"```sh\n(?=#!/bin/bash -e\n# (\S+): )(.*?)```", PAGE, re.DOTALL))
STUBS = Path(__file__).with_name("cluster")
"""A folder of stubs of Slurm and torchrun."""


class Cluster:
    """A folder in which a script runs with the stubs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *command: str) -> list[list[str]]:
        """Run a command; return the words of each call of mtkit or torchrun, in order."""
        variables = {"PATH": f"{STUBS}:{os.environ['PATH']}", "CLUSTER": str(self.folder)}
        ended = subprocess.run(
            command, cwd=self.folder, env=os.environ | variables, capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stderr
        assert not (self.folder / "failed").exists(), ended.stderr
        record = (self.folder / "record").read_text(encoding="utf-8")
        return [line.split() for line in record.splitlines()]


def check_training(script: str, cluster: Cluster) -> None:
    """Two machines, each with one torchrun for all its GPUs, meet at the first of them."""
    (cluster.folder / "train.sbatch").write_text(script, encoding="utf-8")
    calls = cluster.run("sbatch", "train.sbatch")
    assert [node for node, *_ in calls] == ["node7", "node8"]
    for _, *arguments in calls:
        options = get_args_parser().parse_args(arguments)
        assert (options.nnodes, options.nproc_per_node) == ("2", "gpu")
        assert (options.rdzv_backend, options.rdzv_id) == ("c10d", "100")
        assert options.rdzv_endpoint == "node7:29500"
        assert (options.module, options.training_script) == (True, "mtkit")
        assert options.training_script_args == ["train", "-c", "mtkit.yaml"]


CHECKS: dict[str, Callable[[str, Cluster], None]] = {"train.sbatch": check_training}
MISTAKES = [
    ("train.sbatch", "head -n 1", "tail -n 1"),
    ("train.sbatch", "--ntasks-per-node 1", "--ntasks-per-node 2"),
    ("train.sbatch", '"$SLURM_NNODES"', "1"),
]
"""Mistakes that somebody could make in a script: what would be replaced by what."""


def test_the_guide_has_these_scripts() -> None:
    assert set(SCRIPTS) == set(CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_a_script_does_what_it_says(name: str, tmp_path: Path) -> None:
    CHECKS[name](SCRIPTS[name], Cluster(tmp_path))


@pytest.mark.parametrize(("name", "text", "mistake"), MISTAKES)
def test_a_mistake_in_a_script_fails_its_test(
    name: str, text: str, mistake: str, tmp_path: Path
) -> None:
    assert SCRIPTS[name].count(text) == 1
    with pytest.raises((AssertionError, ValueError, SystemExit)):
        CHECKS[name](SCRIPTS[name].replace(text, mistake), Cluster(tmp_path))
