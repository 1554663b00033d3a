"""Commands of `mtkit bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from mtkit.cli.options import Device, Json, Overrides
from mtkit.errors import UserError

BatchesOf = Annotated[
    Path | None,
    Option("-c", "--config", help="YAML config to measure, with the batches of its run."),
]
Size = Annotated[
    Literal["tiny", "base"] | None,
    Option(help="Measure a random model of this size on random sentences (default: tiny)."),
]
SECONDS_HELP = "Duration of each measurement, in seconds"


def train(
    config: BatchesOf = None,
    size: Size = None,
    overrides: Overrides = None,
    seconds: float = Option(30.0, min=0.1, help=f"{SECONDS_HELP} (default: 30)."),
    json: Json = False,
) -> None:
    """Measure the speed of training.

    Prints target tokens per second, memory, padding, and time spent waiting for data.
    Example: mtkit bench train --size base
    """
    from mtkit.study.bench.training_speed import bench_train

    if config is not None and size is not None:
        raise UserError("--size cannot be used with -c, because the config says what to measure")
    bench_train(config, size or "tiny", overrides or [], seconds, json)


def translate(
    model: str | None = Option(
        None,
        "-m",
        "--model",
        metavar="PATH",
        help="Directory of a run or a model (default: a random model).",
    ),
    input: Path | None = Option(
        None, metavar="FILE", help="Text to translate (default: the test set of the run)."
    ),
    size: Size = None,
    engine: Literal["auto", "torch", "ctranslate2"] = Option(
        "auto", help="Engine to measure (default: auto, every engine that supports the model)."
    ),
    beam: int = Option(5, min=1, help="Beam size (default: 5); greedy search is also measured."),
    device: Device = "auto",
    seconds: float = Option(10.0, min=0.1, help=f"{SECONDS_HELP} (default: 10)."),
    json: Json = False,
) -> None:
    """Measure the speed of translation.

    Prints sentences and target tokens per second, latency of single lines, and memory, for each
    engine that supports the model.
    Example: mtkit bench translate -m runs/latest
    """
    from mtkit.study.bench.translation_speed import bench_translate, open_translation_task

    if model and size is not None:
        raise UserError("--size cannot be used with -m, because -m gives the model")
    if input is not None and not model:
        raise UserError("--input needs -m, because a random model cannot translate text")
    with open_translation_task(model, input, size or "tiny") as task:
        bench_translate(
            task, engine=engine, beam=beam, device=device, seconds=seconds, as_json=json
        )


def layers(device: Device = "auto", json: Json = False) -> None:
    """Measure how the cost of a layer grows with the sequence length.

    Prints time and memory of self-attention, restricted self-attention, recurrent and
    convolutional layers, and compares them with theory.
    Example: mtkit bench layers
    """
    from mtkit.study.bench.layer_speed import bench_layers

    bench_layers(device, as_json=json)
