"""Every setting of mtkit and its default, as frozen data; some sections have files of their own.

YAML and overrides are read in `configfile`, and errors worded in `complaints`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from mtkit.config.base import FromHome, Key, Probability, Settings
from mtkit.config.batching import BatchingSettings
from mtkit.config.corpora import Corpus
from mtkit.config.decoding import DecodingSettings
from mtkit.config.languages import LanguageCode
from mtkit.config.model import ModelSettings, TransformerSettings
from mtkit.config.schedules import AnySchedule, Noam


class DataSettings(Settings):
    train: Corpus | list[Corpus]
    valid: Corpus
    test: Corpus | None = None
    target_language: LanguageCode | None = Field(
        None, description="code such as ko: chooses the tokenization that scores are counted on"
    )

    @model_validator(mode="after")
    def _tags_fit(self) -> DataSettings:
        if self.valid.tag is not None or (self.test and self.test.tag is not None):
            raise ValueError("tag: only for corpora in data.train, not in valid or test")
        return self

    def corpora(self, name: Literal["train", "valid", "test"]) -> dict[Key, Corpus]:
        """Those of `name`, by the path of each in a config."""
        key: Key = ("data", name)
        match getattr(self, name):
            case None:
                return {}
            case [*corpora]:
                return {(*key, place): corpus for place, corpus in enumerate(corpora)}
            case corpus:
                return {key: corpus}


class TokenizerSettings(Settings):
    type: Literal["bpe", "unigram", "char"] = "bpe"
    vocab_size: int = Field(8000, ge=8, le=1_000_000)
    joint: bool = Field(True, description="one vocabulary for both sides")
    normalization: Literal["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"] = "nmt_nfkc"
    byte_fallback: bool = Field(True, description="unseen characters become bytes, never <unk>")
    character_coverage: float = Field(0.9995, ge=0.98, le=1)
    sample_lines: PositiveInt = Field(2_000_000, description="lines per side it is trained on")


class Adam(Settings):
    """Adam, with decoupled weight decay (adamw), or rectified (radam)."""

    kind: Literal["adam", "adamw", "radam"] = "adam"
    beta1: Probability = 0.9
    beta2: Probability = 0.98
    eps: PositiveFloat = 1e-9
    weight_decay: float = Field(0.0, ge=0)


class Sgd(Settings):
    kind: Literal["sgd"] = "sgd"
    momentum: Probability = 0.0
    weight_decay: float = Field(0.0, ge=0)


class Muon(Settings):
    """Orthogonal updates for the matrices between layers, AdamW for embeddings, norms and biases.

    Jordan et al. 2024; on the learning rates of Adam, after Liu et al. 2025.
    """

    kind: Literal["muon"] = "muon"
    momentum: Probability = 0.95
    beta1: Probability = 0.9
    beta2: Probability = 0.98
    eps: PositiveFloat = 1e-9
    weight_decay: float = Field(0.0, ge=0)


Optimizer = Annotated[Adam | Muon | Sgd, Field(discriminator="kind")]
Metric = Literal["loss", "perplexity", "bleu", "chrf", "step"]


class SubwordSampling(Settings):
    """Other segmentations of the same text in every epoch, in training alone.

    Of a bpe tokenizer each merge is left out with probability `alpha` (BPE-dropout, Provilkov et
    al. 2020); of a unigram one a segmentation is drawn from P(segmentation)^alpha (Kudo 2018),
    where 0.2 makes the sentences of Multi30k a third longer, and 0.1 nearly twice as long.
    """

    alpha: float = Field(0.1, gt=0, lt=1)
    sides: Literal["source", "target", "both"] = "both"


LEFT: Mapping[str, tuple[float | None, str]] = {
    "ema": (None, "there is none any more: a schedule that falls to nothing does as much"),
    "r_drop": (None, "there is none any more: model.dropout does more"),
    "source_dropout": (0.0, "there is none any more: model.dropout does more"),
}
"""Settings of before: what they were when they did nothing, and what does their work."""


class Learning(Settings):
    """What is learnt, update by update: what checkpoints are known by."""

    warmup: PositiveInt = 4000
    schedule: AnySchedule = Noam()
    optimizer: Optimizer = Adam()
    label_smoothing: Probability = 0.1
    clip_norm: PositiveFloat | None = 1.0
    accumulate: PositiveInt = Field(1, description="batches per update")
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    subword_sampling: SubwordSampling | None = None
    max_skipped: PositiveInt = Field(
        5, description="updates in a row that may be skipped for a loss or gradient not finite"
    )
    on_divergence: Literal["rollback", "stop"] = Field(
        "rollback", description="then: back to the last checkpoint with half the rate, or end"
    )
    validate_every: PositiveInt = 500
    validation_sentences: NonNegativeInt = Field(1000, description="decoded for BLEU and chrF")
    best_by: Metric = Field("bleu", description="on the validation set; step: the last is best")

    @model_validator(mode="before")
    @classmethod
    def _without_what_left(cls, settings: Any) -> Any:
        """What was stored when there were more settings, and did not use them, says the same."""
        if not isinstance(settings, dict):
            return settings
        given = {name: (settings.get(name, ...), off) for name, (off, _) in LEFT.items()}
        unused = {
            name
            for name, (value, off) in given.items()
            if value == off and isinstance(value, bool) == isinstance(off, bool)
        }
        return {name: value for name, value in settings.items() if name not in unused}


class Extent(Settings):
    """How far to go: may change whenever a run is resumed, unless the schedule depends on it."""

    steps: PositiveInt | None = Field(None, le=1_000_000_000)
    epochs: PositiveInt | None = Field(None, le=1_000_000)


class Ending(Settings):
    """When to end before that, and what the end is made of: may change whenever a run goes on."""

    patience: PositiveInt | None = Field(None, description="validations with no new best, then end")
    average: PositiveInt = Field(
        5, le=1_000, description="best checkpoints averaged, if validation improves"
    )


class Course(Learning, Ending, Extent):
    """All that decides which weights a run ends in."""


class TrainingSettings(Course):
    """Counted in updates (`steps`) or, instead, in `epochs`."""

    # What this machine is to do it with: the weights are meant to be the same.
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    compile: bool | Literal["auto"] = Field(
        "auto", description="torch.compile, on a GPU; auto: in runs long enough to repay it"
    )
    ranks: PositiveInt | Literal["auto"] = Field(
        "auto",
        description="processes that share each update; auto: one per GPU or core, where its share "
        "is worth it; another number draws other dropout, unless it divides accumulate, and rounds "
        "otherwise",
    )
    rank_timeout: PositiveFloat = Field(
        600.0, le=1e6, description="seconds that ranks wait for each other before the run ends"
    )
    # What is shown on the way, and what is kept of it.
    log_every: PositiveInt = 50
    save_every: PositiveInt = 500
    keep: PositiveInt = Field(3, description="newest checkpoints kept")
    sample_translations: NonNegativeInt = Field(2, description="shown at each validation")
    tensorboard: bool = False
    # Where the weights come from.
    init_from: FromHome | None = Field(None, description="model or run whose weights to start from")

    @model_validator(mode="after")
    def _parts_fit(self) -> TrainingSettings:
        if self.steps is None and self.epochs is None:
            raise ValueError("needs steps or epochs")
        if self.steps is not None and self.epochs is not None:
            raise ValueError("steps and epochs are both set: set one of them to null")
        if self.best_by in ("bleu", "chrf") and not self.validation_sentences:
            raise ValueError(f"best_by: {self.best_by} needs validation_sentences above 0")
        if self.best_by == "step" and (self.average > 1 or self.patience is not None):
            raise ValueError("best_by: step takes the last weights: needs average: 1, no patience")
        self.schedule.check(self.warmup)
        return self


class Config(Settings):
    run: FromHome = Field(description="folder where every stage writes")
    seed: NonNegativeInt = Field(1, le=2**64 - 1)
    data: DataSettings
    tokenizer: TokenizerSettings = TokenizerSettings()
    batching: BatchingSettings = BatchingSettings()
    model: ModelSettings = TransformerSettings()
    training: TrainingSettings
    decoding: DecodingSettings = DecodingSettings()

    @model_validator(mode="after")
    def _parts_fit(self) -> Config:
        if self.model.tie == "all" and not self.tokenizer.joint:
            raise ValueError("model.tie: all needs tokenizer.joint: true (or tie: target)")
        is_of_characters = self.tokenizer.type == "char" and self.training.init_from is None
        if is_of_characters and self.training.subword_sampling is not None:
            raise ValueError(
                "training.subword_sampling: a char tokenizer knows one segmentation of a text: "
                "take tokenizer.type: bpe or unigram, or no sampling"
            )
        self.model.check_length("decoding.max_length", self.decoding.max_length)
        self.model.check_length("batching.max_length", self.batching.max_length)
        return self
