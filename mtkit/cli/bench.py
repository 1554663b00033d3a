"""The commands of `mtkit bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Option

from mtkit.cli.options import Device, Engine, Json, LongCommand, Overrides, Plot, flag

bench = typer.Typer(rich_markup_mode=None, help="Measure how fast this machine is.")

BatchesOf = Annotated[
    Path | None, Option("-c", "--config", help="YAML file: measure the batches of its run.")
]
Size = Annotated[
    Literal["tiny", "base"] | None,
    Option(help="Drawn sentences instead of one's own; default: tiny."),
]
Seconds = Annotated[float, Option(min=0.1, help="How long to measure.")]


@bench.command(cls=LongCommand)
def train(
    config: BatchesOf = None,
    size: Size = None,
    overrides: Overrides = None,
    precision: Literal["auto", "float32", "bfloat16", "float16"] | None = Option(
        None, help="As --set training.precision."
    ),
    seconds: Seconds = 30.0,
    breakdown: bool = flag(
        "--breakdown", help="Divide the time of one process' update among its parts, too."
    ),
    json: Json = False,
) -> None:
    """Train for a while and report the speed.

    Target tokens per second, how far they are from the limit, memory, padding, waiting.
    """
    from mtkit.study.bench.train import bench_train
    from mtkit.study.bench.workload import open_workload

    chosen = [] if precision is None else [f"training.precision={precision}"]
    settings = [*(overrides or []), *chosen]
    command = ["bench", "train", "--seconds", str(seconds), *["--json"] * json]
    given = [("-c", config), ("--size", size), *(("--set", setting) for setting in settings)]
    command += [word for option, value in given if value for word in (option, str(value))]
    with open_workload(config, size, settings) as workload:
        bench_train(workload, command, seconds=seconds, breakdown=breakdown, as_json=json)


@bench.command(cls=LongCommand)
def ceiling(
    config: BatchesOf = None, size: Size = None, overrides: Overrides = None, json: Json = False
) -> None:
    """Report the arithmetic limit of training.

    What a model's matrix products alone would allow, by their shapes and precisions.
    """
    from mtkit.study.bench.ceiling import bench_ceiling
    from mtkit.study.bench.workload import open_workload

    with open_workload(config, size, overrides or []) as workload:
        bench_ceiling(workload, as_json=json)


@bench.command(cls=LongCommand)
def translate(
    models: list[str] | None = Option(
        None,
        "-m",
        "--model",
        metavar="PATH",
        help="Run or model, several for an ensemble; default: one of --size.",
    ),
    input: Path | None = Option(
        None, metavar="FILE", help="Text; default: what the run was tested on."
    ),
    size: Size = None,
    engine: Engine = "auto",
    beam: int = Option(5, min=1, help="Hypotheses; also measured with one."),
    device: Device = "auto",
    seconds: Seconds = 10.0,
    json: Json = False,
) -> None:
    """Translate for a while and report the speed.

    Sentences and target tokens per second, latency of single lines, memory: with every engine that
    can run the model, with a beam and greedily.
    """
    from mtkit.study.bench.translate import bench_translate, open_task

    with open_task(models or [], input, size) as task:
        bench_translate(
            task, engine=engine, beam=beam, device=device, seconds=seconds, as_json=json
        )


@bench.command(cls=LongCommand)
def layers(plot: Plot = None, device: Device = "auto", json: Json = False) -> None:
    """Measure what a layer costs by the length of its sequence.

    Self-attention, restricted self-attention, recurrent and convolutional layers, beside theory.
    """
    from mtkit.study.bench.layers import bench_layers

    bench_layers(device, plot, as_json=json)
