"""How many processes train, and how they share a step."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from pathlib import Path
from threading import Event

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from pytest import MonkeyPatch
from torch.testing._internal.distributed.fake_pg import FakeStore

from folders import tokenizer_in
from mtkit import pipeline
from mtkit.batching.build import build_batches, open_batches
from mtkit.batching.plan import plan_epoch
from mtkit.config.settings import Config
from mtkit.errors import HOW_TO_CONTINUE, Interrupted, UserError
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.tokenizer.train_spm import train_tokenizer
from mtkit.training import processes
from mtkit.training.batch import EMPTY_BATCH
from mtkit.training.checkpoints import recorded_processes
from mtkit.training.data import Position, Stream, load_batch, shard
from mtkit.training.finish import finish
from mtkit.training.launcher import start_processes
from mtkit.training.process_group import (
    SINGLE_PROCESS,
    ProcessGroup,
    TorchProcessGroup,
    connect_processes,
)
from mtkit.training.processes import count_processes
from mtkit.training.state import new_state
from mtkit.training.step import accumulate_gradients, train_step
from mtkit.training.train import train
from tasks import Capture, Fresh, tiny_config


class One(ProcessGroup):
    """One of several processes, without any communication."""

    def __init__(self, index: int, count: int) -> None:
        self.rank, self.size = index, count


def interrupt_launcher() -> None:
    """Send Ctrl-C to the launcher, and wait until it is passed on."""
    if os.environ["RANK"] == "0":
        os.kill(os.getppid(), signal.SIGINT)
    while True:
        Event().wait(0.1)


@pytest.mark.slow
def test_processes_that_are_stopped_with_nothing_to_save_say_how_to_continue() -> None:
    with pytest.raises(Interrupted) as interruption:
        start_processes(interrupt_launcher, 2)
    assert interruption.value.exit_code == 130
    assert str(interruption.value) == HOW_TO_CONTINUE


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 6), st.integers(1, 7))
def test_the_sentences_of_a_step_do_not_depend_on_the_number_of_processes(
    sizes: list[int], accumulate: int, count: int
) -> None:
    ends = np.cumsum(sizes)
    batches = [np.arange(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    batches = batches[:accumulate]
    parts = [shard(batches, accumulate, One(index, count)) for index in range(count)]
    rows = np.concatenate([part for of_rank in parts for part in of_rank])
    assert sorted(rows) == sorted(np.concatenate(batches))
    if len(batches) == accumulate:  # as in all updates of an epoch but the last
        assert {len(of_rank) for of_rank in parts} == {accumulate // math.gcd(accumulate, count)}
        halves = [len(part) for of_rank in parts for part in of_rank]
        assert sum(halves) == sum(sizes[:accumulate])


@pytest.mark.parametrize("kind", ["transformer", "seq2seq"])
@pytest.mark.parametrize("count", [2, 3])
def test_gradients_of_the_parts_add_up_to_that_of_the_whole_batch(
    kind: str, count: int, prepared: Path
) -> None:
    config = tiny_config(prepared, kind)
    store = open_batches(prepared / "run" / "batches").train
    rows = plan_epoch(store.lengths, max_tokens=256, seed=1, epoch=0)[0]
    state = new_state(EncoderDecoder(config.model, 60, 60), config.training)
    state.model.eval()  # dropout is drawn for each part

    def gradient(group: ProcessGroup) -> tuple[torch.Tensor, float]:
        batches = [load_batch(store, part) for part in shard([rows], 1, group)]
        sums = accumulate_gradients(state, batches, len(rows), config.seed, group)
        gradients = state.gradients.flat.clone()
        state.gradients.clear()
        return gradients, float(sums.smoothed)

    whole, loss = gradient(SINGLE_PROCESS)
    parts, losses = zip(*(gradient(One(index, count)) for index in range(count)), strict=True)
    torch.testing.assert_close(sum(parts), whole, rtol=1e-3, atol=1e-5)
    assert sum(losses) == pytest.approx(loss, rel=1e-5)


def test_a_process_without_a_sentence_adds_nothing(prepared: Path) -> None:
    config = tiny_config(prepared, "transformer")
    state = new_state(EncoderDecoder(config.model, 20, 20), config.training)
    sums = accumulate_gradients(state, [EMPTY_BATCH], 5, config.seed, SINGLE_PROCESS)
    assert (sums.losses.tolist(), float(sums.tokens)) == ([0, 0], 5)
    for parameter in state.model.parameters():
        assert parameter.grad is not None  # or the other ranks would wait for it
        assert not parameter.grad.any()


@pytest.fixture
def eight(monkeypatch: MonkeyPatch) -> None:
    """A machine with eight cores, and plenty of memory."""
    monkeypatch.setattr(processes, "count_devices", lambda device: 8)
    monkeypatch.setattr(processes, "memory_limit_bytes", lambda: 1e12)


def started(config: Config) -> int:
    return count_processes(config, tokenizer_in(Path(config.run) / "tokenizer"))


@pytest.mark.usefixtures("eight")
def test_training_ranks_torchrun_and_slurm_override_the_number_of_processes(
    fresh: Fresh, monkeypatch: MonkeyPatch, capsys: Capture
) -> None:
    large = fresh("transformer", batching={"max_tokens": 2048})
    assert started(large) == 4
    assert started(fresh("transformer")) == 1
    assert started(fresh("transformer", training={"accumulate": 12})) == 6
    assert started(fresh("transformer", training={"ranks": 5})) == 5
    with monkeypatch.context() as patch:
        patch.setattr(processes, "memory_limit_bytes", lambda: 3.0 * processes.PROCESS_BYTES)
        assert started(large) == 2
        patch.setattr(processes, "WEIGHTS_PER_TOKEN", 1)  # a large model
        assert started(large) == 1
    for name, value in {"WORLD_SIZE": "1", "SLURM_NTASKS": "2"}.items():
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert started(large) == 1
    with monkeypatch.context() as patch:
        patch.setenv("RANK", "3")  # of another program, as WORLD_SIZE is missing
        assert started(large) == 4
    monkeypatch.setenv("SLURM_NTASKS", "")
    assert started(large) == 4
    five = fresh("transformer", training={"ranks": 5})
    monkeypatch.setenv("SLURM_NTASKS", "2")
    assert started(five) == 5
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert started(five) == 1
    assert "training.ranks is 5, but torchrun started 2" in capsys.readouterr().err
    assert started(fresh("transformer", training={"ranks": 2})) == 1
    assert not capsys.readouterr().err
    monkeypatch.delenv("WORLD_SIZE")
    monkeypatch.setattr(processes, "pick_device", lambda _: torch.device("cuda"))
    with pytest.raises(UserError, match=r"training.ranks is 9, but .* is 8"):
        started(fresh("transformer", training={"ranks": 9}))


@pytest.mark.usefixtures("eight")
def test_a_step_of_auto_has_one_batch_for_each_process(fresh: Fresh) -> None:
    auto = {"accumulate": "auto"}
    assert started(fresh("transformer", training=auto, batching={"max_tokens": 512})) == 8
    assert started(fresh("transformer", training=auto, batching={"max_tokens": 256})) == 1
    config = fresh("transformer", training=auto)
    data = open_batches(Path(config.run) / "batches")
    for count in (1, 3):
        streams = [Stream(config, data, One(index, count)) for index in range(count)]
        steps = [next(stream.steps(Position())) for stream in streams]
        assert [len(step.batches) for step in steps] == [1] * count
        assert sum(step.batches[0].target_tokens for step in steps) == steps[0].tokens
        rows = np.concatenate(streams[0].plan(Position())[:count])
        assert steps[0].tokens == (data.train.lengths[rows, 1] + 1).sum()


@pytest.mark.usefixtures("eight")
@pytest.mark.parametrize(("accumulate", "count"), [(1, 4), (2, 8), ("auto", 8)])
def test_no_gpu_gets_less_than_a_quarter_of_a_batch(
    accumulate: int | str, count: int, fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "pick_device", lambda _: torch.device("cuda"))
    training = {"accumulate": accumulate}
    assert started(fresh("transformer", training=training, batching={"max_tokens": 8192})) == count


def test_a_run_with_auto_resumes_only_with_as_many_processes(
    fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    config = fresh("transformer", training={"accumulate": "auto", "ranks": 1, "steps": 3})
    train(config)
    longer = fresh("transformer", training={"accumulate": "auto", "ranks": 1, "steps": 6})
    monkeypatch.setattr(ProcessGroup, "size", 2)
    with pytest.raises(UserError, match=r"accumulate: auto was 1 batch per step, now 2"):
        train(longer)


@pytest.mark.parametrize("accumulate", [1, "auto"])
def test_the_last_of_64_processes_makes_a_step_and_sends_its_gradients_once(
    accumulate: int | str, fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    """Torch's "fake" processes exchange nothing."""
    sent: list[int] = []
    monkeypatch.setattr(dist, "all_reduce", lambda tensor: sent.append(tensor.nbytes))
    dist.init_process_group("fake", rank=63, world_size=64, store=FakeStore())
    try:
        group = TorchProcessGroup(torch.device("cpu"))
        config = fresh("transformer", training={"accumulate": accumulate})
        stream = Stream(config, open_batches(Path(config.run) / "batches"), group)
        state = new_state(EncoderDecoder(config.model, 60, 60), config.training)
        data = next(stream.steps(Position()))
        assert len(data.batches) == 1
        seed = config.seed
        train_step(state, data.batches, data.tokens, 0.1, seed=seed, clip_norm=1.0, group=group)
        state.read_figures()
        assert (state.progress.step, state.progress.window.tokens) == (1, data.tokens)
        gradients, losses = sent
        assert gradients == state.gradients.flat.nbytes
        assert losses < 64
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("name", ["WORLD_SIZE", "SLURM_NTASKS"])
def test_a_number_of_processes_that_is_no_number_is_an_error(
    name: str, fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "abc")
    with pytest.raises(UserError, match=f"^{name}: 'abc' is not a number of processes"):
        train(fresh("transformer"))


@pytest.mark.parametrize("command", [train_tokenizer, build_batches, pipeline.run, finish])
def test_only_training_runs_in_several_processes(
    command: Callable[[Config], object], fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    config = fresh("transformer")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="started 2 processes, but only `mtkit train` can use"):
        command(config)
    monkeypatch.setenv("WORLD_SIZE", "1")
    if command is finish:
        train(config)
    command(config)


@pytest.mark.usefixtures("eight")
def test_a_run_resumes_with_as_many_processes_as_before(fresh: Fresh, capsys: Capture) -> None:
    config = fresh("transformer", training={"steps": 2})
    train(config)
    folder = Path(config.run) / "checkpoints"
    assert recorded_processes(folder) == 1
    longer = fresh("transformer", batching={"max_tokens": 4096})
    assert started(longer) == 1
    for manifest in folder.glob("step-*/manifest.json"):
        manifest.write_text(manifest.read_text().replace('"processes": 1', '"processes": 20'))
    assert started(longer) == 8
    capsys.readouterr()
    train(fresh("transformer", training={"steps": 3, "ranks": 1}))
    assert "with 1 process instead of 20" in capsys.readouterr().err


def test_a_rank_that_is_no_rank_of_the_group_is_refused(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with (
        pytest.raises(UserError, match="RANK is 5, but must be below WORLD_SIZE"),
        connect_processes(torch.device("cpu")),
    ):
        pass
