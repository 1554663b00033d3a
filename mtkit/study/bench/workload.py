"""What is measured: a model and batches, of a config and its run, or of a size and drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from mtkit.artifacts import open_artifact
from mtkit.batching.build import Batches, open_batches
from mtkit.batching.plan import Rows, plan_epoch
from mtkit.config.configfile import load_config
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.models.device import pick_device
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.study.bench.drawn import Size, draw_batches, load_size
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.data.segmentation import AS_STORED, Segmentation
from mtkit.training.optimizer.precision import pick_precision
from mtkit.training.run.distributed import ALONE
from mtkit.training.run.memory import largest_batch
from mtkit.training.state import TrainState, new_state


@dataclass(frozen=True)
class Workload:
    """Everything that a run is made from but its state."""

    name: str
    config: Config
    data: Batches
    source_vocab: int
    target_vocab: int
    segmentation: Segmentation

    def fresh_state(self) -> TrainState:
        """What training starts from, on the device and in the precision that it would choose."""
        config = self.config
        device = pick_device(config.training.device)
        torch.manual_seed(config.seed)
        model = EncoderDecoder(config.model, self.source_vocab, self.target_vocab).to(device)
        precision = pick_precision(config.training.precision, device)
        state = new_state(model, config.training, precision)
        budget = config.batching.max_tokens
        state.max_tokens = (
            largest_batch(state, self.data.train.lengths, ALONE) if budget == "auto" else budget
        )
        return state

    def first_epoch(self, max_tokens: int) -> list[Rows]:
        """The rows of each batch."""
        lengths, seed = self.data.train.lengths, self.config.seed
        return plan_epoch(lengths, max_tokens=max_tokens, seed=seed, epoch=0)


@contextmanager
def open_workload(
    config_file: Path | None, size: Size | None, overrides: Sequence[str]
) -> Iterator[Workload]:
    """That of a config and the batches of its run, or that of a size (default: tiny).

    Raises UserError where both are named, for a faulty config or override, and where the run has no
    batches.
    """
    if config_file is None:
        with TemporaryDirectory(prefix="mtkit-bench-") as folder:
            yield _drawn(size or "tiny", overrides, Path(folder))
    elif size is not None:
        raise UserError(f"--size {size}: {config_file} says what to measure: leave one out")
    else:
        yield _of_run(load_config(config_file, overrides))


def _drawn(size: Size, overrides: Sequence[str], folder: Path) -> Workload:
    config = load_size(size, overrides)
    if config.training.subword_sampling is not None:
        raise UserError("training.subword_sampling: drawn sentences are no text: name a run by -c")
    vocab = config.tokenizer.vocab_size
    data = draw_batches(folder, vocab, config.seed)
    name = f"{size}, sentences as long as Multi30k's"
    return Workload(name, config, data, vocab, vocab, AS_STORED)


def _of_run(config: Config) -> Workload:
    run = Path(config.run)
    tokenizer = Tokenizer.load(open_artifact(run / "tokenizer", "tokenizer").path)
    segmentation = Segmentation.of(
        config.training.subword_sampling, tokenizer, config.batching.max_length, config.seed
    )
    vocabs = tokenizer.source_vocab, tokenizer.target_vocab
    return Workload(config.run, config, open_batches(run / "batches"), *vocabs, segmentation)
