"""The training step, checkpoints and the loop: exact per token, exact after interruptions."""

from __future__ import annotations

import json
import math
import shutil
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import wait
from copy import deepcopy
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import safetensors.torch
import torch
from pydantic import ValidationError
from pytest import MonkeyPatch
from torch import nn
from torch.nn.functional import cross_entropy

from folders import tokenizer_in
from mtkit import pipeline
from mtkit.artifacts.manifest import Artifact, open_artifact
from mtkit.artifacts.recipe import meaning_recipe
from mtkit.batching.build import build_batches
from mtkit.config.base import flattened
from mtkit.config.model import EncoderDecoderSettings, Seq2SeqSettings, TransformerSettings
from mtkit.config.settings import Config, Muon
from mtkit.config.yaml import load_config
from mtkit.decoding.engines.batches import SentenceBatch
from mtkit.decoding.engines.engine import NBestLists
from mtkit.decoding.engines.pytorch import PyTorchEngine
from mtkit.errors import Interrupted, MtkitError, SettingError, UserError
from mtkit.models.device import TORCH_DTYPES, Precision
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.weights import get_weights
from mtkit.signals import StopSignals
from mtkit.symbols import PAD
from mtkit.tokenizer.train_spm import train_tokenizer
from mtkit.training import candidates as run_candidates
from mtkit.training import validation as run_validate
from mtkit.training.batch import EMPTY_BATCH, Batch
from mtkit.training.checkpoints import Checkpoints
from mtkit.training.data import load_batch, seed_of
from mtkit.training.metrics_log import MetricsLog
from mtkit.training.optimizers import MuonAndAdam, build_optimizer, step_where
from mtkit.training.setup import TrainingRun, check_origin
from mtkit.training.state import TrainState, Validation, is_stalled, new_state, rank
from mtkit.training.step import train_step
from mtkit.training.train import train
from operations import Operations
from steps import draw_pairs, pack, rectangles, train_until, update
from tasks import Capture, Fresh, tiny_config

both = pytest.mark.parametrize("kind", ["transformer", "seq2seq"])


def state_of(
    config: Config, precision: Precision = "float32", dtype: torch.dtype = torch.float64
) -> TrainState:
    torch.manual_seed(1)
    model = EncoderDecoder(config.model, 20, 20).to(dtype)
    return new_state(model, config.training, precision)


PAIRS = draw_pairs([(2 + index % 3, 1 + index % 4) for index in range(8)], vocab=20)


@pytest.mark.slow
@both
def test_accumulated_micro_batches_equal_one_large_batch(kind: str, fresh: Fresh) -> None:
    config = fresh(kind, model={"dropout": 0.0})
    whole, halves = state_of(config), state_of(config)
    one = update(whole, [pack(PAIRS)], config, 0.1)
    two = update(halves, [pack(PAIRS[:3]), pack(PAIRS[3:])], config, 0.1)
    assert one.tokens == two.tokens
    assert one.nll == pytest.approx(two.nll)
    for a, b in zip(whole.model.parameters(), halves.model.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_the_gradient_is_the_mean_over_target_tokens(fresh: Fresh) -> None:
    config = fresh(
        "transformer",
        model={"dropout": 0.0},
        training={"optimizer": {"kind": "sgd"}, "clip_norm": None, "label_smoothing": 0.0},
    )
    state, (source, target, gold) = state_of(config), rectangles(PAIRS)
    before = deepcopy(get_weights(state.model))
    hidden = state.model(source, source != PAD, target)
    logits = state.model.project(hidden).flatten(0, 1)
    mean = cross_entropy(logits, gold.flatten(), ignore_index=PAD)
    gradients = torch.autograd.grad(mean, list(state.model.parameters()))
    update(state, [pack(PAIRS)], config, 0.5)
    for (name, after), gradient in zip(state.model.named_parameters(), gradients, strict=True):
        torch.testing.assert_close(after, before[name] - 0.5 * gradient)


def test_clipping_bounds_the_step(fresh: Fresh) -> None:
    config = fresh("transformer", training={"optimizer": {"kind": "sgd"}, "clip_norm": 1e-3})
    state = state_of(config)
    before = deepcopy(get_weights(state.model))
    report = update(state, [pack(PAIRS)], config, 1.0)
    moved = [p - before[n] for n, p in state.model.named_parameters()]
    assert report.gradient_norm > 1e-3
    assert math.sqrt(sum(m.pow(2).sum().item() for m in moved)) == pytest.approx(1e-3, rel=1e-3)


def test_every_micro_batch_step_and_seed_has_its_own_dropout(
    fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    drawn: list[int] = []
    config = fresh("transformer", model={"dropout": 0.5})
    for seed in (1, 2):
        state = state_of(config)
        with monkeypatch.context() as patch:
            patch.setattr(torch, "manual_seed", drawn.append)
            for _ in range(2):
                seeded = config.model_copy(update={"seed": seed})
                update(state, [pack(PAIRS)] * 2, seeded, 0.1)
    assert drawn == [seed_of(seed, t, m) for seed in (1, 2) for t in (1, 2) for m in (0, 1)]
    assert len(set(drawn)) == 8


@pytest.mark.parametrize(
    "optimizer",
    [
        {"kind": "adam", "beta1": 0.8, "beta2": 0.95, "eps": 1e-5, "weight_decay": 0.3},
        {"kind": "adamw", "beta1": 0.8, "beta2": 0.95, "eps": 1e-5, "weight_decay": 0.3},
        {"kind": "sgd", "momentum": 0.7, "weight_decay": 0.3},
        {"kind": "muon", "momentum": 0.7, "beta1": 0.8, "beta2": 0.95, "weight_decay": 0.3},
    ],
    ids=lambda optimizer: str(optimizer["kind"]),
)
def test_settings_reach_the_optimizer_and_the_loss(optimizer: dict[str, Any], fresh: Fresh) -> None:
    learning = {"optimizer": optimizer, "label_smoothing": 0.3}
    state = state_of(fresh("transformer", training=learning))
    assert state.loss.smoothing == 0.3
    for group in state.optimizer.param_groups:
        betas = dict(zip(("beta1", "beta2"), group.get("betas", ()), strict=False))
        has = {name: value for name, value in (group | betas).items() if name in optimizer}
        assert has.items() <= optimizer.items()
        assert "weight_decay" in has and {"beta2", "momentum"} & has.keys()


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        ({"kind": "noam"}, [32**-0.5 * min(t**-0.5, t * 4**-1.5) for t in range(1, 13)]),
        (
            {"kind": "cosine", "peak": 0.01},
            [0.0025, 0.005, 0.0075, *(0.005 + 0.005 * math.cos(math.pi * t / 8) for t in range(9))],
        ),
        (
            {"kind": "plateau", "peak": 0.01, "patience": 1, "factor": 0.5},
            [0.0025, 0.005, 0.0075, *[0.01] * 3, *[0.005] * 2, *[0.0025] * 2, *[0.00125] * 2],
        ),
    ],
    ids=lambda it: it["kind"] if isinstance(it, dict) else "",
)
def test_a_run_follows_its_schedule_and_clip_norm(
    schedule: dict[str, Any], rates: list[float], fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    """No validation after the first is a new best."""
    bounds: list[float] = []
    clip = torch.nn.utils.clip_grad_norm_

    def clipped(parameters: Any, bound: float, **how: Any) -> torch.Tensor:
        bounds.append(bound)
        return clip(parameters, bound, **how)

    worse = iter(range(1, 100))
    monkeypatch.setattr(
        "mtkit.training.train.validate",
        lambda run, state, stop: Validation(state.progress.step, next(worse), 0.0, 0.0),
    )
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", clipped)
    settings = {"schedule": schedule, "log_every": 1, "validate_every": 2, "clip_norm": 0.25}
    train(fresh("transformer", training=settings | {"best_by": "step", "average": 1}))
    log = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    logged = [record["learning_rate"] for record in log if record["kind"] == "train"]
    assert logged == pytest.approx(rates)
    assert bounds == [0.25] * 12


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon", "sgd"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_every_optimizer_and_precision_learns(
    optimizer: str, precision: Precision, fresh: Fresh
) -> None:
    config = fresh("transformer", training={"optimizer": {"kind": optimizer}})
    state = state_of(config, precision, torch.float32)
    batch, rate = pack(PAIRS), 0.5 if optimizer == "sgd" else 0.01
    losses = [update(state, [batch], config, rate).nll for _ in range(30)]
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_all_matrix_products_use_the_precision_of_the_run(
    optimizer: str, precision: Precision, fresh: Fresh
) -> None:
    config = fresh("transformer", training={"optimizer": {"kind": optimizer}})
    state = state_of(config, precision, torch.float32)
    products = set()

    def note(name: str, _: Any, result: Any) -> None:
        if name in ("mm", "addmm", "bmm", "baddbmm"):
            products.add(result.dtype)

    with Operations(note):
        update(state, [pack(PAIRS)], config, 0.01)
    assert products == {TORCH_DTYPES[precision]}


WAITING = {"_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "bincount"}
WAITING |= {"_unique2", "unique_dim", "unique_consecutive", "repeat_interleave"}
"""Operations that wait for a GPU, as does an index that is a mask."""


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon", "sgd"])
@both
def test_a_step_never_waits_for_the_device(
    kind: str, optimizer: str, precision: Precision, monkeypatch: MonkeyPatch
) -> None:
    config = tiny_config(Path(), kind, training={"optimizer": {"kind": optimizer}})
    state, waits = state_of(config, precision, torch.float32), set()

    def note(name: str, arguments: Any, _: Any) -> None:
        indices = arguments[1] if name in ("index", "index_put", "index_put_") else ()
        if name in WAITING or any(it is not None and it.dtype == torch.bool for it in indices):
            waits.add(name)

    for copy in ("tolist", "numpy", "cpu"):  # which are no operation on a CPU
        monkeypatch.setattr(torch.Tensor, copy, Mock(side_effect=AssertionError))
    with Operations(note):
        for _ in range(2):
            train_step(state, [pack(PAIRS), EMPTY_BATCH], 30, 0.1, seed=1, clip_norm=1.0)
    assert not waits


@pytest.mark.parametrize("kind", ["adam", "adamw", "sgd"])
def test_a_learning_rate_in_a_tensor_gives_the_same_bits_as_a_float(kind: str) -> None:
    settings = {"kind": kind} | ({"momentum": 0.9} if kind == "sgd" else {})
    config = tiny_config(Path(), "transformer", training={"optimizer": settings})
    model = EncoderDecoder(config.model, 20, 20)
    copies = [nn.Parameter(weight.detach().clone()) for weight in model.parameters()]
    optimizer = build_optimizer(model, config.training.optimizer)
    group = optimizer.param_groups[0]
    names = {"betas", "eps", "weight_decay", "momentum"} & group.keys()
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    theirs: Any = kinds[kind](copies, fused=True, **{name: group[name] for name in names})
    for step in range(1, 4):
        for ours, copy in zip(model.parameters(), copies, strict=True):
            ours.grad = copy.grad = torch.randn_like(copy)
        group["lr"].fill_(0.1 / step)
        theirs.param_groups[0]["lr"] = 0.1 / step
        step_where(torch.tensor(True), optimizer)
        theirs.step()
    assert all(map(torch.equal, model.parameters(), copies))


@pytest.mark.parametrize("kind", ["adam", "adamw", "muon", "sgd"])
def test_a_run_and_its_resumption_do_not_import_the_compiler_of_torch(
    kind: str, fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch._dynamo", None)  # importing it is an error
    config = fresh("transformer", training={"optimizer": {"kind": kind}})
    train_until(config, 2)
    train(config)


@both
def test_muon_updates_matrices_orthogonally_and_the_rest_like_adamw(
    kind: str, fresh: Fresh
) -> None:
    rate, moved = 0.01, {}
    for optimizer in ("muon", "adamw"):
        state = state_of(fresh(kind, training={"optimizer": {"kind": optimizer}}))
        before = deepcopy(get_weights(state.model))
        update(state, [pack(PAIRS)], fresh(kind), rate)
        moved[optimizer] = {n: p.detach() - before[n] for n, p in state.model.named_parameters()}
    for name, ours in moved["muon"].items():
        if ours.dim() == 1 or name == "target_embedding.weight":
            assert torch.equal(ours, moved["adamw"][name])
        else:  # five iterations bring all but the smallest singular values near 1, not to it
            lengths = torch.linalg.svdvals(ours) / (rate * 0.2 * max(ours.shape) ** 0.5)
            assert lengths[0] < 1.5
            assert lengths[5] > 0.6


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_muon_equals_torch_optim_muon(precision: str) -> None:
    torch.manual_seed(3)  # rounding to bfloat16 alone comes near the bound with others
    shapes = [(8, 8), (16, 8), (8, 16), (8, 8)]
    ours = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    theirs = [torch.nn.Parameter(matrix.detach().clone()) for matrix in ours]
    settings = Muon(momentum=0.9, weight_decay=0.1)
    optimizer = MuonAndAdam(ours, [torch.nn.Parameter(torch.zeros(2))], settings, {})
    optimizer.param_groups[0]["lr"] = 0.05
    reference = torch.optim.Muon(
        theirs, lr=0.05, weight_decay=0.1, momentum=0.9, adjust_lr_fn="match_rms_adamw"
    )
    for _ in range(4):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        with torch.autocast("cpu", TORCH_DTYPES[precision], precision != "float32"):
            step_where(torch.tensor(True), optimizer)
        reference.step()  # always in bfloat16
        for a, b in zip(ours, theirs, strict=True):
            assert torch.allclose(a, b, atol=0.002)


def comparable(run: Path) -> dict[str, Any]:
    """Return everything that a run leaves, without times."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    times = {"seconds", "tokens_per_second"}
    return {
        "metrics": [{k: v for k, v in r.items() if k not in times} for r in records],
        "checkpoints": {
            path.parent.name: json.loads(path.read_text())["identity"]
            for path in sorted(run.glob("checkpoints/*/manifest.json"))
        },
        "names": json.loads((run / "checkpoints" / "checkpoints.json").read_text()),
        "model": open_artifact(run / "model", "model", verify=True).identity,
    }


RICH = {
    "accumulate": 2,
    "optimizer": {"kind": "muon"},
    "schedule": {"kind": "plateau", "peak": 0.01, "patience": 1},
    "validate_every": 3,
    "patience": 3,
    "best_by": "loss",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("transformer", signal.SIGINT),
        ("seq2seq", signal.SIGTERM),
        ("transformer-lstm", signal.SIGINT),
        ("lstm-transformer", signal.SIGTERM),
        ("seq2seq", signal.SIGHUP),
    ],
)
def test_an_interrupted_run_is_bitwise_identical_to_an_uninterrupted_one(
    kind: str, number: int, fresh: Fresh
) -> None:
    train(fresh(kind, "whole", training=RICH))
    config = fresh(kind, "broken", training=RICH)
    for step in (5, 7):
        train_until(config, step, number)
    train(config)
    whole, broken = (comparable(Path(f"{run}")) for run in ("whole", "broken"))
    # Where it was interrupted there is one more checkpoint, unless newer ones have replaced it.
    assert whole["metrics"] == broken["metrics"]
    assert whole["names"] == broken["names"]
    assert whole["model"] == broken["model"]
    shared = whole["checkpoints"].keys() & broken["checkpoints"].keys()
    assert f"step-{whole['names']['last']:08d}" in shared
    assert all(whole["checkpoints"][name] == broken["checkpoints"][name] for name in shared)


@pytest.mark.slow
@both
@pytest.mark.parametrize("step", [6, 12])
def test_a_run_whose_validation_failed_resumes_exactly(
    kind: str, step: int, fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    settings = {"save_every": 100, "log_every": 5, "keep": 9}
    train(fresh(kind, "whole", training=settings))

    def fails(run: TrainingRun, state: TrainState, stop: StopSignals) -> Validation:
        if state.progress.step == step:
            raise MtkitError("a process was lost")
        return run_validate.validate(run, state, stop)

    with monkeypatch.context() as patch, pytest.raises(MtkitError, match="a process was lost"):
        patch.setattr("mtkit.training.train.validate", fails)
        train(fresh(kind, "failed", training=settings))
    assert Path(f"failed/checkpoints/step-{step:08d}").is_dir()
    train(fresh(kind, "failed", training=settings))
    assert comparable(Path("failed")) == comparable(Path("whole"))


def test_a_finished_run_is_up_to_date_until_more_steps_are_requested(
    fresh: Fresh, capsys: Capture
) -> None:
    train(fresh("transformer"))
    before = open_artifact(Path("run/model"), "model")
    train(fresh("transformer"))
    assert "up to date" in capsys.readouterr().err
    train(fresh("transformer", training={"steps": 16}))
    assert "resuming after step 12" in capsys.readouterr().err
    longer = open_artifact(Path("run/model"), "model")
    assert longer.report["steps"] == 16
    assert longer.identity != before.identity


@pytest.mark.parametrize("stage", [train_tokenizer, build_batches])
def test_inputs_of_checkpoints_are_not_rebuilt(
    fresh: Fresh, stage: Callable[[Config], Artifact]
) -> None:
    """Without the old batches, neither `train` nor `finish` could resume."""
    train(fresh("transformer"))
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    section = "tokenizer" if stage is train_tokenizer else "batching"
    setting = {"vocab_size": 50} if section == "tokenizer" else {"max_length": 9}
    with pytest.raises(UserError, match=rf"step-00000012 .*\({section}\..*undo this to resume"):
        stage(fresh("transformer", **{section: setting}))
    after = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    assert before == after
    shutil.rmtree("run/checkpoints")
    assert stage(fresh("transformer", **{section: setting}))


@pytest.mark.parametrize("kind", ["inverse_sqrt", "cosine"])
def test_average_and_patience_may_change_and_steps_only_without_cosine(
    fresh: Fresh, kind: str
) -> None:
    def course(**others: Any) -> Config:
        return fresh("transformer", training={"schedule": {"kind": kind, "peak": 1e-3}, **others})

    other = {"average": 2, "patience": 9}
    train(course())
    assert train(course(**other)).manifest["settings"]["training"].items() >= other.items()
    if kind == "cosine":
        with pytest.raises(UserError, match=r"steps was 12, now 16.*training\.init_from=\S+run`"):
            train(course(steps=16, **other))
    else:
        assert train(course(steps=16, **other)).report["steps"] == 16


def test_fewer_steps_than_done_end_an_interrupted_run_with_a_warning(
    fresh: Fresh, capsys: Capture
) -> None:
    by_step = {"best_by": "step", "average": 1, "validate_every": 3}
    train_until(fresh("transformer", training=by_step), 5)
    model = train(fresh("transformer", training=by_step | {"steps": 4}))
    assert model.report["averaged_steps"] == [model.report["steps"]] == [5]
    assert "training.steps is 4, " in capsys.readouterr().err


def test_a_run_of_epochs_ends_after_them(fresh: Fresh) -> None:
    model = train(fresh("transformer", training={"steps": None, "epochs": 2}))
    assert model.report["epochs"] == 2


def test_a_checkpoint_of_other_settings_is_refused(fresh: Fresh) -> None:
    config = fresh("transformer")
    train(config)
    with pytest.raises(UserError, match=r"training\.label_smoothing was 0\.1, now 0\.2"):
        train(fresh("transformer", training={"label_smoothing": 0.2}))
    with pytest.raises(UserError, match=r"model\.d_model was 32, now 16"):
        train(fresh("transformer", model={"d_model": 16}))
    assert load_config(Path(config.run) / "config.yaml") == config  # not those that were refused


def test_weights_files_hold_no_time_path_or_run_name(fresh: Fresh) -> None:
    for run in ("one", "two"):
        train(fresh("transformer", run))
    one, two = (open_artifact(Path(run) / "model", "model") for run in ("one", "two"))
    assert one.manifest["files"] == two.manifest["files"]
    assert one.identity == two.identity


def test_only_the_newest_and_the_best_checkpoints_are_kept(fresh: Fresh) -> None:
    every = {"validate_every": 1, "save_every": 1, "keep": 2, "average": 3, "best_by": "loss"}
    train(fresh("transformer", training=every))
    kept = {int(p.name[5:]) for p in Path("run/checkpoints").glob("step-*")}
    records = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    losses = sorted((r["loss"], r["step"]) for r in records if r["kind"] == "valid")
    assert kept == {11, 12} | {step for _, step in losses[:3]}


def test_early_stopping_waits_for_patience_validations() -> None:
    history = [Validation(step, loss, 1.0) for step, loss in enumerate([3.0, 2.0, 2.5, 2.0, 1.0])]
    assert [is_stalled(history[:n], "loss", 2) for n in range(6)] == [
        False, False, False, False, True, False,
    ]  # fmt: skip
    assert not is_stalled(history[:4], "loss", None)


def test_validations_are_ranked_by_the_criterion_then_by_loss() -> None:
    history = [Validation(1, 2.0, 7.4, bleu=10.0), Validation(2, 3.0, 20.1, bleu=30.0)]
    assert [v.step for v in rank(history, "loss")] == [1, 2]
    assert [v.step for v in rank(history, "bleu")] == [2, 1]
    at_first = [Validation(step, 6.0 - step, 1.0, bleu=0.0) for step in range(4)]
    too_short_for_bleu = [Validation(step, 2.0 + step, 7.4, chrf=10.0 * step) for step in range(4)]
    for better in (at_first, too_short_for_bleu):
        assert [v.step for v in rank(better, "bleu")] == [3, 2, 1, 0]
        assert not is_stalled(better, "bleu", 1)


def interrupt_loss(patch: MonkeyPatch) -> None:
    """Send Ctrl-C before the second batch, and refuse to load a later one."""
    calls = iter(range(100))

    def load_and_interrupt(*arguments: Any) -> Batch:
        call = next(calls)
        assert call < 2, "the validation does not stop"
        if call == 1:
            signal.raise_signal(signal.SIGINT)
        return load_batch(*arguments)

    patch.setattr(run_validate, "load_batch", load_and_interrupt)


def interrupt_search(patch: MonkeyPatch) -> list[bool]:
    """Send Ctrl-C while a search runs, which takes a minute unless it is cancelled.

    Return a list that will hold whether it was cancelled.
    """
    search, cancelled = PyTorchEngine._search, list[bool]()
    has_started = threading.Event()

    def search_long(self: PyTorchEngine, batch: SentenceBatch) -> NBestLists:
        has_started.set()
        deadline = time.monotonic() + 60
        while not batch.is_unwanted and time.monotonic() < deadline:
            time.sleep(0.01)
        cancelled.append(batch.is_unwanted)
        return search(self, batch)

    def interrupt_and_wait(futures: Any, timeout: float) -> Any:
        assert has_started.wait(60)  # a search that has not started would be skipped
        signal.raise_signal(signal.SIGINT)
        return wait(futures, timeout)

    patch.setattr(PyTorchEngine, "_search", search_long)
    patch.setattr(run_validate, "wait", interrupt_and_wait)
    return cancelled


@pytest.mark.slow
@pytest.mark.parametrize("interrupt", [interrupt_loss, interrupt_search])
@pytest.mark.parametrize("step", [6, 12])
def test_ctrl_c_ends_a_validation_which_the_resumed_run_makes_first(
    step: int, interrupt: Callable[[MonkeyPatch], object], fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    validate = run_validate.validate

    def validate_and_interrupt(
        run: TrainingRun, state: TrainState, stop: StopSignals
    ) -> Validation:
        with MonkeyPatch.context() as patch:
            if state.progress.step == step:
                interrupt(patch)
            return validate(run, state, stop)

    small = {"batching": {"max_tokens": 64}, "training": {"save_every": 100, "keep": 9}}
    train(fresh("transformer", "whole", **small))
    with monkeypatch.context() as patch, pytest.raises(Interrupted, match="checkpoint saved"):
        patch.setattr("mtkit.training.train.validate", validate_and_interrupt)
        train(fresh("transformer", "broken", **small))
    log = MetricsLog(Path("broken")).read()
    validated = [record["step"] for record in log if record["kind"] == "valid"]
    assert validated == [6, 12][: step // 6 - 1]
    assert Path(f"broken/checkpoints/step-{step:08d}").is_dir()
    assert not Path("broken/model").exists()
    train(fresh("transformer", "broken", **small))
    assert comparable(Path("broken")) == comparable(Path("whole"))


def test_ctrl_c_ends_the_validation_of_the_mean_at_once(
    fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    validate, cancelled = run_validate.validate, list[bool]()

    def validate_and_interrupt(run: TrainingRun, state: TrainState) -> Validation:
        nonlocal cancelled
        with MonkeyPatch.context() as patch:
            cancelled = interrupt_search(patch)
            return validate(run, state)

    monkeypatch.setattr(run_candidates, "validate", validate_and_interrupt)
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a command may have set its own
    try:
        with pytest.raises(KeyboardInterrupt):
            train(fresh("transformer"))
    finally:
        signal.signal(signal.SIGINT, before)
    assert cancelled == [True]
    assert not Path("run/model").exists()


def test_best_by_step_takes_the_last_weights(fresh: Fresh) -> None:
    worse_and_worse = [Validation(1, 2.0, 7.4, 30.0, 50.0), Validation(2, 3.0, 20.1, 10.0, 20.0)]
    assert [v.step for v in rank(worse_and_worse, "step")] == [2, 1]
    by_step: dict[str, Any] = {"best_by": "step", "average": 1}
    model = train(fresh("transformer", training=by_step | {"validate_every": 5, "keep": 1}))
    assert model.report["averaged_steps"] == [model.report["steps"]] == [12]
    for useless in ({"average": 2}, {"patience": 3}):
        with pytest.raises(ValidationError, match="best_by: step"):
            fresh("transformer", training=by_step | useless)


@pytest.mark.parametrize("is_better", [True, False])
def test_the_average_of_the_best_checkpoints_is_their_mean(
    is_better: bool, fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    def validated(run: TrainingRun, state: TrainState) -> Validation:
        return Validation(state.progress.step, 0.0 if is_better else 99.0, 1.0)

    monkeypatch.setattr(run_candidates, "validate", validated)  # that of the mean alone
    settings = {"best_by": "loss", "validate_every": 3, "average": 2, "keep": 4}
    model = train(fresh("transformer", training=settings))
    log = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    losses = {record["step"]: record["loss"] for record in log if record["kind"] == "valid"}
    best = sorted(losses, key=lambda step: losses[step])[: 2 if is_better else 1]
    assert model.report["averaged_steps"] == best
    average, *averaged = (
        safetensors.torch.load_file(folder / "model.safetensors")
        for folder in (model.path, *(Path(f"run/checkpoints/step-{step:08d}") for step in best))
    )
    for name, weight in average.items():
        mean = torch.stack([weights[name] for weights in averaged]).mean(dim=0)
        torch.testing.assert_close(weight, mean, rtol=0, atol=0)


def test_averaged_checkpoints_are_freed_before_validation(
    fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    read: list[weakref.ref[torch.Tensor]] = []
    held: list[int] = []
    load, score = Checkpoints.weights, run_validate.validate

    def remembered(self: Checkpoints, step: int, **kind: bool) -> dict[str, torch.Tensor]:
        weights = load(self, step, **kind)
        read.append(weakref.ref(next(iter(weights.values()))))
        return weights

    def counted(*arguments: Any) -> Validation:
        held.append(sum(reference() is not None for reference in read))
        return score(*arguments)

    monkeypatch.setattr(Checkpoints, "weights", remembered)
    monkeypatch.setattr(run_candidates, "validate", counted)
    train(fresh("transformer", training={"average": 4, "validate_every": 3}))
    assert len(read) == 4
    assert held == [1]  # the best; the mean is a second


def test_fine_tuning_starts_from_the_weights_of_a_model(fresh: Fresh) -> None:
    train(fresh("transformer", "base"))
    frozen = {"init_from": "base", "schedule": {"kind": "inverse_sqrt", "peak": 1e-12}, "steps": 1}
    train(fresh("transformer", "tuned", training=frozen))
    base, tuned = (
        safetensors.torch.load_file(f"{run}/model/model.safetensors") for run in ("base", "tuned")
    )
    for name in base:
        torch.testing.assert_close(base[name], tuned[name])


def test_fine_tuning_takes_over_the_tokenizer(fresh: Fresh) -> None:
    train(fresh("transformer", "base"))
    tuned = fresh("transformer", training={"init_from": "base"}, tokenizer={"vocab_size": 50})
    tuned = tuned.model_copy(update={"run": "tuned"})
    taken = train_tokenizer(tuned)
    assert tokenizer_in(taken.path).models == tokenizer_in(Path("base/model")).models
    assert train_tokenizer(tuned).identity == taken.identity
    build_batches(tuned)
    alone = tuned.training.model_copy(update={"init_from": None})
    with pytest.raises(UserError, match=r"training\.init_from"):
        build_batches(tuned.model_copy(update={"training": alone}))
    first = train(tuned)
    assert first.report["steps"] == 12
    Path("base").rename("moved")
    moved = tuned.training.model_copy(update={"init_from": "moved"})
    assert train(tuned.model_copy(update={"training": moved})).identity == first.identity
    asked = {name: first.manifest[name] for name in ("settings", "inputs")}
    assert "base" not in json.dumps(asked)


def test_a_run_cannot_start_from_itself(fresh: Fresh) -> None:
    train(fresh("transformer"))
    shutil.rmtree("run/checkpoints")
    for place in ("run", "run/model"):
        again = fresh("transformer", training={"init_from": place})
        with pytest.raises(SettingError, match=r"init_from: run.* the model of this run itself"):
            train_tokenizer(again)


def test_fine_tuning_with_another_tokenizer_is_refused(fresh: Fresh, prepared: Path) -> None:
    train(fresh("transformer", "base"))
    other = tiny_config(prepared, "transformer", tokenizer={"vocab_size": 50})
    other = other.model_copy(update={"run": "other"})
    train_tokenizer(other)
    build_batches(other)
    changed = other.training.model_copy(update={"init_from": "base"})
    with pytest.raises(UserError, match="rerun `mtkit train-spm` with this setting"):
        train(other.model_copy(update={"training": changed}))


OTHER_MEANINGS: dict[str, list[dict[str, Any]]] = {
    "transformer": [
        {"layers": 2},
        {"decoder_layers": 2},
        {"ffn": 64},
        {"heads": 4},
        {"norm": "pre"},
        {"positions": "none"},
        {"activation": "gelu"},
        {"neighbourhood": 4},
        {"tie": "none"},
        {"output_bias": True},
    ],
    "seq2seq": [
        {"attention": "general"},
        {"attention": "none", "input_feeding": False},
        {"residual": True},
        {"bidirectional": False},
        {"input_feeding": False},
    ],
}
"""Settings of `tasks.TINY`, changed so that weights mean something else; some keep all shapes."""


@pytest.mark.parametrize("kind", OTHER_MEANINGS)
def test_init_from_a_model_whose_weights_mean_something_else_is_refused(
    kind: str, fresh: Fresh
) -> None:
    train(fresh(kind, "base", training={"steps": 1}))
    for model in OTHER_MEANINGS[kind]:
        other = fresh(kind, training={"init_from": "base"}, model=model)
        other = other.model_copy(update={"run": "other"})
        name, value = next(iter(model.items()))
        complaint = rf"training\.init_from: base/model .*\(model\.{name} was .*, now {value}\)"
        with pytest.raises(SettingError, match=rf"{complaint}.*; set model\.{name} to "):
            pipeline.run(other)
        assert not Path("other").exists()


def test_every_setting_of_a_model_but_dropout_gives_weights_another_meaning() -> None:
    """So a setting that is added later is compared, too."""
    for settings in (TransformerSettings(), Seq2SeqSettings(), EncoderDecoderSettings()):
        compared = flattened(meaning_recipe(settings).resolved())
        others = flattened({"model": settings.model_dump()}).keys() - compared.keys()
        assert {name.split(".")[-1] for name in others} <= {
            "dropout",
            "attention_dropout",
            "activation_dropout",
            "embedding_dropout",
        }
        assert others


def test_init_from_allows_other_dropout_and_the_long_form_of_equal_settings(fresh: Fresh) -> None:
    train(fresh("transformer", "base", training={"steps": 1}))
    origin = fresh("transformer", training={"init_from": "base", "steps": 1})
    for model in (
        origin.model.model_copy(update={"dropout": 0.3, "attention_dropout": 0.1}),
        origin.model.model_copy(update={"encoder_layers": 1}),
        origin.model.as_pair(),
    ):
        assert check_origin(origin.model_copy(update={"model": model, "run": "other"})) is not None
    longer = origin.model.as_pair().model_copy(update={"tie": "target"})
    with pytest.raises(SettingError, match=r"\(model\.tie was all, now target\)"):
        check_origin(origin.model_copy(update={"model": longer, "run": "other"}))


def test_a_missing_stage_is_named_with_its_command(fresh: Fresh, tmp_path: Path) -> None:
    config = fresh("transformer")
    shutil.rmtree(tmp_path / "run" / "batches")
    with pytest.raises(UserError, match="mtkit batch"):
        train(config)
    shutil.rmtree(tmp_path / "run" / "tokenizer")
    with pytest.raises(UserError, match="mtkit train-spm"):
        train(config)


def test_batches_of_another_tokenizer_are_refused(fresh: Fresh, prepared: Path) -> None:
    config = fresh("transformer", tokenizer={"vocab_size": 50})
    train_tokenizer(config)
    with pytest.raises(UserError, match="encoded with another tokenizer"):
        train(config)


def test_tensorboard_has_the_values_of_metrics_jsonl(fresh: Fresh) -> None:
    train(fresh("transformer", training={"tensorboard": True}))
    events = list(Path("run/tensorboard").glob("events.*"))
    assert len(events) == 1
    assert b"valid/chrf" in events[0].read_bytes()


def test_a_missing_gpu_is_an_error(fresh: Fresh) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(UserError, match="cuda"):
        train(fresh("transformer", training={"device": "cuda"}))
