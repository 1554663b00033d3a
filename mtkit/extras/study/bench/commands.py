"""Commands of `mtkit bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from mtkit.cli.options import CommandGroup, Device, Json, Model, Overrides
from mtkit.errors import UserError

SECONDS_HELP = "Duration of each measurement, in seconds"


def train(
    config: Annotated[
        Path | None,
        Option("-c", "--config", help="YAML config to measure, with the batches of its run."),
    ] = None,
    size: Annotated[
        Literal["tiny", "base"] | None,
        Option(help="Measure a random model of this size on random sentences (default: tiny)."),
    ] = None,
    overrides: Overrides = None,
    seconds: Annotated[float, Option(min=0.1, help=f"{SECONDS_HELP} (default: 30).")] = 30.0,
    json: Json = False,
) -> None:
    """Measure the speed of training.

    Prints target tokens per second, memory, padding, and time spent waiting for data.
    Example: mtkit bench train --size base
    """
    from mtkit.extras.study.bench.training_speed import bench_train

    if config is not None and size is not None:
        raise UserError("--size cannot be used with -c, because the config says what to measure")
    bench_train(config, size or "tiny", overrides or [], seconds, json)


def translate(
    model: Model = None,
    input: Annotated[
        Path | None,
        Option(metavar="FILE", help="Text to translate (default: the test set of the run)."),
    ] = None,
    engine: Annotated[
        Literal["auto", "torch", "ctranslate2"],
        Option(help="Engine to measure (default: auto, every engine that supports the model)."),
    ] = "auto",
    beam: Annotated[
        int, Option(min=1, help="Beam size (default: 5); greedy search is also measured.")
    ] = 5,
    device: Device = "auto",
    seconds: Annotated[float, Option(min=0.1, help=f"{SECONDS_HELP} (default: 10).")] = 10.0,
    json: Json = False,
) -> None:
    """Measure the speed of translation.

    Prints for each engine that supports the model: sentences and target tokens per second, latency
    of single lines, and memory.
    Example: mtkit bench translate -m runs/latest
    """
    from mtkit.extras.study.bench.translation_speed import bench_translate

    bench_translate(
        model, input, engine=engine, beam=beam, device=device, seconds=seconds, as_json=json
    )


def layers(device: Device = "auto", json: Json = False) -> None:
    """Measure how the cost of a layer grows with the sequence length.

    Prints time and memory of self-attention, restricted self-attention, recurrent and
    convolutional layers, and compares them with theory.
    Example: mtkit bench layers
    """
    from mtkit.extras.study.bench.layer_speed import bench_layers

    bench_layers(device, as_json=json)


COMMANDS = CommandGroup(
    help="Measure how fast this machine trains and translates.",
    commands={"train": train, "translate": translate, "layers": layers},
)
"""The commands of `mtkit bench`."""
