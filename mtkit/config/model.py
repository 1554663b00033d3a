"""Settings of the architectures: any encoder with any decoder, and two short forms.

`kind: transformer` and `kind: seq2seq` are short for an encoder and a decoder with equal settings;
`as_pair()` returns the long form, from which models are built.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from mtkit.config.base import Probability, Scope, Settings

# A model may come from an untrusted source: these bounds keep it from exhausting memory.
Depth = Annotated[PositiveInt, Field(le=256)]
Width = Annotated[PositiveInt, Field(le=32_768)]
Vocabulary = Annotated[PositiveInt, Field(le=1_000_000)]
Length = Annotated[PositiveInt, Field(le=1_000_000)]
DropoutRate = Annotated[Probability, Scope.TRAINING]
EmbeddingDropout = Annotated[
    Probability | None, Scope.TRAINING, Field(description="default: `dropout`")
]
Tie = Literal["none", "target", "all"]
PositionKind = Literal["sinusoidal", "fairseq", "none"]
Bidirectional = Annotated[bool, Field(description="read the source in both directions")]
InputFeeding = Annotated[bool, Field(description="feed the attentional vector to the next step")]
RecurrentAttention = Annotated[
    Literal["dot", "general", "additive", "none"],
    Field(description="how decoder states score encoder states; none: use only the last state"),
]
Neighbourhood = Annotated[
    Length | None,
    Field(description="largest distance of encoder positions that attend to each other"),
]


class TransformerLayers(Settings):
    """Settings of the layers of a Transformer encoder or decoder (Vaswani et al. 2017)."""

    layers: Depth = Field(6, description="number of layers on each side")
    ffn: Width = Field(2048, description="width of the feed-forward sublayers")
    heads: Width = Field(8, description="attention heads of a layer; they divide d_model")
    norm: Literal["post", "pre"] = Field("post", description="LayerNorm after or before sublayers")
    positions: PositionKind = Field(
        "sinusoidal",
        description="positional encodings; fairseq: the sinusoids of M2M-100 and NLLB; none: the "
        "encoder does not see word order",
    )
    activation: Literal["relu", "gelu", "swish", "gated"] = Field(
        "relu", description="activation of the feed-forward sublayers; gated: SwiGLU"
    )
    dropout: DropoutRate = Field(0.1, description="dropout on the output of each sublayer")
    attention_dropout: DropoutRate = Field(0.0, description="dropout on attention weights")
    activation_dropout: DropoutRate = Field(0.0, description="inside the feed-forward sublayers")
    embedding_dropout: EmbeddingDropout = None


class TransformerEncoderSettings(TransformerLayers):
    """A Transformer encoder."""

    kind: Literal["transformer"] = "transformer"
    neighbourhood: Neighbourhood = None


class TransformerDecoderSettings(TransformerLayers):
    """A Transformer decoder."""

    kind: Literal["transformer"] = "transformer"


class LstmLayers(Settings):
    """Settings that an LSTM encoder and decoder have in common (Sutskever et al. 2014)."""

    layers: Depth = Field(2, description="number of layers on each side")
    residual: bool = Field(False, description="add the input of each layer to its output")
    dropout: DropoutRate = Field(0.2, description="between layers, and on the attentional vector")
    embedding_dropout: EmbeddingDropout = None


class LstmEncoderSettings(LstmLayers):
    """An LSTM encoder."""

    kind: Literal["lstm"] = "lstm"
    bidirectional: Bidirectional = True


class LstmDecoderSettings(LstmLayers):
    """An LSTM decoder with the attention of Bahdanau et al. 2015 or Luong et al. 2015, or none."""

    kind: Literal["lstm"] = "lstm"
    attention: RecurrentAttention = "general"
    input_feeding: InputFeeding = True

    @model_validator(mode="after")
    def _something_to_feed(self) -> LstmDecoderSettings:
        if self.attention == "none" and self.input_feeding:
            raise ValueError("input feeding needs attention; set input_feeding to false")
        return self


class Embeddings(Settings):
    """Settings that encoder and decoder share."""

    kind: str

    d_model: Width = Field(512, description="width of embeddings and layers")
    tie: Tie = Field(
        "all", description="embeddings that share the output weights: target, or both sides (all)"
    )
    output_bias: bool = Field(False, description="add a bias to the logits, as Marian does")

    @model_validator(mode="after")
    def _check_pair(self) -> Embeddings:
        self.as_pair()
        return self

    @abstractmethod
    def as_pair(self) -> EncoderDecoderSettings:
        """Return the long form: settings of the encoder and of the decoder."""

    def as_transformer(self) -> TransformerSettings:
        """Return the short form of two equal Transformers; ValueError names a differing setting."""
        pair = self.as_pair()
        encoder, decoder = pair.encoder, pair.decoder
        if not isinstance(encoder, TransformerEncoderSettings):
            raise ValueError(f"model.encoder.kind is {encoder.kind}")
        if not isinstance(decoder, TransformerDecoderSettings):
            raise ValueError(f"model.decoder.kind is {decoder.kind}")
        for name in ("ffn", "heads", "norm", "positions", "activation"):
            encoder_value = getattr(encoder, name)
            decoder_value = getattr(decoder, name)
            if decoder_value != encoder_value:
                raise ValueError(
                    f"model.decoder.{name} is {decoder_value}, but model.encoder.{name} is "
                    f"{encoder_value}"
                )
        decoder_layers = None if decoder.layers == encoder.layers else decoder.layers
        return pair.part(TransformerSettings, **dict(encoder), decoder_layers=decoder_layers)


class EncoderDecoderSettings(Embeddings):
    """Any encoder with any decoder (Chen et al. 2018)."""

    kind: Literal["encoder-decoder"] = "encoder-decoder"
    encoder: TransformerEncoderSettings | LstmEncoderSettings = Field(
        TransformerEncoderSettings(), discriminator="kind", description="the encoder"
    )
    decoder: TransformerDecoderSettings | LstmDecoderSettings = Field(
        TransformerDecoderSettings(), discriminator="kind", description="the decoder"
    )

    @model_validator(mode="after")
    def _halves_fit(self) -> EncoderDecoderSettings:
        encoder, decoder = self.encoder, self.decoder
        width = self.d_model
        for half in (encoder, decoder):
            if isinstance(half, TransformerLayers) and width % half.heads:
                raise ValueError(f"d_model {width} is not a multiple of heads {half.heads}")
        is_odd = width % 2 == 1
        if isinstance(encoder, LstmEncoderSettings) and encoder.bidirectional and is_odd:
            raise ValueError(f"a bidirectional encoder needs an even d_model, not {width}")
        if self.has_positions and is_odd:
            raise ValueError(f"sinusoidal positions need an even d_model, not {width}")
        # Without attention, the last states of an LSTM encoder are all that the decoder gets.
        has_no_attention = isinstance(decoder, LstmDecoderSettings) and decoder.attention == "none"
        has_lstm_encoder = isinstance(encoder, LstmEncoderSettings)
        if has_lstm_encoder and has_no_attention and encoder.layers > decoder.layers:
            raise ValueError(
                "without attention each decoder layer starts from the encoder layer of the same "
                f"number; set encoder.layers to {decoder.layers} or less, not {encoder.layers}"
            )
        return self

    @property
    def has_positions(self) -> bool:
        """Whether the encoder or the decoder adds positional encodings."""
        return any(
            isinstance(half, TransformerLayers) and half.positions != "none"
            for half in (self.encoder, self.decoder)
        )

    def as_pair(self) -> EncoderDecoderSettings:
        return self


class TransformerSettings(TransformerLayers, Embeddings):
    """Short form of a Transformer encoder and decoder with equal layers (Vaswani et al. 2017)."""

    kind: Literal["transformer"] = "transformer"
    encoder_layers: Depth | None = Field(None, description="layers of the encoder; null: `layers`")
    decoder_layers: Depth | None = Field(None, description="layers of the decoder; null: `layers`")
    neighbourhood: Neighbourhood = None

    def as_pair(self) -> EncoderDecoderSettings:
        encoder = self.part(TransformerEncoderSettings, layers=self.encoder_layers or self.layers)
        decoder = self.part(TransformerDecoderSettings, layers=self.decoder_layers or self.layers)
        return self.part(EncoderDecoderSettings, encoder=encoder, decoder=decoder)


class Seq2SeqSettings(LstmLayers, Embeddings):
    """Short form of an LSTM encoder and decoder with equal layers (Sutskever et al. 2014)."""

    kind: Literal["seq2seq"] = "seq2seq"
    bidirectional: Bidirectional = True
    attention: RecurrentAttention = "general"
    input_feeding: InputFeeding = True

    def as_pair(self) -> EncoderDecoderSettings:
        encoder, decoder = self.part(LstmEncoderSettings), self.part(LstmDecoderSettings)
        return self.part(EncoderDecoderSettings, encoder=encoder, decoder=decoder)


ModelSettings = Annotated[
    TransformerSettings | Seq2SeqSettings | EncoderDecoderSettings, Field(discriminator="kind")
]
