"""The commands of `mtkit bench`: a docstring and a call each, as those of `commands`."""

from __future__ import annotations

import typer

from mtkit.cli.options import (
    BenchBeam,
    BenchConfig,
    BenchInput,
    BenchModel,
    Breakdown,
    Debug,
    Device,
    Engine,
    Json,
    Overrides,
    Plot,
    Precision,
    Quiet,
    Seconds,
    Size,
)

bench = typer.Typer(rich_markup_mode=None)


@bench.callback()
def measure() -> None:
    """Measure how fast this machine is."""


@bench.command("train")
def bench_train(
    config: BenchConfig = None,
    size: Size = None,
    overrides: Overrides = None,
    precision: Precision = None,
    seconds: Seconds = 30.0,
    breakdown: Breakdown = False,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train for a while and report the speed.

    Target tokens per second, how far they are from the limit, memory, padding, waiting.
    """
    chosen = [] if precision is None else [f"training.precision={precision}"]
    from mtkit.study.bench.train import bench_train

    bench_train(
        config,
        [*(overrides or []), *chosen],
        size=size,
        seconds=seconds,
        breakdown=breakdown,
        as_json=json,
    )


@bench.command("ceiling")
def bench_ceiling(
    config: BenchConfig = None,
    size: Size = None,
    overrides: Overrides = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Report the arithmetic limit of training.

    What a model's matrix products alone would allow, by their shapes and precisions.
    """
    from mtkit.study.bench.ceiling import bench_ceiling

    bench_ceiling(config, overrides or [], size=size, as_json=json)


@bench.command("translate")
def bench_translate(
    model: BenchModel = None,
    input: BenchInput = None,
    size: Size = None,
    engine: Engine = "auto",
    beam: BenchBeam = 5,
    device: Device = "auto",
    seconds: Seconds = 10.0,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Translate for a while and report the speed.

    Sentences and target tokens per second, latency of single lines, memory: with every engine that
    can run the model, with a beam and greedily.
    """
    from mtkit.study.bench.translate import bench_translate

    bench_translate(
        model,
        input,
        size=size,
        engine=engine,
        beam=beam,
        device=device,
        seconds=seconds,
        as_json=json,
    )


@bench.command("layers")
def bench_layers(
    plot: Plot = None,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure what a layer costs by the length of its sequence.

    Self-attention, restricted self-attention, recurrent and convolutional layers, beside theory.
    """
    from mtkit.study.bench.layers import bench_layers

    bench_layers(device=device, plot=plot, as_json=json)
