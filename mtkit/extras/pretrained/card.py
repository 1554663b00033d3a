"""Cards of models in the format of the Hugging Face hub: metadata in YAML, then Markdown.

A card says what the folder of the model and its run know. The licence is left to the user: it
depends on the training data, whose terms mtkit does not know.

The card of a run's model is no part of the artifact: no hash covers it, so the user may edit it.
Its last line is a seal, which tells whether anybody has. An edited card belongs to the user, and
moves to the model that replaces this one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from string import Template
from typing import Any, Literal

from pydantic import NonNegativeInt

from mtkit.artifacts.ancestors import describe_ancestors
from mtkit.artifacts.manifest import MANIFEST, VERSION, open_artifact
from mtkit.artifacts.records import load_record
from mtkit.artifacts.storage import open_without_links, write_text
from mtkit.config.language_codes import describe_language, find_language
from mtkit.config.parse import write_yaml
from mtkit.decoding.model_languages import find_model_languages
from mtkit.errors import UserError
from mtkit.models.folder import OpenedModel, open_model
from mtkit.report import printable, say, warn
from mtkit.scoring.metrics import Score, Signature

CARD = "README.md"
TEMPLATES = Path(__file__).with_name("cards")
"""The texts of cards, and how programs translate with a model."""
LICENCE_GAP = "# license: choose one that your training data allows, such as cc-by-4.0"
"""A comment in the metadata, because the hub refuses a licence that it does not know."""
LANGUAGE_GAP = "# language: name source and target, such as [en, de]"
MAX_CARD_CHARACTERS = 1 << 20
"""How much of an edited card an export takes along."""
SEAL = re.compile(r"^<!-- [0-9a-f]{64} -->\n?", re.M)
MODEL_NAME = re.compile(r"model `[0-9a-f]{16}`")
USE_SECTION = re.compile(r"^## Use\n.*?(?=^## |\Z)", re.M | re.S)
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


@dataclass(frozen=True)
class _Validation:
    """The scores of the validation set; None if the text is too short for a metric."""

    bleu: float | None = None
    chrf: float | None = None


@dataclass(frozen=True)
class _Report:
    """What a card says of the report of a model; a model of another program has none."""

    steps: NonNegativeInt | None = None
    pairs: NonNegativeInt | None = None
    parameters: NonNegativeInt | None = None
    validation: _Validation = field(default_factory=_Validation)
    signatures: Mapping[Literal["bleu", "chrf"], Signature] = field(default_factory=dict)


def write_card(model: Path) -> None:
    """Write the card of a run's model; keep a card that was edited."""
    path = model / CARD
    opened = open_model(model)
    written = _read_card(path)
    if written is not None and _is_edited(written):
        described = MODEL_NAME.search(written)
        if described is not None and described[0] != _name_model(opened):
            warn(f"{path} describes an earlier model; update it, or delete it and run this again")
        return
    card = _make_card(opened, "mtkit", _show_code(opened))
    sealed = card + _seal(card)
    if sealed != written:
        write_text(path, sealed)
        say(f"model card: {path}; choose a licence there before you publish the model")


def make_exported_card(opened: OpenedModel, library: str, use: str) -> str:
    """Return the card of an exported model: an edited card of the model, with another use.

    `library`: what the hub calls the library that reads the export; `use`: Markdown that shows how
    to translate with it.
    """
    edited = _read_card(opened.artifact.path / CARD)
    if edited is None or not _is_edited(edited):
        return _make_card(opened, library, use)
    section = "\n".join(_describe_use(opened, use))
    card = SEAL.sub("", edited)
    card = USE_SECTION.sub(lambda _: f"{section}\n", card, count=1)
    return re.sub(r"^library_name: .*", f"library_name: {library}", card, count=1, flags=re.M)


def _read_card(path: Path) -> str | None:
    """Return the text of a card; None if there is none."""
    try:
        # A link in a model from elsewhere could lead to any file of the user.
        with open(path, encoding="utf-8", errors="replace", opener=open_without_links) as file:
            return file.read(MAX_CARD_CHARACTERS)
    except FileNotFoundError:
        return None


def _seal(card: str) -> str:
    return f"<!-- {sha256(card.encode()).hexdigest()} -->\n"


def _is_edited(card: str) -> bool:
    """Return whether anybody has changed a card since mtkit wrote it."""
    text, opening, _ = card.rpartition("<!-- ")
    return not opening or card != text + _seal(text)


def _name_model(opened: OpenedModel) -> str:
    """Return what a card calls the model that it describes, as MODEL_NAME."""
    return f"model `{opened.artifact.identity[:16]}`"


def _show_code(opened: OpenedModel) -> str:
    """Return Markdown that shows how to translate with mtkit."""
    tags = sorted(opened.tokenizer.tags)
    option, argument = (f" --tag {tags[0]}", f', tag="{tags[0]}"') if tags else ("", "")
    return fill_template("mtkit", option=option, argument=argument)


def _make_card(opened: OpenedModel, library: str, use: str) -> str:
    source, targets = _find_languages(opened)
    rows = list(_read_scores(opened))
    return fill_template(
        "card",
        metadata="\n".join(_write_metadata(library, [source, *targets], rows)),
        title=_describe_title(source, targets),
        training="\n".join(_describe_training(opened)),
        use="\n".join(_describe_use(opened, use)),
        scores="".join(f"{line}\n" for line in _tabulate_scores(rows)),
        settings=_fence("yaml", write_yaml(_settings_of(opened)).rstrip("\n")),
    )


def fill_template(name: str, **values: str) -> str:
    """Return a template of the folder `cards` with values in place of `$name`."""
    template = TEMPLATES.joinpath(f"{name}.md").read_text(encoding="utf-8")
    return Template(template).substitute(values)


def _fence(language: str, text: str) -> str:
    """Return a block of code, whose fence is longer than any run of backticks in the text."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _write_metadata(library: str, languages: list[str | None], rows: list[_Row]) -> Iterator[str]:
    """Yield the lines of the metadata; what is unknown is a comment, or left out."""
    from huggingface_hub import ModelCardData

    yield "---"
    yield LICENCE_GAP
    if None in languages:
        yield LANGUAGE_GAP
    metadata = ModelCardData(
        language=list(dict.fromkeys(filter(None, languages))) or None,
        library_name=library,
        pipeline_tag="translation",
        tags=["translation", "mtkit"],
        metrics=list(dict.fromkeys(row.metric for row in rows)) or None,
    )
    yield metadata.to_yaml()
    yield "---"


def _find_languages(opened: OpenedModel) -> tuple[str | None, list[str | None]]:
    """Return the language of the sources, and those of the targets; None if unknown."""
    known = find_model_languages(opened)
    # A target tag need not be the code of a language.
    targets: list[str | None] = [target for target in known.targets if find_language(target)]
    return known.source, targets or [None]


def _describe_title(source: str | None, targets: list[str | None]) -> str:
    if not any([source, *targets]):
        return "Translation model"
    names = [describe_language(tag) if tag else "an unknown language" for tag in [source, *targets]]
    return f"Translation from {names[0]} to {', '.join(names[1:])}"


def _describe_training(opened: OpenedModel) -> Iterator[str]:
    """Yield a paragraph that says what the model is, and what it was trained on, by counts."""
    report = _load_report(opened)
    encoder = opened.config.model.as_pair().encoder.kind
    facts = [f"An encoder-decoder model ({encoder}, width {opened.config.model.d_model:,})"]
    for count, unit in ((report.parameters, "parameters"), (report.pairs, "training pairs")):
        if count is not None:
            facts.append(f"{count:,} {unit}")
    if report.steps is not None:
        facts.append(f"trained for {report.steps:,} steps")
    yield f"{', '.join(facts)}. Made by mtkit {VERSION}, as {_name_model(opened)}."
    ancestors = describe_ancestors(opened.artifact)
    if ancestors is not None:
        # Names may have any characters; inside a code span, only a backtick is markup.
        names = printable(ancestors).replace("`", "'")
        yield f"Adapted from another model: `{names}`."


def _load_report(opened: OpenedModel) -> _Report:
    return load_record(_Report, opened.artifact.report, opened.artifact.path / MANIFEST)


def _describe_use(opened: OpenedModel, use: str) -> Iterator[str]:
    """Yield the section on use, with what mtkit does to text, and other programs do not."""
    yield from ("## Use", "", use)
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
    with suppress(UserError):
        test = open_artifact(opened.run / "test", "test")
        if test.manifest["inputs"].get("model") == opened.artifact.identity:
            for metric in METRIC_NAMES:
                if metric in test.report:
                    yield _Row(
                        "test set",
                        metric,
                        load_record(Score, test.report[metric], test.path / MANIFEST),
                    )
    report = _load_report(opened)
    for metric, signature in report.signatures.items():
        value = getattr(report.validation, metric)
        if value is not None:
            score = Score(METRIC_NAMES[metric], value, signature)
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
