"""The settings of mtkit and their defaults; some sections are in other files of this folder.

A setting without a `Scope` matters for every result of its section: see `artifacts/recipe.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import (
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from mtkit.config.base import FromHome, Key, Probability, Scope, Settings, dotted
from mtkit.config.corpora import Corpus, listed
from mtkit.config.decoding import RunDecodingSettings
from mtkit.config.language_codes import LanguageTag
from mtkit.config.model import ModelSettings, TransformerSettings
from mtkit.config.schedules import AnySchedule, Noam

SetName = Literal["train", "valid", "test", "keep"]
"""The sets of corpora in the section `data`."""


class DataSettings(Settings):
    """The corpora."""

    train: Corpus | list[Corpus] = Field(description="training corpus, or a list of corpora")
    valid: Corpus | list[Corpus] = Field(
        description="validation set, which chooses the best checkpoint; or a list, with a "
        "target_tag each"
    )
    test: Corpus | list[Corpus] | None = Field(
        None, description="test set, which `mtkit run` scores at the end; or a list"
    )
    keep: Corpus | list[Corpus] | None = Field(
        None,
        description="text that the model of training.init_from translates well, and that must not "
        "be translated worse; see training.max_harm",
    )
    target_language: LanguageTag | None = Field(
        None, description="language such as ko or Korean: chooses the tokenization of BLEU"
    )

    @model_validator(mode="after")
    def _check_tags(self) -> DataSettings:
        held_out = [*listed(self.valid), *listed(self.test), *listed(self.keep)]
        if any(corpus.tag is not None for corpus in held_out):
            raise ValueError(
                "a tag is only for corpora in data.train; target_tag is for all corpora"
            )
        has_tag = [corpus.target_tag is not None for corpus in (*listed(self.train), *held_out)]
        if any(has_tag) and not all(has_tag):
            raise ValueError(
                "some corpora have a target_tag and some have none; give one to each corpus in "
                "train, valid and test, or to none"
            )
        for corpus in listed(self.train):
            if corpus.tag is not None and corpus.tag == corpus.target_tag:
                raise ValueError(f"tag and target_tag are both {corpus.tag}; choose two words")
        return self

    @property
    def target_tags(self) -> list[str]:
        """The target tags of the training corpora, sorted."""
        return sorted({corpus.target_tag for corpus in listed(self.train) if corpus.target_tag})

    def corpora(self, name: SetName) -> dict[Key, Corpus]:
        """Return the corpora of one set, by their keys in the config."""
        key: Key = ("data", name)
        match getattr(self, name):
            case None:
                return {}
            case [*corpora]:
                return {(*key, index): corpus for index, corpus in enumerate(corpora)}
            case corpus:
                return {key: corpus}


class TokenizerSettings(Settings):
    """How SentencePiece is trained."""

    type: Literal["bpe", "unigram", "char"] = Field("bpe", description="kind of subwords")
    vocab_size: int = Field(8000, ge=8, le=1_000_000, description="number of subwords")
    joint: bool = Field(
        True, description="one vocabulary for both sides, which suits languages of one script"
    )
    model: FromHome | Annotated[list[FromHome], Field(min_length=2, max_length=2)] | None = Field(
        None,
        description="existing SentencePiece model to use instead of training one, or a list of a "
        "source and a target model if not joint; with it, only `joint` matters",
    )
    normalization: Literal["identity", "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf"] = Field(
        "identity", description="SentencePiece's rewriting of both sides; identity: none"
    )
    byte_fallback: bool = Field(True, description="unseen characters become bytes, never <unk>")
    character_coverage: float = Field(
        0.9995, ge=0.98, le=1, description="share of the text whose characters get a subword"
    )
    split_digits: bool = Field(
        True, description="every digit is a subword, so that numbers are translated digit by digit"
    )
    new_pieces: NonNegativeInt = Field(
        0,
        le=1_000_000,
        description="most subwords that are learned from the training text and added to the "
        "vocabulary of the model of training.init_from; unknown characters come first",
    )
    drop_unused: bool = Field(
        False,
        description="drop the subwords of the model of training.init_from that neither the "
        "training text nor data.keep has, except single characters",
    )
    sample_lines: PositiveInt = Field(2_000_000, description="most lines per side to train on")

    @property
    def changes_vocabulary(self) -> bool:
        """Whether the vocabulary is another one than that of the model of training.init_from."""
        return self.new_pieces > 0 or self.drop_unused

    @model_validator(mode="after")
    def _check(self) -> TokenizerSettings:
        if self.model is not None and self.joint == isinstance(self.model, list):
            raise ValueError("a joint tokenizer has one model; with 'joint: false', list two")
        return self


DropRule = Literal[
    "uneven",
    "glued",
    "letters",
    "markup",
    "mojibake",
    "script",
    "language",
    "repetition",
    "copied",
    "overlap",
]
"""Names of the rules in `corpus/rules.py`."""
DROP_RULES: tuple[DropRule, ...] = get_args(DropRule)


class BatchingSettings(Settings):
    """Which pairs are kept, and how they become batches."""

    max_length: int = Field(256, ge=2, le=65_534, description="subwords; longer pairs are dropped")
    deduplicate: bool = Field(False, description="keep only the first of equal pairs")
    drop: list[DropRule] = Field(
        [], description="rules of `mtkit check`; training pairs that break one are dropped"
    )
    max_tokens: Annotated[PositiveInt, Scope.TRAINING] = Field(
        4096, le=10**9, description="most tokens of a batch on its longer side, with padding"
    )


Beta1 = Annotated[Probability, Field(description="decay of the mean of gradients")]
Beta2 = Annotated[Probability, Field(description="decay of the mean of squared gradients")]
Epsilon = Annotated[PositiveFloat, Field(description="added to the root of the mean square")]
Momentum = Annotated[Probability, Field(description="share of the last update that is kept")]
WeightDecay = Annotated[float, Field(ge=0, description="decay of the weights towards zero; 0: off")]


class Adam(Settings):
    """Adam, also with decoupled weight decay (adamw)."""

    kind: Literal["adam", "adamw"] = "adam"
    beta1: Beta1 = 0.9
    beta2: Beta2 = 0.98
    eps: Epsilon = 1e-9
    weight_decay: WeightDecay = 0.0


class Sgd(Settings):
    """Stochastic gradient descent."""

    kind: Literal["sgd"] = "sgd"
    momentum: Momentum = 0.0
    weight_decay: WeightDecay = 0.0


class Muon(Settings):
    """Orthogonal updates for the matrices of layers, AdamW for embeddings, norms and biases.

    Jordan et al. 2024, scaled to the learning rates of Adam as in Liu et al. 2025.
    """

    kind: Literal["muon"] = "muon"
    momentum: Momentum = 0.95
    beta1: Beta1 = 0.9
    beta2: Beta2 = 0.98
    eps: Epsilon = 1e-9
    weight_decay: WeightDecay = 0.0


Optimizer = Annotated[Adam | Muon | Sgd, Field(discriminator="kind")]
Criterion = Literal["loss", "bleu", "chrf", "step"]


class TrainingSettings(Settings):
    """How long to train, how to learn, and on which hardware."""

    steps: Annotated[PositiveInt | None, Scope.LENGTH] = Field(
        None, le=1_000_000_000, description="length of the training, unless epochs are set"
    )
    epochs: Annotated[PositiveInt | None, Scope.LENGTH] = Field(
        None, le=1_000_000, description="length of the training, unless steps are set"
    )
    patience: Annotated[PositiveInt | None, Scope.ENDING] = Field(
        None, description="end after this many validations without a new best"
    )
    average: Annotated[PositiveInt, Scope.ENDING] = Field(
        5, le=1_000, description="number of best checkpoints to average, if validation improves"
    )
    warmup: PositiveInt = Field(4000, description="steps until the learning rate has its peak")
    schedule: AnySchedule = Field(Noam(), description="learning rate by step")
    optimizer: Optimizer = Field(Adam(), description="how gradients change the weights")
    label_smoothing: Probability = Field(0.1, description="probability spread over all subwords")
    clip_norm: PositiveFloat | None = Field(1.0, description="largest gradient norm; null: off")
    accumulate: PositiveInt | Literal["auto"] = Field(
        1, description="batches per step; auto: one for each process"
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="data type of matrix products; auto: bfloat16 where it is faster"
    )
    validate_every: PositiveInt = Field(500, description="steps between validations")
    validation_sentences: NonNegativeInt = Field(
        1000, description="lines for BLEU and chrF, spread over the validation set"
    )
    best_by: Criterion = Field(
        "bleu",
        description="score that ranks validations; bleu: chrF if most lines have fewer than four "
        "words; step: the last one is best",
    )
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], Scope.EXECUTION] = Field(
        "auto", description="where to train; auto: on a GPU if available"
    )
    ranks: Annotated[PositiveInt | Literal["auto"], Scope.EXECUTION] = Field(
        "auto",
        description="processes that share each step; auto: one per GPU or core, if each has enough "
        "work; another number changes rounding, and dropout unless it divides `accumulate`",
    )
    log_every: Annotated[PositiveInt, Scope.EXECUTION] = Field(
        50, description="steps between lines of the log"
    )
    save_every: Annotated[PositiveInt, Scope.EXECUTION] = Field(
        500, description="steps between checkpoints, from which an interrupted run resumes"
    )
    keep: Annotated[PositiveInt, Scope.EXECUTION] = Field(3, description="newest checkpoints kept")
    tensorboard: Annotated[bool, Scope.EXECUTION] = Field(False, description="log for TensorBoard")
    # The model's identity is among the inputs of a run.
    init_from: Annotated[FromHome | None, Scope.EXECUTION] = Field(
        None,
        description="model whose weights training starts from (fine-tuning): a run, a folder of a "
        "pretrained model, or OWNER/NAME of one on the Hugging Face hub",
    )

    max_harm: Annotated[float | None, Field(ge=0, le=100), Scope.ENDING] = Field(
        None,
        description="most chrF that data.keep may lose, if it is set: the model is the mean of "
        "base and trained weights that gains most on the validation set, or the base model if "
        "the gain may be chance; null: the trained weights, whatever they lose",
    )

    @field_validator("precision", mode="before")
    @classmethod
    def _check_precision(cls, precision: object) -> object:
        if precision == "float16":
            raise ValueError("float16 is only for translation; train in bfloat16 or float32")
        return precision

    @model_validator(mode="after")
    def _check(self) -> TrainingSettings:
        if self.steps is None and self.epochs is None:
            raise ValueError("set steps or epochs")
        if self.steps is not None and self.epochs is not None:
            raise ValueError("steps and epochs are both set; set one of them to null")
        if self.best_by in ("bleu", "chrf") and not self.validation_sentences:
            raise ValueError(f"'best_by: {self.best_by}' needs validation_sentences above 0")
        if self.best_by == "step" and (self.average > 1 or self.patience is not None):
            raise ValueError(
                "'best_by: step' keeps the last weights; set average to 1 and patience to null"
            )
        self.schedule.check(self.warmup)
        return self


class Config(Settings):
    """All settings of a run."""

    run: FromHome = Field(description="run directory, where every stage writes")
    seed: NonNegativeInt = Field(1, le=2**64 - 1, description="random seed")
    data: DataSettings = Field(description="the corpora")
    tokenizer: TokenizerSettings = Field(TokenizerSettings(), description="stage 1")
    batching: BatchingSettings = Field(BatchingSettings(), description="stage 2")
    model: ModelSettings = Field(TransformerSettings(), description="the architecture")
    training: TrainingSettings = Field(description="stage 3")
    decoding: RunDecodingSettings = Field(RunDecodingSettings(), description="stage 4")

    @model_validator(mode="after")
    def _check(self) -> Config:
        if self.model.tie == "all" and not self.tokenizer.joint:
            raise ValueError(
                "'model.tie: all' needs a joint tokenizer; set tokenizer.joint to true, "
                "or tie to target"
            )
        if self.tokenizer.model is not None and self.training.init_from is not None:
            raise ValueError("training.init_from brings its own tokenizer; remove tokenizer.model")
        if self.data.keep is not None and self.training.max_harm is None:
            raise ValueError("data.keep needs training.max_harm, the chrF that it may lose")
        if self.training.max_harm is not None:
            if self.training.init_from is None:
                raise ValueError("training.max_harm needs training.init_from, the base model")
            if not self.training.validation_sentences:
                raise ValueError("training.max_harm needs validation_sentences above 0")
        if self.tokenizer.changes_vocabulary and self.training.init_from is None:
            raise ValueError(
                "tokenizer.new_pieces and tokenizer.drop_unused change the vocabulary of a model; "
                "set training.init_from, or choose tokenizer.vocab_size"
            )
        self._check_target_tags()
        return self

    def _check_target_tags(self) -> None:
        """Raise ValueError if a tag is used that no training corpus teaches."""
        if self.training.init_from is not None:  # its model may know more tags
            return
        known = self.data.target_tags
        held_out = {**self.data.corpora("valid"), **self.data.corpora("test")}
        used = {dotted(key): corpus.target_tag for key, corpus in held_out.items()}
        used["decoding"] = self.decoding.tag
        for place, tag in used.items():
            if tag is not None and tag not in known:
                choices = ", ".join(known) or "none"
                raise ValueError(
                    f"{place}: {tag!r} is the target_tag of no corpus in data.train; choose from "
                    f"{choices}"
                )
