"""Cards of exported models in the format of the Hugging Face hub: metadata in YAML, then Markdown.

A card says what the folder of the model and its run know. The licence is left to the user: it
depends on the training data, whose terms mtkit does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mtkit.artifacts.ancestors import describe_ancestors
from mtkit.artifacts.manifest import VERSION, open_artifact
from mtkit.config.language_codes import describe_language, standard_language
from mtkit.config.parse import write_yaml
from mtkit.decoding.estimation.estimator import load_estimator
from mtkit.errors import UserError
from mtkit.models.folder import OpenedModel
from mtkit.scoring.metrics import Score

CARD = "README.md"
LICENCE_GAP = "# license: choose one that your training data allows, such as cc-by-4.0"
"""A comment in the metadata, because the hub refuses a licence that it does not know."""
LANGUAGE_GAP = "# language: name source and target, such as [en, de]"
METRIC_NAMES = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}
"""The metrics of a card, by their names on the hub."""


@dataclass(frozen=True)
class _Row:
    """A row of the table of scores."""

    text: str
    """The text that was translated."""
    metric: str
    """A key of METRIC_NAMES."""
    score: Score


def make_card(opened: OpenedModel, library: str, use: str) -> str:
    """Return the card of an exported model.

    `library`: what the hub calls the library that reads the export; `use`: Markdown that shows how
    to translate with it.
    """
    source, targets = _find_languages(opened)
    rows = list(_read_scores(opened))
    return "\n".join(
        [
            *_write_metadata(library, [source, *targets], rows),
            "",
            f"# {_describe_title(source, targets)}",
            "",
            *_describe_training(opened),
            "",
            "## Use",
            "",
            use,
            "",
            *_describe_preparation(opened),
            *_tabulate_scores(rows),
            "## Settings",
            "",
            "```yaml",
            write_yaml(_settings_of(opened)).rstrip("\n"),
            "```",
            "",
            "## Licence",
            "",
            "**Not chosen yet.** It depends on the training data. Choose one in the first lines of "
            "this file, and replace this paragraph.",
            "",
        ]
    )


def _write_metadata(library: str, languages: list[str | None], rows: list[_Row]) -> Iterator[str]:
    """Yield the lines of the metadata; what is unknown is a comment, or left out."""
    yield "---"
    yield LICENCE_GAP
    known = list(dict.fromkeys(language for language in languages if language is not None))
    if None in languages:
        yield LANGUAGE_GAP
    metrics = list(dict.fromkeys(row.metric for row in rows))
    metadata: dict[str, Any] = {
        "language": known,
        "library_name": library,
        "pipeline_tag": "translation",
        "tags": ["translation", "mtkit"],
        "metrics": metrics,
    }
    filled = {name: value for name, value in metadata.items() if value}
    yield write_yaml(filled).rstrip("\n")
    yield "---"


def _find_languages(opened: OpenedModel) -> tuple[str | None, list[str | None]]:
    """Return the language of the sources, and those of the targets; None if unknown."""
    facts = load_estimator(opened.artifact).facts
    source = target = None
    if facts is not None:
        sides = facts.statistics.source, facts.statistics.target
        source, target = (side.declared or side.language for side in sides)
    targets: list[str | None] = []
    for tag in sorted(opened.tokenizer.tags):
        with suppress(ValueError):  # a tag need not be the code of a language
            targets.append(standard_language(tag))
    return source, targets or [target]


def _describe_title(source: str | None, targets: list[str | None]) -> str:
    if not any([source, *targets]):
        return "Translation model"
    names = [describe_language(tag) if tag else "an unknown language" for tag in [source, *targets]]
    return f"Translation from {names[0]} to {', '.join(names[1:])}"


def _describe_training(opened: OpenedModel) -> Iterator[str]:
    """Yield a paragraph that says what the model is, and what it was trained on, by counts."""
    report = opened.artifact.report
    encoder = opened.config.model.as_pair().encoder.kind
    facts = [f"An encoder-decoder model ({encoder}, width {opened.config.model.d_model:,})"]
    for name, unit in (("parameters", "parameters"), ("pairs", "training pairs")):
        if isinstance(report.get(name), int):
            facts.append(f"{report[name]:,} {unit}")
    if isinstance(report.get("steps"), int):
        facts.append(f"trained for {report['steps']:,} steps")
    yield f"{', '.join(facts)}. Exported by mtkit {VERSION}."
    ancestors = describe_ancestors(opened.artifact)
    if ancestors is not None:
        yield f"Adapted from another model: `{ancestors}`."


def _describe_preparation(opened: OpenedModel) -> Iterator[str]:
    """Yield what `mtkit translate` does to text, and other programs do not."""
    decoding = opened.config.decoding
    steps: list[str] = []
    if decoding.sentences is not None:
        steps.append("divides lines into sentences")
    if decoding.truecase:
        steps.append("adapts the case of unusual lines")
    if steps:
        yield f"mtkit itself also {' and '.join(steps)}; other programs take lines as they are."
        yield ""


def _read_scores(opened: OpenedModel) -> Iterator[_Row]:
    """Yield the scores of the run's test set, if they are of this model, and of its validation."""
    with suppress(UserError, KeyError, TypeError, ValueError):
        test = open_artifact(opened.run / "test", "test")
        if test.manifest["inputs"].get("model") == opened.artifact.identity:
            for metric in METRIC_NAMES:
                if metric in test.report:
                    yield _Row("test set", metric, Score.from_record(test.report[metric]))
    report = opened.artifact.report
    with suppress(KeyError, TypeError, ValueError):
        for metric, signature in report["signatures"].items():
            value = report["validation"][metric]
            if value is not None:
                score = Score(METRIC_NAMES[metric], float(value), str(signature))
                yield _Row("validation set, greedy search", metric, score)


def _tabulate_scores(rows: list[_Row]) -> Iterator[str]:
    """Yield the section with the scores and their signatures; nothing without scores."""
    if not rows:
        return
    yield from ("## Scores", "", "| text | metric | score | sacreBLEU signature |")
    yield "|---|---|---|---|"
    for row in rows:
        signature = row.score.signature.replace("|", r"\|")
        yield f"| {row.text} | {row.score.name} | {row.score} | `{signature}` |"
    yield ""


def _settings_of(opened: OpenedModel) -> dict[str, Any]:
    """Return the settings of the model, and those of decoding that are not the default."""
    settings = {
        "model": opened.config.model.model_dump(mode="json", exclude_none=True),
        "decoding": opened.config.decoding.model_dump(mode="json", exclude_defaults=True),
    }
    return {name: values for name, values in settings.items() if values}
