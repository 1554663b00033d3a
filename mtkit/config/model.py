"""Settings of the architectures: any encoder with any decoder, and short names for two pairs.

`kind: transformer` and `kind: seq2seq` pair halves that share their settings. Each opens into its
`halves()`, and whoever builds a model, or judges one, reads those alone.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from mtkit.config.base import Probability, Settings

# A model may come from anybody: none is so large that building it, or searching with it, does harm.
Depth = Annotated[PositiveInt, Field(le=256)]
Width = Annotated[PositiveInt, Field(le=32_768)]
Vocabulary = Annotated[PositiveInt, Field(le=1_000_000)]
Length = Annotated[PositiveInt, Field(le=1_000_000)]
Tie = Literal["none", "target", "all"]
RecurrentAttention = Literal["dot", "general", "additive", "none"]
Neighbourhood = Annotated[
    Length | None, Field(description="encoder positions at most so far apart attend to each other")
]


class Kind(Settings):
    """A section that comes in kinds; each class says which it is."""

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
    bidirectional: bool = True


class LstmDecoderSettings(LstmLayers, Kind):
    """Attention of Bahdanau et al. 2015 and Luong et al. 2015."""

    kind: Literal["lstm"] = "lstm"
    attention: RecurrentAttention = "general"
    input_feeding: bool = True

    @model_validator(mode="after")
    def _something_to_feed(self) -> LstmDecoderSettings:
        if self.attention == "none" and self.input_feeding:
            raise ValueError("without attention there is nothing to feed: set input_feeding: false")
        return self


class Embeddings(Kind):
    """What both halves of any pair share."""

    d_model: Width = 512
    tie: Tie = Field("all", description="output with target embedding, or both with source too")

    @model_validator(mode="after")
    def _halves_fit(self) -> Embeddings:
        self.halves()
        return self

    @abstractmethod
    def halves(self) -> EncoderDecoderSettings:
        """The pair that this is, or is short for."""

    def as_transformer(self) -> TransformerSettings:
        """The short name of a pair of Transformers, with the encoder's dropout.

        Raises ValueError naming the setting by which it is none, or its halves are not alike.
        """
        raise ValueError(f"model.kind: {self.kind}")

    def check_length(self, setting: str, length: int) -> None:
        """Sinusoids go on for ever; learned positions end, and EOS or BOS takes one more."""
        end = self.halves().longest
        if end is not None and length >= end:
            raise ValueError(f"{setting}: {length} needs model.max_positions above it, not {end}")


class Surroundings(Embeddings):
    """All that stands around the halves."""

    positions: Literal["sinusoidal", "learned"] = Field(
        "sinusoidal", description="of Transformers: an LSTM reads one word after the other"
    )
    max_positions: Length = Field(1024, description="bound of learned positions")
    output_bias: bool = Field(False, description="added to the logits, as Marian does")


class EncoderDecoderSettings(Surroundings):
    """Any encoder with any decoder, as Chen et al. 2018 pair them."""

    kind: Literal["encoder-decoder"] = "encoder-decoder"
    encoder: TransformerEncoderSettings | LstmEncoderSettings = Field(
        TransformerEncoderSettings(), discriminator="kind"
    )
    decoder: TransformerDecoderSettings | LstmDecoderSettings = Field(
        TransformerDecoderSettings(), discriminator="kind"
    )

    @model_validator(mode="after")
    def _widths_fit(self) -> EncoderDecoderSettings:
        width, is_odd = self.d_model, self.d_model % 2 == 1
        for half in (self.encoder, self.decoder):
            if isinstance(half, TransformerLayers) and width % half.heads:
                raise ValueError(f"d_model {width} is no multiple of heads {half.heads}")
        if isinstance(self.encoder, LstmEncoderSettings) and self.encoder.bidirectional and is_odd:
            raise ValueError(f"a bidirectional encoder needs an even d_model, not {width}")
        if self.has_positions and self.positions == "sinusoidal" and is_odd:
            raise ValueError(f"sinusoidal positions need an even d_model, not {width}")
        return self

    @model_validator(mode="after")
    def _every_layer_is_heard(self) -> EncoderDecoderSettings:
        encoder, decoder = self.encoder, self.decoder
        has_no_attention = isinstance(decoder, LstmDecoderSettings) and decoder.attention == "none"
        is_lstm = isinstance(encoder, LstmEncoderSettings)
        if has_no_attention and is_lstm and encoder.layers > decoder.layers:
            raise ValueError(
                "without attention a layer of the decoder starts from one of the encoder: "
                f"set encoder.layers to {decoder.layers} or less, not {encoder.layers}"
            )
        return self

    @property
    def name(self) -> str:
        """As it is called in a sentence."""
        return f"{self.encoder.kind} encoder, {self.decoder.kind} decoder"

    @property
    def has_positions(self) -> bool:
        """Whether a half is told at which position a word stands."""
        return "transformer" in (self.encoder.kind, self.decoder.kind)

    @property
    def longest(self) -> int | None:
        """Number of positions that there are, where they end."""
        return self.max_positions if self.has_positions and self.positions == "learned" else None

    def halves(self) -> EncoderDecoderSettings:
        return self

    def as_transformer(self) -> TransformerSettings:
        encoder, decoder = self.encoder, self.decoder
        if not isinstance(encoder, TransformerEncoderSettings):
            raise ValueError(f"model.encoder.kind: {encoder.kind}")
        if not isinstance(decoder, TransformerDecoderSettings):
            raise ValueError(f"model.decoder.kind: {decoder.kind}")
        for name in ("ffn", "heads", "norm", "activation"):
            theirs, ours = getattr(encoder, name), getattr(decoder, name)
            if ours != theirs:
                raise ValueError(f"model.decoder.{name}: {ours}, but the encoder's is {theirs}")
        layers = decoder.layers if decoder.layers != encoder.layers else None
        return self.part(TransformerSettings, **dict(encoder), decoder_layers=layers)


class TransformerSettings(TransformerLayers, Surroundings):
    """Vaswani et al. 2017: short for a pair of Transformers whose layers are alike."""

    kind: Literal["transformer"] = "transformer"
    encoder_layers: Depth | None = Field(None, description="where it differs from `layers`")
    decoder_layers: Depth | None = Field(None, description="where it differs from `layers`")
    neighbourhood: Neighbourhood = None

    def halves(self) -> EncoderDecoderSettings:
        encoder = self.part(TransformerEncoderSettings, layers=self.encoder_layers or self.layers)
        decoder = self.part(TransformerDecoderSettings, layers=self.decoder_layers or self.layers)
        return self.part(EncoderDecoderSettings, encoder=encoder, decoder=decoder)

    def as_transformer(self) -> TransformerSettings:
        return self


class Seq2SeqSettings(LstmLayers, Embeddings):
    """Sutskever et al. 2014: short for a pair of LSTMs whose layers are alike."""

    kind: Literal["seq2seq"] = "seq2seq"
    bidirectional: bool = True
    attention: RecurrentAttention = "general"
    input_feeding: bool = True

    def halves(self) -> EncoderDecoderSettings:
        encoder, decoder = self.part(LstmEncoderSettings), self.part(LstmDecoderSettings)
        return self.part(EncoderDecoderSettings, encoder=encoder, decoder=decoder)


ModelSettings = Annotated[
    TransformerSettings | Seq2SeqSettings | EncoderDecoderSettings, Field(discriminator="kind")
]
