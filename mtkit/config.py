"""Every setting of mtkit and its default, as frozen data. Nothing else in the package has defaults.

Reading YAML, overrides and the wording of errors live in `configfile`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Tag,
    model_validator,
)

Probability = Annotated[float, Field(ge=0, lt=1)]
Paths = str | list[str]


class Settings(BaseModel):
    """Frozen; an unknown key is an error; no infinities."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class TextCorpus(Settings):
    """Two line-parallel text files (or two equally long lists of them), plain or .gz."""

    source: Paths
    target: Paths
    weight: PositiveFloat = Field(1.0, description="times each pair is seen per epoch")


class TableCorpus(Settings):
    """.tsv or .jsonl files, plain or .gz; a TSV column is a number from 0, a JSONL one a key."""

    table: Paths
    source_column: str | int = 0
    target_column: str | int = 1
    weight: PositiveFloat = 1.0


class DatasetCorpus(Settings):
    """A dataset of the Hugging Face hub, or a local folder that `datasets` can load."""

    dataset: str
    name: str | None = Field(None, description="configuration of the dataset, if it has several")
    split: str = "train"
    source_column: str = Field(description="column; inside a record with dots: translation.en")
    target_column: str
    weight: PositiveFloat = 1.0


def _corpus_kind(value: Any) -> str:
    keys = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    if "dataset" in keys:
        return "DatasetCorpus"
    return "TableCorpus" if "table" in keys else "TextCorpus"


Corpus = Annotated[
    Annotated[TextCorpus, Tag("TextCorpus")]
    | Annotated[TableCorpus, Tag("TableCorpus")]
    | Annotated[DatasetCorpus, Tag("DatasetCorpus")],
    Discriminator(_corpus_kind),
]


class DataSettings(Settings):
    train: Corpus | list[Corpus]
    valid: Corpus
    test: Corpus | None = None
    target_language: str | None = Field(
        None, description="code such as ko: chooses the tokenization that scores are counted on"
    )


class TokenizerSettings(Settings):
    type: Literal["bpe", "unigram", "char"] = "bpe"
    vocab_size: int = Field(8000, ge=8, le=1_000_000)
    joint: bool = Field(True, description="one vocabulary for both sides")
    normalization: Literal["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"] = "nmt_nfkc"
    byte_fallback: bool = Field(True, description="unseen characters become bytes, never <unk>")
    character_coverage: float = Field(0.9995, gt=0, le=1)
    sample_lines: PositiveInt = Field(2_000_000, description="lines per side it is trained on")


class BatchingSettings(Settings):
    max_tokens: PositiveInt | Literal["auto"] = Field(
        4096, description="padded tokens of a batch, the longer side; auto: what memory holds"
    )
    max_length: int = Field(256, ge=2, le=65_534, description="subwords; longer pairs are dropped")
    max_ratio: float | None = Field(None, gt=1, description="longer / shorter side, in subwords")
    deduplicate: bool = Field(False, description="keep the first of equal pairs")
    workers: NonNegativeInt = Field(0, description="threads that encode; 0: one per core")


# A model may come from anybody: none is so large that building it, or searching with it, does harm.
Depth = Annotated[PositiveInt, Field(le=256)]
Width = Annotated[PositiveInt, Field(le=32_768)]
Vocabulary = Annotated[PositiveInt, Field(le=1_000_000)]
Length = Annotated[PositiveInt, Field(le=1_000_000)]
Tie = Literal["none", "target", "all"]


class TransformerSettings(Settings):
    """Vaswani et al. 2017."""

    kind: Literal["transformer"] = "transformer"
    layers: Depth = 6
    encoder_layers: Depth | None = Field(None, description="where it differs from `layers`")
    decoder_layers: Depth | None = Field(None, description="where it differs from `layers`")
    d_model: Width = 512
    ffn: Width = 2048
    heads: Width = 8
    norm: Literal["post", "pre"] = "post"
    activation: Literal["relu", "gelu", "swish", "gated"] = Field(
        "relu", description="gated: SwiGLU"
    )
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    max_positions: Length = Field(1024, description="bound of learned positions")
    neighbourhood: Length | None = Field(
        None, description="encoder positions at most so far apart attend to each other"
    )
    tie: Tie = Field("all", description="output with target embedding, or both with source too")
    # What has none is named as before there was the setting: models and runs keep their hashes.
    output_bias: bool = Field(
        False, exclude_if=lambda on: not on, description="added to the logits, as Marian does"
    )
    dropout: Probability = Field(0.1, description="on every sublayer before its residual sum")
    attention_dropout: Probability = 0.0
    activation_dropout: Probability = 0.0
    embedding_dropout: Probability | None = Field(None, description="default: `dropout`")

    @model_validator(mode="after")
    def _heads_divide(self) -> TransformerSettings:
        if self.d_model % self.heads:
            raise ValueError(f"d_model {self.d_model} is no multiple of heads {self.heads}")
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"sinusoidal positions need an even d_model, not {self.d_model}")
        return self


class Seq2SeqSettings(Settings):
    """LSTM encoder and decoder: Sutskever 2014; attention of Bahdanau 2015 and Luong 2015."""

    kind: Literal["seq2seq"] = "seq2seq"
    layers: Depth = 2
    d_model: Width = 512
    bidirectional: bool = True
    attention: Literal["dot", "general", "additive", "none"] = "general"
    input_feeding: bool = True
    residual: bool = False
    tie: Tie = "all"
    dropout: Probability = Field(0.2, description="between layers and on the attentional hidden")
    embedding_dropout: Probability | None = Field(None, description="default: `dropout`")

    @model_validator(mode="after")
    def _halves_and_feeding(self) -> Seq2SeqSettings:
        if self.bidirectional and self.d_model % 2:
            raise ValueError(f"a bidirectional encoder needs an even d_model, not {self.d_model}")
        if self.attention == "none" and self.input_feeding:
            raise ValueError("without attention there is nothing to feed: set input_feeding: false")
        return self


ModelSettings = Annotated[TransformerSettings | Seq2SeqSettings, Field(discriminator="kind")]


class Noam(Settings):
    """lr = d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), Vaswani et al. 2017, equation 3."""

    kind: Literal["noam"] = "noam"


class InverseSqrt(Settings):
    """Linear warmup to `peak`, then peak · (warmup / step)^0.5."""

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"
    peak: PositiveFloat


class Cosine(Settings):
    """Linear warmup to `peak`, then half a cosine down to `floor` at the last step."""

    kind: Literal["cosine"] = "cosine"
    peak: PositiveFloat
    floor: float = Field(0.0, ge=0)


class Plateau(Settings):
    """Linear warmup to `peak`; times `factor` after `patience` validations with no new best."""

    kind: Literal["plateau"] = "plateau"
    peak: PositiveFloat
    factor: float = Field(0.5, gt=0, lt=1)
    patience: PositiveInt = 2


class StepDecay(Settings):
    """Linear warmup to `peak`; from step `start` on, times `factor` every `every` steps."""

    kind: Literal["step"] = "step"
    peak: PositiveFloat
    factor: float = Field(0.5, gt=0, lt=1)
    start: PositiveInt
    every: PositiveInt


Schedule = Annotated[Noam | InverseSqrt | Cosine | Plateau | StepDecay, Field(discriminator="kind")]


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
Metric = Literal["loss", "perplexity", "bleu", "chrf"]


class SubwordSampling(Settings):
    """Other segmentations of the same text in every epoch, in training alone.

    Of a bpe tokenizer each merge is left out with probability `alpha` (BPE-dropout, Provilkov et
    al. 2020); of a unigram one a segmentation is drawn from P(segmentation)^alpha (Kudo 2018),
    where 0.2 makes the sentences of Multi30k a third longer, and 0.1 nearly twice as long.
    """

    alpha: float = Field(0.1, gt=0, lt=1)
    sides: Literal["source", "target", "both"] = "both"


class TrainingSettings(Settings):
    """Counted in updates (`steps`) or, instead, in `epochs`."""

    steps: PositiveInt | None = None
    epochs: PositiveInt | None = None
    warmup: PositiveInt = 4000
    schedule: Schedule = Noam()
    optimizer: Optimizer = Adam()
    label_smoothing: Probability = 0.1
    clip_norm: PositiveFloat | None = 1.0
    accumulate: PositiveInt = Field(1, description="batches per update")
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    compile: bool | Literal["auto"] = Field(
        "auto", description="torch.compile; auto: on a GPU, in runs long enough to repay it"
    )
    ema: Probability | None = Field(None, description="decay of an average of the weights")
    subword_sampling: SubwordSampling | None = None
    source_dropout: Probability = Field(0.0, description="of whole subwords of the source")
    r_drop: PositiveFloat | None = Field(
        None, description="alpha of R-Drop: two passes with different dropout are to agree"
    )
    max_skipped: PositiveInt = Field(
        5, description="updates in a row that may be skipped for a loss or gradient not finite"
    )
    on_divergence: Literal["rollback", "stop"] = Field(
        "rollback", description="then: back to the last checkpoint with half the rate, or end"
    )
    rank_timeout: PositiveFloat = Field(
        600.0, description="seconds that ranks wait for each other before the run ends"
    )
    log_every: PositiveInt = 50
    validate_every: PositiveInt = 500
    save_every: PositiveInt = 500
    validation_sentences: NonNegativeInt = Field(1000, description="decoded for BLEU and chrF")
    sample_translations: NonNegativeInt = Field(2, description="shown at each validation")
    best_by: Metric = "bleu"
    patience: PositiveInt | None = Field(None, description="validations with no new best, then end")
    keep: PositiveInt = Field(3, description="newest checkpoints kept")
    average: PositiveInt = Field(5, description="best checkpoints averaged, if validation improves")
    init_from: str | None = Field(None, description="model or run whose weights to start from")
    tensorboard: bool = False

    @model_validator(mode="after")
    def _one_length(self) -> TrainingSettings:
        if self.steps is None and self.epochs is None:
            raise ValueError("needs steps or epochs")
        if self.steps is not None and self.epochs is not None:
            raise ValueError("steps and epochs are both set: set one of them to null")
        if self.best_by in ("bleu", "chrf") and not self.validation_sentences:
            raise ValueError(f"best_by: {self.best_by} needs validation_sentences above 0")
        return self


class DecodingSettings(Settings):
    beam: PositiveInt = Field(5, le=10_000)
    length_penalty: float = Field(1.0, ge=0, description="alpha in log P / |y|^alpha")
    min_length: NonNegativeInt = Field(0, le=1_000_000)
    max_length: Length = Field(256, description="subwords; longer input is split")
    batch_tokens: PositiveInt = Field(
        1024, le=10_000_000, description="padded source tokens decoded together"
    )


class SamplingSettings(Settings):
    """Drawing translations at random instead of searching for the best."""

    temperature: PositiveFloat = Field(1.0, description="below 1 sharper, above 1 flatter")
    top_k: PositiveInt | None = Field(None, description="only among the k most probable symbols")
    top_p: float | None = Field(
        None, gt=0, le=1, description="only among the most probable symbols that sum to p"
    )
    seed: NonNegativeInt = 1


class ModelConfig(Settings):
    """`config.json` of a model folder: all that building and using the model needs."""

    model: ModelSettings
    source_vocab: Vocabulary
    target_vocab: Vocabulary
    decoding: DecodingSettings

    @model_validator(mode="after")
    def _tied_vocabularies(self) -> ModelConfig:
        if self.model.tie == "all" and self.source_vocab != self.target_vocab:
            vocabularies = f"vocabularies of {self.source_vocab} and {self.target_vocab}"
            raise ValueError(f"tie: all, but {vocabularies}")
        return self

    @model_validator(mode="after")
    def _positions_suffice(self) -> ModelConfig:
        _check_positions(self.model, "decoding.max_length", self.decoding.max_length)
        return self


class Config(Settings):
    run: str = Field(min_length=1, description="folder where every stage writes")
    seed: NonNegativeInt = 1
    data: DataSettings
    tokenizer: TokenizerSettings = TokenizerSettings()
    batching: BatchingSettings = BatchingSettings()
    model: ModelSettings = TransformerSettings()
    training: TrainingSettings
    decoding: DecodingSettings = DecodingSettings()

    @model_validator(mode="after")
    def _tied_vocabularies(self) -> Config:
        if self.model.tie == "all" and not self.tokenizer.joint:
            raise ValueError("model.tie: all needs tokenizer.joint: true (or tie: target)")
        return self

    @model_validator(mode="after")
    def _positions_suffice(self) -> Config:
        _check_positions(self.model, "decoding.max_length", self.decoding.max_length)
        _check_positions(self.model, "batching.max_length", self.batching.max_length)
        return self


def _check_positions(model: ModelSettings, setting: str, length: int) -> None:
    """Sinusoids go on for ever; learned positions end, and EOS or BOS takes one more."""
    if isinstance(model, TransformerSettings) and model.positions == "learned":
        limit = model.max_positions
        if length >= limit:
            raise ValueError(f"{setting}: {length} needs model.max_positions above it, not {limit}")
