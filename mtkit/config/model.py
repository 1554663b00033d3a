"""Settings of the architectures."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from mtkit.config.base import Probability, Settings

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
