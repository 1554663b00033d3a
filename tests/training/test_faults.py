"""After NaN, out of memory and damage a run continues exactly, or ends with a clear message."""

from __future__ import annotations

import math
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from pytest import MonkeyPatch

from mtkit.artifacts.manifest import open_artifact
from mtkit.artifacts.recipe import Recipe
from mtkit.artifacts.runs import checkpoint_steps
from mtkit.artifacts.stage import Stage
from mtkit.batching.store import Store
from mtkit.config.settings import Config, TrainingSettings
from mtkit.errors import Interrupted, MtkitError, UserError
from mtkit.models.device import Precision
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.weights import get_weights
from mtkit.training.batch import Batch
from mtkit.training.checkpoints import Checkpoints
from mtkit.training.data import Position, Stream
from mtkit.training.finish import finish
from mtkit.training.journal import Journal
from mtkit.training.loss import Loss, TrainingLoss
from mtkit.training.metrics_log import MetricsLog
from mtkit.training.setup import open_inputs
from mtkit.training.state import TrainState, Validation, new_state
from mtkit.training.step import train_step
from mtkit.training.train import halve_if_too_large, train
from steps import draw_pairs, pack, update
from tasks import Capture, Fresh, tiny_config

both = pytest.mark.parametrize("kind", ["transformer", "seq2seq"])
SAVED_OFTEN = {"steps": 12, "save_every": 3}


def checkpoints_in(folder: Path) -> Checkpoints:
    return Checkpoints(Stage("checkpoint", folder, Recipe({}), {}), lambda folder: None, 1)


def state_of(config: Config, precision: Precision = "float32") -> TrainState:
    torch.manual_seed(1)
    return new_state(EncoderDecoder(config.model, 20, 20), config.training, precision)


BATCH = pack(draw_pairs([(1, 3), (2, 2), (3, 1), (4, 4)], vocab=20))


def poison(monkeypatch: MonkeyPatch, when: Callable[[TrainingLoss], bool]) -> None:
    """Make the loss NaN whenever `when` returns True."""
    forward = TrainingLoss.forward

    def poisoned(self: TrainingLoss, batch: Batch) -> Loss:
        loss = forward(self, batch)
        factor = math.nan if when(self) else 1.0
        return replace(loss, smoothed=loss.smoothed * factor, nll=loss.nll * factor)

    monkeypatch.setattr(TrainingLoss, "forward", poisoned)


def poison_three_steps(monkeypatch: MonkeyPatch) -> None:
    """Make the losses of steps 8 to 10 NaN, after which a run rolls back."""
    monkeypatch.setattr("mtkit.training.train.MAX_SKIPPED", 3)
    calls = iter(range(1000))
    poison(monkeypatch, lambda self: self.training and next(calls) in {7, 8, 9})


@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("done", [0, 2], ids=["first", "third"])
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon", "sgd", "momentum"])
def test_a_step_that_is_not_finite_is_as_if_it_had_never_been(
    optimizer: str, done: int, where: str, monkeypatch: MonkeyPatch
) -> None:
    kind = {"kind": "sgd", "momentum": 0.9} if optimizer == "momentum" else {"kind": optimizer}
    settings = {"optimizer": kind | {"weight_decay": 0.1}}
    config = tiny_config(Path(), "transformer", model={"dropout": 0.0}, training=settings)
    state, other = state_of(config), state_of(config)
    for _ in range(done):
        update(state, [BATCH], config, 0.1)
        update(other, [BATCH], config, 0.1)
    with monkeypatch.context() as patch:
        poison(patch, lambda _: where == "loss")
        hook = state.model.output_weight.register_hook(lambda grad: grad / (where == "loss"))
        assert update(state, [BATCH], config, 0.1).tokens == 0
        hook.remove()
    progress = state.progress
    assert (progress.skipped, progress.skipped_in_a_row, progress.step) == (1, 1, done + 1)
    assert update(state, [BATCH], config, 0.1) == update(other, [BATCH], config, 0.1)
    assert (progress.skipped, progress.skipped_in_a_row, progress.step) == (1, 0, done + 2)
    assert progress.most_skipped_in_a_row == 1
    ours, theirs = (
        (get_weights(it.model), it.optimizer.state_dict()["state"]) for it in (state, other)
    )
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@both
def test_a_diverged_run_rolls_back_and_lowers_the_learning_rate(
    kind: str, fresh: Fresh, monkeypatch: MonkeyPatch, capsys: Capture
) -> None:
    poison_three_steps(monkeypatch)
    train(fresh(kind, training={"log_every": 1}))
    output = capsys.readouterr().err
    assert "diverged" in output
    assert "rolled back to step 6, at 0.5" in output
    log = [r for r in MetricsLog(Path("run")).read() if r["kind"] == "train"]
    assert [record["step"] for record in log] == list(range(1, 13))  # none twice
    rates = {record["step"]: record["learning_rate"] for record in log}
    assert rates[6] == pytest.approx(0.01 * math.sqrt(4 / 6))
    assert rates[7] == pytest.approx(0.5 * 0.01 * math.sqrt(4 / 7))


def test_a_roll_back_removes_later_checkpoints(fresh: Fresh, monkeypatch: MonkeyPatch) -> None:
    """Otherwise the run would end, or resume, with diverged weights."""
    poison_three_steps(monkeypatch)
    add = Journal.add

    def stopped_after_going_back(self: Journal, tokens: int) -> None:
        add(self, tokens)
        if self.state.progress.rate_scale < 1:
            signal.raise_signal(signal.SIGTERM)

    config = fresh("transformer", training={"save_every": 2, "keep": 9})
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(Journal, "add", stopped_after_going_back)
        train(config)
    assert checkpoint_steps(Path("run/checkpoints")) == [2, 4, 6, 7]
    assert finish(config).report["steps"] == 7


@pytest.mark.slow
@pytest.mark.parametrize("keep", [1, 5])
def test_a_run_rolls_back_to_before_the_skipped_steps(
    keep: int, fresh: Fresh, monkeypatch: MonkeyPatch, capsys: Capture
) -> None:
    """Checkpoints of skipped steps hold the weights that caused them.

    However few are kept, that one is.
    """
    poison_three_steps(monkeypatch)
    train(fresh("transformer", training={"save_every": 1, "keep": keep}))
    assert "rolled back to step 7, at 0.5" in capsys.readouterr().err


def test_weights_with_a_loss_of_nan_never_become_a_model(
    fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    """The last steps diverge, too few for a roll-back."""
    sound = fresh("transformer", training={"average": 1, "best_by": "loss", "validate_every": 6})
    with monkeypatch.context() as patch:
        calls = iter(range(1000))
        poison(patch, lambda self: not self.training and next(calls) > 2)
        assert train(sound).report["weights"] == "best checkpoint"
    poison(monkeypatch, lambda self: not self.training)
    with pytest.raises(MtkitError, match=r"training diverged: .* nan"):
        train(fresh("transformer", "other"))
    assert not Path("other/model").exists()


def test_a_run_that_diverges_at_every_rate_ends_with_an_error(
    fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    calls = iter(range(1000))
    poison(monkeypatch, lambda self: self.training and next(calls) > 6)
    with pytest.raises(MtkitError, match=r"diverged .*\(epoch 1\): 6 steps .* rate of 9\.02e-05"):
        train(fresh("transformer", training={"steps": 40}))
    with pytest.raises(MtkitError, match="5 steps in a row"):  # before its first checkpoint
        train(fresh("transformer", "early"))


def out_of_memory_above(tokens: int, monkeypatch: MonkeyPatch) -> None:
    forward = TrainingLoss.forward

    def bounded(self: TrainingLoss, batch: Batch) -> Loss:
        loss = forward(self, batch)
        if batch.target_tokens > tokens:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return loss

    monkeypatch.setattr(TrainingLoss, "forward", bounded)


@both
def test_a_batch_too_large_for_memory_is_split_and_gives_the_same_step(
    kind: str, fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    config = fresh(kind, model={"dropout": 0.0}, training={"accumulate": 2})
    inputs = open_inputs(config)
    data = next(Stream(config, inputs.data).steps(Position()))
    step = partial(train_step, tokens=data.tokens, rate=0.1, seed=config.seed, clip_norm=1.0)
    states = []
    for limit in (256, 160):
        state = new_state(inputs.initial_state().model.double(), config.training)
        out_of_memory_above(limit, monkeypatch)
        halve_if_too_large(partial(step, state), data)
        state.read_figures()
        states.append(state)
    whole, split = states
    assert whole.progress.window.tokens == split.progress.window.tokens == data.tokens
    assert whole.progress.window.nll == pytest.approx(split.progress.window.nll)
    for a, b in zip(whole.model.parameters(), split.model.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_a_run_continues_with_halves_of_batches_too_large_for_memory(
    fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    out_of_memory_above(160, monkeypatch)
    train(fresh("transformer"))
    log = [r for r in MetricsLog(Path("run")).read() if r["kind"] == "train"]
    assert log[-1]["step"] == 12


def test_out_of_memory_even_with_halves_saves_the_state_and_ends(
    fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    train(fresh("transformer", "whole"))
    calls = iter(range(1000))
    with monkeypatch.context() as patch:
        forward = TrainingLoss.forward

        def refused(self: TrainingLoss, batch: Batch) -> Loss:
            if self.training and next(calls) > 7:
                raise MemoryError
            return forward(self, batch)

        patch.setattr(TrainingLoss, "forward", refused)
        with pytest.raises(MtkitError, match=r"out of memory at step 9.*batching\.max_tokens"):
            train(fresh("transformer"))
    assert Path("run/checkpoints/step-00000008/manifest.json").exists()
    train(fresh("transformer"))
    one, other = (
        (
            open_artifact(run / "model", "model").identity,
            [r["loss"] for r in MetricsLog(run).read()],
        )
        for run in (Path("run"), Path("whole"))
    )
    assert one == other


REFUSED = """
import resource, sys
from pathlib import Path
from mtkit.config.yaml import load_config
from mtkit.training.train import train
from mtkit.training.journal import Journal

begin = Journal.__init__

def bounded(self, *run):
    begin(self, *run)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20), resource.RLIM_INFINITY))

Journal.__init__ = bounded
try:
    train(load_config(Path(sys.argv[1])))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits are Linux's")
def test_an_allocation_refused_by_the_system_ends_the_run(fresh: Fresh, tmp_path: Path) -> None:
    deep = {"d_model": 128, "ffn": 512, "heads": 2, "layers": 8}
    config = fresh("transformer", model=deep, batching={"max_tokens": 4096})
    (tmp_path / "config.yaml").write_text(config.model_dump_json(), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", REFUSED, str(tmp_path / "config.yaml")],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert "out of memory at step 1" in done.stdout, done.stdout + done.stderr


def damage(file: Path, how: str) -> None:
    content = bytearray(file.read_bytes())
    if how == "truncated":
        file.write_bytes(content[: len(content) // 2])
    elif how == "missing":
        file.unlink()
    else:
        content[-1] ^= 1
        file.write_bytes(content)


@pytest.fixture(scope="module")
def half_done(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, `run`, as it was two steps before the end of `whole`."""
    folder = tmp_path_factory.mktemp("half_done")
    with MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, steps in (("whole", 12), ("run", 10)):
            shutil.copytree(prepared / "run", folder / name)
            config = tiny_config(prepared, "transformer", training=SAVED_OFTEN | {"steps": steps})
            train(config.model_copy(update={"run": name}))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("how", ["flipped", "truncated", "missing"])
@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_a_damaged_checkpoint_is_named_and_the_previous_one_used(
    how: str, name: str, half_done: Path, fresh: Fresh, tmp_path: Path, capsys: Capture
) -> None:
    for run in ("run", "whole"):
        shutil.copytree(half_done / run, tmp_path / run)
    damage(Path("run/checkpoints/step-00000010") / name, how)
    train(fresh("transformer", training=SAVED_OFTEN))
    output = capsys.readouterr().err
    assert f"step-00000010/{name}" in output
    assert "resuming after step 9" in output
    weights = [Path(f"{run}/checkpoints/step-00000012/{name}") for run in ("run", "whole")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_a_run_with_only_damaged_checkpoints_is_an_error(fresh: Fresh) -> None:
    train(fresh("transformer"))
    for file in Path("run/checkpoints").glob("step-*/state.json"):
        damage(file, "flipped")
    with pytest.raises(UserError, match="every checkpoint is damaged"):
        train(fresh("transformer", training={"steps": 20}))


def test_a_validation_pair_over_max_tokens_is_refused_before_training(
    fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    config = fresh("transformer")
    inputs = open_inputs(config)
    longer = replace(inputs.data, valid=Mock(spec=Store, lengths=np.array([[5, 300]])))
    loop = sys.modules["mtkit.training.train"]
    monkeypatch.setattr(loop, "open_inputs", lambda _: replace(inputs, data=longer))
    with pytest.raises(UserError, match=r"max_tokens: 256 is less than the longest sentence \(301"):
        train(config)
    assert not list(Path("run").glob("checkpoints/step-*"))


def test_pruning_never_prefers_damaged_checkpoints_of_later_steps(
    fresh: Fresh, tmp_path: Path
) -> None:
    checkpoints, state = (checkpoints_in(tmp_path / "kept"), state_of(fresh("transformer")))
    for state.progress.step in (2, 4, 6):
        checkpoints.save(state)
    for step in (4, 6):
        damage(checkpoints.path(step) / "state.json", "flipped")
    assert checkpoints.load_last(state)
    assert state.progress.step == 2
    state.progress.step = 3
    checkpoints.save(state)
    settings = TrainingSettings(steps=6, keep=1, average=1, best_by="loss")
    checkpoints.prune(state.progress, settings, 6)
    assert checkpoints.steps() == [3, 4, 6]
    assert checkpoints.load_last(state)
    assert state.progress.step == 3


def test_progress_is_restored_exactly_even_infinite_values(fresh: Fresh, tmp_path: Path) -> None:
    checkpoints = checkpoints_in(tmp_path / "kept")
    state, other = (state_of(fresh("transformer")) for _ in range(2))
    state.progress.step, state.progress.window.nll = 4, 1 / 3
    state.progress.validations += [
        Validation(2, math.inf, 1.5, 1e-7, 2.0),
        Validation(4, 3.5, 33.0),
    ]
    checkpoints.save(state)
    assert checkpoints.load_last(other)
    assert other.progress == state.progress


def test_moments_without_a_parameter_or_of_another_shape_are_refused(
    fresh: Fresh, tmp_path: Path
) -> None:
    state, other = (state_of(fresh("transformer")) for _ in range(2))
    state.progress.step = 4
    first = next(state.model.parameters())
    owners: dict[str, Any] = {"unexpected shape": first, "no parameter": 9999}
    for problem, owner in owners.items():
        checkpoints = checkpoints_in(tmp_path / problem)
        state.optimizer.state.clear()
        state.optimizer.state[owner]["exp_avg"] = torch.zeros(())
        checkpoints.save(state)
        with pytest.raises(UserError, match=problem):
            checkpoints.load_last(other)


def test_partial_checkpoints_are_removed_when_a_run_resumes(fresh: Fresh) -> None:
    train(fresh("transformer", training={"steps": 12}))
    checkpoints = Path("run/checkpoints")
    index = (checkpoints / "checkpoints.json").read_bytes()
    names = sorted(path.name for path in checkpoints.iterdir())
    last = checkpoints / "step-00000012"
    shutil.copytree(last, checkpoints / ".step-00000007.partial")
    shutil.copytree(checkpoints / "step-00000010", checkpoints / "step-00000001")  # not yet pruned
    (checkpoints / "checkpoints.json").write_text("{}")
    shutil.rmtree("run/model")
    train(fresh("transformer", training={"steps": 12}))
    assert sorted(path.name for path in checkpoints.iterdir()) == names
    assert (checkpoints / "checkpoints.json").read_bytes() == index
