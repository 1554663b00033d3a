"""What a run leaves on the disk, which the first rank alone writes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit.artifacts import clear_leftovers
from mtkit.config.configfile import save_config
from mtkit.config.recipes import ModelRecipe
from mtkit.config.runs import locked
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.training.run.checkpoints import Checkpoints
from mtkit.training.run.export import write_model
from mtkit.training.run.metrics import MetricsLog
from mtkit.training.run.validate import Validator
from mtkit.training.state import TrainState

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class Writer(ExitStack):
    """The writer of a rank that writes nothing; to be entered while the run is written to."""

    def clear(self) -> None:
        """Removes what killed processes left half made."""

    def accept(self) -> None:
        """Notes the settings, which nothing there has contradicted."""

    def start(self, state: TrainState) -> None:
        """Sees to it that there is a checkpoint to go back to, and no record after it."""

    def log(self, record: Mapping[str, Any]) -> None:
        """Adds a record of a step to the metrics."""

    def save(self, state: TrainState) -> None:
        """Writes a checkpoint, and drops those that are no longer wanted."""

    def save_if_new(self, state: TrainState) -> None:
        """Writes a checkpoint where there is none of this step."""

    def finish(self, state: TrainState, validator: Validator) -> None:
        """Writes the model."""


class RunWriter(Writer):
    """The writer of the first rank: metrics.jsonl, checkpoints, TensorBoard's files, the model."""

    def __init__(self, config: Config, recipe: ModelRecipe, checkpoints: Checkpoints) -> None:
        super().__init__()
        self.config, self.recipe, self.checkpoints = config, recipe, checkpoints
        self.run = Path(config.run)
        self.metrics = MetricsLog(self.run / "metrics.jsonl")
        self.board: SummaryWriter | None = None

    def __enter__(self) -> RunWriter:
        super().__enter__()
        self.enter_context(locked(self.run))
        return self

    def clear(self) -> None:
        clear_leftovers(self.checkpoints.folder)

    def accept(self) -> None:
        save_config(self.config)

    def start(self, state: TrainState) -> None:
        self.metrics.truncate(state.step)
        if self.config.training.tensorboard:
            self.board = _board(self.run / "tensorboard", state.step)
            self.callback(self.board.close)
        if self.checkpoints.steps():
            self._prune(state)  # which the process that saved it may not have come to
        else:
            self.save(state)

    def log(self, record: Mapping[str, Any]) -> None:
        self.metrics.write(record)
        if self.board is not None:
            for name in record.keys() - {"kind", "step", "epoch", "seconds"}:
                self.board.add_scalar(f"{record['kind']}/{name}", record[name], record["step"])

    def save(self, state: TrainState) -> None:
        self.checkpoints.save(state)
        self._prune(state)

    def save_if_new(self, state: TrainState) -> None:
        if state.step not in self.checkpoints.steps():
            self.save(state)

    def finish(self, state: TrainState, validator: Validator) -> None:
        write_model(self.run / "model", self.recipe, state, self.checkpoints, validator)

    def _prune(self, state: TrainState) -> None:
        training = self.config.training
        self.checkpoints.prune(state, training.best_by, training.keep, training.average)


def _board(folder: Path, step: int) -> SummaryWriter:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError(
            "training.tensorboard: TensorBoard is not installed: pip install 'mtkit[tensorboard]'"
        ) from None
    return SummaryWriter(folder, purge_step=step + 1)
