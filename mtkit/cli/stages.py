"""The commands of the stages: three by what a config says, all in order, `finish`, `translate`.

What takes time to import is imported inside the commands: help and errors come at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from mtkit import report
from mtkit.cli.options import (
    ComputeType,
    Device,
    Engine,
    Models,
    Overrides,
    flag,
    located,
    of_fields,
    refuse,
)
from mtkit.errors import UserError

if TYPE_CHECKING:
    from mtkit.config.base import Settings
    from mtkit.config.decoding import SamplingSettings

MOST_THREADS = 1024
"""With many times more, CTranslate2 ends the process."""
STAGES = {
    "run": (
        ("mtkit.pipeline:run",),
        "Do all stages, then score the test set.\n\n"
        "Stages whose results are up to date are skipped.",
    ),
    "train-spm": (
        ("mtkit.tokenizer.train:train_tokenizer",),
        "Stage 1: train the tokenizer.\n\nSentencePiece on the training text, into RUN/tokenizer/.",
    ),
    "batch": (
        ("mtkit.batching.build:build_batches",),
        "Stage 2: prepare the training data.\n\n"
        "Reads, filters and encodes the corpora, into RUN/batches/.",
    ),
    "train": (
        ("mtkit.training.train:train",),
        "Stage 3: train, or resume training.\n\n"
        "A run that was interrupted goes on by itself, or ends with the best so far by `mtkit "
        "finish`; the model comes into RUN/model/.",
    ),
}
"""The commands that do what a config says: the functions that each calls, and its help."""


def stage_of(places: Sequence[str]) -> Callable[..., None]:
    """The command that calls each function `module:function` with the config."""

    def stage(
        config: Path | None = Option(
            None, "-c", "--config", help="YAML file; default: ./mtkit.yaml, else the demo's."
        ),
        run: str | None = Option(None, help="Folder to write to, not the config's."),
        overrides: Overrides = None,
    ) -> None:
        from mtkit.config.yaml import read_config

        settings, origin = read_config(config, overrides or [], run)
        if origin.is_demo:
            report.say("no mtkit.yaml here: working on the demo, English to Korean (see --config)")
        with located(origin):
            for place in places:
                resolve_name(place)(settings)

    return stage


def finish(
    run: Path | None = Argument(None, metavar="RUN", help="Folder of the run; default: the last."),
) -> None:
    """End training early: the best so far becomes the model.

    All is done that comes after training, up to the scores on the test set, but no more updates.
    `mtkit run` trains on later as if nothing had happened, and replaces the model when it ends.
    """
    from mtkit.pipeline import finish

    finish(run)


@dataclass(frozen=True)
class TranslateOptions:
    """What `mtkit translate` can be told."""

    text: Path | None = Argument(None, metavar="INPUT", help="Text; default: stdin.")
    models: Models = None
    output: Path | None = Option(None, "-o", "--output", help="File to write; default: stdout.")
    beam: int | None = Option(None, help="Hypotheses kept at each step.")
    n_best: int | None = Option(None, min=1, help="Lines for each: index, score, text.")
    length_penalty: float | None = Option(None, help="alpha in log P / |y|^alpha.")
    min_length: int | None = Option(None, help="Subwords, at least.")
    max_length: int | None = Option(None, help="Subwords, at most; longer input is split.")
    no_repeat_ngram: int | None = Option(None, help="No so many subwords in a row come twice.")
    repetition_penalty: float | None = Option(
        None, help="Above 1: subwords that are there already become less probable."
    )
    prefix: Path | None = Option(
        None, metavar="FILE", help="How each line's translation begins, line by line."
    )
    alignments: bool = flag(
        "--alignments", help="Add a tab and which words belong together: 0-0 1-2."
    )
    jsonl: bool = flag("--jsonl", help="A JSON object for each line.")
    sample: bool = flag("--sample", help="Draw at random instead of searching.")
    temperature: float | None = Option(
        None, help="With --sample: below 1 sharper, above 1 flatter."
    )
    top_k: int | None = Option(None, help="With --sample: among the k most probable.")
    top_p: float | None = Option(None, help="With --sample: among the fewest that sum to p.")
    seed: int | None = Option(None, help="With --sample: of the random numbers.")
    device: Device = "auto"
    engine: Engine = "auto"
    compute_type: ComputeType = Option(
        "auto", help="Type of numbers; auto: float32. What int8 costs, `mtkit export` measures."
    )
    workers: int | None = Option(
        None, min=1, max=MOST_THREADS, help="Batches at a time; default: one per core."
    )
    threads: int | None = Option(None, min=1, max=MOST_THREADS, help="Threads of each worker.")
    resume: bool = flag("--resume", help="With -o: go on where an interrupted command stopped.")

    def among(self, settings: type[Settings]) -> dict[str, Any]:
        """Those options that are settings of this section, by their names."""
        return {name: vars(self)[name] for name in settings.model_fields if name in vars(self)}


@of_fields
def translate(options: TranslateOptions) -> None:
    """Stage 4: translate, one line for each line.

    Raw text in, raw text out. What is not set here is as the model was trained for.
    """
    sampling = _sampling(options)
    from mtkit.config.decoding import DecodingSettings
    from mtkit.decoding.api import Translator
    from mtkit.decoding.engine import EngineOptions, Request
    from mtkit.decoding.translate import Files, Format, translate
    from mtkit.models.folder import open_models

    files = Files(options.text, options.output, options.prefix, options.resume)
    shape = Format(options.n_best, options.jsonl, options.alignments)
    machine = EngineOptions(
        options.engine, options.compute_type, options.device, options.workers, options.threads
    )
    models = open_models(options.models or [None], options.among(DecodingSettings))
    settings, count = models[0].config.decoding, options.n_best or 1
    has_scores = options.jsonl or options.n_best is not None
    request = Request(settings, count, sampling, attention=options.alignments, scores=has_scores)
    with report.writing_stdout() if options.output is None else nullcontext():
        translate(Translator.of(models, request, machine), files, shape)


def _sampling(options: TranslateOptions) -> SamplingSettings | None:
    """Raises UserError for settings that cannot be, or that have nothing to set."""
    from pydantic import ValidationError

    from mtkit.config.base import first_complaint
    from mtkit.config.decoding import SamplingSettings

    if not options.sample:
        refuse("only with --sample", options, SamplingSettings.model_fields)
        return None
    refuse("not with --sample, which searches for nothing", options, ("beam", "length_penalty"))
    given = options.among(SamplingSettings)
    try:
        return SamplingSettings.model_validate({k: v for k, v in given.items() if v is not None})
    except ValidationError as error:
        setting, complaint = first_complaint(error)
        raise UserError(f"--{setting.replace('_', '-')}: {complaint}") from None
