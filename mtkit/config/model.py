"""Settings of the architectures: an encoder and a decoder, which short names pair for everybody.

`kind: transformer` and `kind: seq2seq` are short for pairs whose halves share their settings. Each
opens into its `halves()`, and whoever builds or judges a model reads those alone.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt, model_validator

from mtkit.config.base import Probability, Settings

# A model may come from anybody: none is so large that building it, or searching with it, does harm.
Depth = Annotated[PositiveInt, Field(le=256)]
Width = Annotated[PositiveInt, Field(le=32_768)]
Vocabulary = Annotated[PositiveInt, Field(le=1_000_000)]
Length = Annotated[PositiveInt, Field(le=1_000_000)]
Tie = Literal["none", "target", "all"]

Bidirectional = Annotated[bool, Field(description="half of the width reads from the end")]
RecurrentAttention = Literal["dot", "general", "additive", "none"]
InputFeeding = Annotated[
    bool, Field(description="a step reads what attention made of the one before")
]
Neighbourhood = Annotated[
    Length | None, Field(description="encoder positions at most so far apart attend to each other")
]


class Kind(Settings):
    """Names which of several sections this is; a section's own class says what it may be."""

    kind: str

    @property
    def name(self) -> str:
        """As it is called in a sentence."""
        return self.kind


class TransformerLayers(Settings):
    """What the layers of either half of a Transformer are made of (Vaswani et al. 2017)."""

    layers: Depth = 6
    ffn: Width = 2048
    heads: Width = 8
    norm: Literal["post", "pre"] = "post"
    activation: Literal["relu", "gelu", "swish", "gated"] = Field(
        "relu", description="gated: SwiGLU"
    )
    dropout: Probability = Field(0.1, description="on every sublayer before its residual sum")
    attention_dropout: Probability = 0.0
    activation_dropout: Probability = 0.0
    embedding_dropout: Probability | None = Field(None, description="default: `dropout`")

    def check_width(self, d_model: int) -> None:
        """Raises ValueError for a model size that heads cannot share."""
        if d_model % self.heads:
            raise ValueError(f"d_model {d_model} is no multiple of heads {self.heads}")


class TransformerEncoderSettings(TransformerLayers, Kind):
    kind: Literal["transformer"] = "transformer"
    neighbourhood: Neighbourhood = None


class TransformerDecoderSettings(TransformerLayers, Kind):
    kind: Literal["transformer"] = "transformer"


class LstmLayers(Settings):
    """What an LSTM encoder and an LSTM decoder have in common (Sutskever et al. 2014)."""

    layers: Depth = 2
    residual: bool = False
    dropout: Probability = Field(0.2, description="between layers and on the attentional hidden")
    embedding_dropout: Probability | None = Field(None, description="default: `dropout`")


class LstmEncoderSettings(LstmLayers, Kind):
    kind: Literal["lstm"] = "lstm"
    bidirectional: Bidirectional = True

    def check_width(self, d_model: int) -> None:
        """Raises ValueError for a model size that two directions cannot share."""
        if self.bidirectional and d_model % 2:
            raise ValueError(f"a bidirectional encoder needs an even d_model, not {d_model}")


class LstmDecoderSettings(LstmLayers, Kind):
    kind: Literal["lstm"] = "lstm"
    attention: RecurrentAttention = "general"
    input_feeding: InputFeeding = True

    @model_validator(mode="after")
    def _something_to_feed(self) -> LstmDecoderSettings:
        if self.attention == "none" and self.input_feeding:
            raise ValueError("without attention there is nothing to feed: set input_feeding: false")
        return self

    def check_width(self, d_model: int) -> None:
        """Any will do."""


class Widths(Kind):
    """What both halves of any pair share."""

    d_model: Width = 512
    tie: Tie = Field("all", description="output with target embedding, or both with source too")


class Surroundings(Widths):
    """What stands around the halves besides."""

    positions: Literal["sinusoidal", "learned"] = Field(
        "sinusoidal", description="for Transformers: an LSTM reads one word after the other"
    )
    max_positions: Length = Field(1024, description="bound of learned positions")
    # What has none is named as before there was the setting: models and runs keep their hashes.
    output_bias: bool = Field(
        False, exclude_if=lambda on: not on, description="added to the logits, as Marian does"
    )


EncoderSettings = Annotated[
    TransformerEncoderSettings | LstmEncoderSettings, Field(discriminator="kind")
]
DecoderSettings = Annotated[
    TransformerDecoderSettings | LstmDecoderSettings, Field(discriminator="kind")
]


class EncoderDecoderSettings(Surroundings):
    """Any encoder with any decoder, as Chen et al. 2018 pair them."""

    kind: Literal["encoder-decoder"] = "encoder-decoder"
    encoder: EncoderSettings = TransformerEncoderSettings()
    decoder: DecoderSettings = TransformerDecoderSettings()

    @model_validator(mode="after")
    def _halves_fit(self) -> EncoderDecoderSettings:
        self.encoder.check_width(self.d_model)
        self.decoder.check_width(self.d_model)
        if self.positions == "sinusoidal" and self.has_positions and self.d_model % 2:
            raise ValueError(f"sinusoidal positions need an even d_model, not {self.d_model}")
        if self.positions == "learned" and not self.has_positions:
            raise ValueError("positions: learned, but neither half is a transformer")
        return self

    @property
    def name(self) -> str:
        return f"{self.encoder.kind} encoder, {self.decoder.kind} decoder"

    @property
    def has_positions(self) -> bool:
        """Whether a half is told which position a word stands at."""
        return "transformer" in (self.encoder.kind, self.decoder.kind)

    @property
    def longest(self) -> int | None:
        """Number of positions that there are, where they end."""
        return self.max_positions if self.positions == "learned" else None

    def halves(self) -> EncoderDecoderSettings:
        """This pair."""
        return self

    def as_transformer(self) -> TransformerSettings:
        """The short name of a pair of Transformers, with the encoder's dropout.

        Raises ValueError naming the setting by which it is none, or its halves are not alike.
        """
        encoder, decoder = self.encoder, self.decoder
        if not isinstance(encoder, TransformerEncoderSettings):
            raise ValueError(f"model.encoder.kind: {encoder.kind}")
        if not isinstance(decoder, TransformerDecoderSettings):
            raise ValueError(f"model.decoder.kind: {decoder.kind}")
        for name in ("ffn", "heads", "norm", "activation"):
            theirs, ours = getattr(encoder, name), getattr(decoder, name)
            if ours != theirs:
                raise ValueError(f"model.decoder.{name}: {ours}, but the encoder's is {theirs}")
        return TransformerSettings(
            **_shared(self, Surroundings),
            **_shared(encoder, TransformerLayers),
            decoder_layers=decoder.layers if decoder.layers != encoder.layers else None,
            neighbourhood=encoder.neighbourhood,
        )


class TransformerSettings(TransformerLayers, Surroundings):
    """Vaswani et al. 2017: a pair of Transformers with layers alike."""

    kind: Literal["transformer"] = "transformer"
    encoder_layers: Depth | None = Field(None, description="where it differs from `layers`")
    decoder_layers: Depth | None = Field(None, description="where it differs from `layers`")
    neighbourhood: Neighbourhood = None

    @model_validator(mode="after")
    def _halves_fit(self) -> TransformerSettings:
        self.halves()
        return self

    def halves(self) -> EncoderDecoderSettings:
        """The pair that this is short for."""
        layers = _shared(self, TransformerLayers)
        encoder = layers | {"layers": self.encoder_layers or self.layers}
        decoder = layers | {"layers": self.decoder_layers or self.layers}
        return EncoderDecoderSettings(
            **_shared(self, Surroundings),
            encoder=TransformerEncoderSettings(**encoder, neighbourhood=self.neighbourhood),
            decoder=TransformerDecoderSettings(**decoder),
        )

    def as_transformer(self) -> TransformerSettings:
        """This one."""
        return self


class Seq2SeqSettings(LstmLayers, Widths):
    """LSTM encoder and decoder: Sutskever 2014; attention of Bahdanau 2015 and Luong 2015."""

    kind: Literal["seq2seq"] = "seq2seq"
    bidirectional: Bidirectional = True
    attention: RecurrentAttention = "general"
    input_feeding: InputFeeding = True

    @model_validator(mode="after")
    def _halves_fit(self) -> Seq2SeqSettings:
        self.halves()
        return self

    def halves(self) -> EncoderDecoderSettings:
        """The pair that this is short for."""
        layers = _shared(self, LstmLayers)
        return EncoderDecoderSettings(
            **_shared(self, Widths),
            encoder=LstmEncoderSettings(**layers, bidirectional=self.bidirectional),
            decoder=LstmDecoderSettings(
                **layers, attention=self.attention, input_feeding=self.input_feeding
            ),
        )

    def as_transformer(self) -> TransformerSettings:
        """Raises ValueError: it is none."""
        raise ValueError(f"model.kind: {self.kind}")


ModelSettings = Annotated[
    TransformerSettings | Seq2SeqSettings | EncoderDecoderSettings, Field(discriminator="kind")
]


def _shared(settings: Settings, kind: type[Settings]) -> dict[str, Any]:
    """The values of those settings that `kind` has."""
    return {name: getattr(settings, name) for name in kind.model_fields if name != "kind"}
