"""Commands of `mtkit bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from mtkit.cli.options import Device, Engine, Json, Overrides, Plot
from mtkit.errors import UserError

BatchesOf = Annotated[
    Path | None, Option("-c", "--config", help="YAML config: measure with the batches of its run.")
]
Size = Annotated[
    Literal["tiny", "base"] | None,
    Option(help="Size of a model with random sentences (default: tiny)."),
]
Seconds = Annotated[float, Option(min=0.1, help="Duration of a measurement, in seconds.")]


def train(
    config: BatchesOf = None,
    size: Size = None,
    overrides: Overrides = None,
    precision: Literal["auto", "float32", "bfloat16", "float16"] | None = Option(
        None, help="Short for --set training.precision=..."
    ),
    seconds: Seconds = 30.0,
    json: Json = False,
) -> None:
    """Measure the speed of training.

    Target tokens per second, share of the arithmetic limit, memory, padding, waiting time.
    """
    from mtkit.study.bench.train import bench_train

    if config is not None and size is not None:
        raise UserError("--size: not with -c: the config says what to measure")
    settings = [*(overrides or []), *([f"training.precision={precision}"] if precision else [])]
    bench_train(config, size or "tiny", settings, seconds, json)


def translate(
    models: list[str] | None = Option(
        None,
        "-m",
        "--model",
        metavar="PATH",
        help="Run or model directory; repeat for an ensemble (default: a random one, see --size).",
    ),
    input: Path | None = Option(
        None, metavar="FILE", help="Text to translate (default: the run's test set)."
    ),
    size: Size = None,
    engine: Engine = "auto",
    beam: int = Option(5, min=1, help="Beam size; greedy search is measured too."),
    device: Device = "auto",
    seconds: Seconds = 10.0,
    json: Json = False,
) -> None:
    """Measure the speed of translation.

    Sentences and target tokens per second, latency of single lines, and memory, for each engine
    that supports the model.
    """
    from mtkit.study.bench.translate import bench_translate, open_translation_task

    if models and size is not None:
        raise UserError("--size: not with -m: the model says what to measure")
    if input is not None and not models:
        raise UserError("--input: only with -m: random models cannot translate text")
    with open_translation_task(models or [], input, size or "tiny") as task:
        bench_translate(
            task, engine=engine, beam=beam, device=device, seconds=seconds, as_json=json
        )


def layers(plot: Plot = None, device: Device = "auto", json: Json = False) -> None:
    """Measure what a layer costs as sequences get longer.

    Self-attention, restricted self-attention, recurrent and convolutional layers, and theory.
    """
    from mtkit.study.bench.layers import bench_layers

    bench_layers(device, plot, as_json=json)
