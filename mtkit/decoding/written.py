"""Models write what is missing in `data.train`: RUN/written, before any stage reads it.

What `mtkit translate` does with a file is done with the text of each such corpus; the text and what
was written for it then become an artifact, line by line. What an interrupted process had written
lies beside it, and the next one goes on from there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path
from typing import Any, TextIO

from mtkit.artifacts.explain import FROM, check_addition, check_remake
from mtkit.artifacts.manifest import create, sha256_of
from mtkit.artifacts.recipe import WrittenRecipe
from mtkit.artifacts.runs import locked
from mtkit.artifacts.storage import naming
from mtkit.config.base import dotted
from mtkit.config.corpora import WrittenCorpus
from mtkit.config.decoding import DecodingSettings
from mtkit.config.settings import Config
from mtkit.corpus.files import count_lines, listed_paths
from mtkit.corpus.read import read_pairs
from mtkit.corpus.texts import copied
from mtkit.corpus.validate import look_at
from mtkit.corpus.written import SOURCE, TARGET, Commission, commissions
from mtkit.decoding.api import Translator
from mtkit.decoding.engine import EngineOptions, Request
from mtkit.decoding.model import OpenedModel, open_models
from mtkit.decoding.translate import Files, Format, translate
from mtkit.errors import led_to
from mtkit.report import progress, say

Record = dict[str, Any]
"""A translation as `translate` writes it in JSON, perhaps with others in `n_best`."""
FILES = {"source": SOURCE, "target": TARGET}
TRANSLATIONS, BEGUN = "translations.jsonl", ".begun-"
COUNTED = ("lines", "blank", "empty", "unfinished", "copied")
"""Lines: all; blank ones; those that the models left empty, without an end, or as they were."""


def write_corpora(config: Config) -> None:
    """Makes what is not up to date of RUN/written; all is looked at before anything is made.

    Raises SettingError for text that cannot be read, and for models that cannot write.
    """
    ordered = list(writers(config))
    if ordered:
        look_at(config.data, "train", "valid")
    for commission, models in ordered:
        if commission.current():
            _clear(commission.path)  # of what a process left that was killed at its last step
            say(f"{dotted(commission.key)}: written, and up to date")
        else:
            check_remake(commission.path, "corpus", commission.made_from)
            check_addition(Path(config.run), commission.path)
            _write(config, commission, models)


def writers(config: Config) -> Iterator[tuple[Commission, list[OpenedModel]]]:
    """All that is to be written, and by whom; SettingError as `write_corpora`."""
    for commission in commissions(config):
        changes = {"beam": commission.recipe.beam}
        with led_to((*commission.key, "model")):
            models = open_models(listed_paths(commission.corpus.model), changes)
        yield commission, models


def _write(config: Config, commission: Commission, models: list[OpenedModel]) -> None:
    corpus, recipe, name = commission.corpus, commission.recipe, dotted(commission.key)
    options = EngineOptions(device=config.training.device)
    translator = Translator.of(models, _request(recipe, models[0].config.decoding), options)
    by = " and ".join(listed_paths(corpus.model))
    say(f"{name}: the {_missing(corpus)} is written by {by}")
    report: dict[str, Any] = {FROM: commission.made_from, "engine": translator.engine.name}
    # The settings of the run are those of what is made of the text, once it is.
    with locked(Path(config.run)), naming(commission.path):
        begun = _begun(commission, translator)
        text, translations = begun / FILES[corpus.sides[0]], begun / TRANSLATIONS
        _copy(corpus, begun)
        if not translations.is_file() or count_lines(str(translations)) != count_lines(str(text)):
            files = Files(text, translations, resume=True)
            translate(translator, files, Format(recipe.n_best, jsonl=True))
        settings = recipe.without_defaults()
        with create(commission.path, "corpus", settings, commission.inputs, report) as folder:
            counts = _put_together(commission, begun, folder)
            report |= counts
        shutil.rmtree(begun)
    told = ", ".join(f"{counts[what]:,} {what}" for what in COUNTED)
    say(f"{name}: {told}; {counts['length_ratio']:.2f} times as long as the text")


def _request(recipe: WrittenRecipe, own: DecodingSettings) -> Request:
    """With a beam wide enough for the list that is asked for."""
    beam = own.beam if recipe.sampling else max(own.beam, recipe.n_best or 1)
    return Request(own.model_copy(update={"beam": beam}), recipe.n_best or 1, recipe.sampling)


def _missing(corpus: WrittenCorpus) -> str:
    """The side that is written."""
    return "target" if corpus.source else "source"


def _begun(commission: Commission, translator: Translator) -> Path:
    """A hidden folder for what is not complete; that of any other request for it is deleted."""
    path, asked = commission.path, [commission.inputs, translator.engine.name]
    begun = path.with_name(f"{BEGUN}{path.name}-{sha256_of(asked)[:12]}")
    _clear(path, but=begun)
    begun.mkdir(parents=True, exist_ok=True)
    return begun


def _clear(path: Path, but: Path | None = None) -> None:
    for begun in path.parent.glob(f"{BEGUN}{path.name}-*"):
        if begun != but:
            shutil.rmtree(begun)


def _copy(corpus: WrittenCorpus, folder: Path) -> None:
    """The text as every stage reads it, a file for each side that is there."""
    with ExitStack() as opened:
        files = {
            side: opened.enter_context(_writing(folder / FILES[side])) for side in corpus.sides
        }
        for pair in read_pairs(corpus.as_given()):
            for side, file in files.items():
                file.write(f"{getattr(pair, side)}\n")


def _put_together(commission: Commission, begun: Path, folder: Path) -> dict[str, float]:
    """Writes both sides into `folder`; returns what is to be known of them.

    What is not finished is a blank line as well, so that no model learns to stop halfway.
    """
    corpus, given = commission.corpus, commission.corpus.sides[0]
    texts, rows = _lines(begun / FILES[given]), _lines(begun / TRANSLATIONS)
    references = _lines(begun / TARGET) if corpus.choose_by else repeat("")
    best, report, ratios = _chooser(commission.recipe), dict.fromkeys(COUNTED, 0), 0.0
    shutil.copyfile(begun / FILES[given], folder / FILES[given])
    with (
        _writing(folder / FILES[_missing(corpus)]) as file,
        progress("putting together", count_lines(str(begun / TRANSLATIONS)), "lines") as shown,
    ):
        for (text, row), reference in zip(zip(texts, rows, strict=True), references, strict=False):
            found = best(json.loads(row), reference)
            ours = "" if found["truncated"] else found["text"]
            file.write(f"{ours}\n")
            report["lines"] += 1
            report["blank"] += not text.strip()
            report["unfinished"] += found["truncated"]
            report["empty"] += not (found["text"].strip() or found["truncated"] or not text.strip())
            report["copied"] += copied(text, ours)
            ratios += len(ours) / max(1, len(text))
            shown.advance()
    there = report["lines"] - report["blank"] - report["empty"] - report["unfinished"]
    return report | {"length_ratio": round(ratios / max(1, there), 4)}


def _chooser(recipe: WrittenRecipe) -> Callable[[Record, str], Record]:
    """Which translation it is: the most probable, or the most like the reference.

    Of equals the most probable; one that is not finished only where none is.
    """
    if recipe.choose_by is None:
        return lambda record, _: record
    from mtkit.scoring.metrics import sentence_scorer  # loads sacreBLEU

    score = sentence_scorer(recipe.choose_by, recipe.target_language)

    def choose(record: Record, reference: str) -> Record:
        found: list[Record] = record["n_best"]
        finished = [it for it in found if it["score"] is not None and not it["truncated"]]
        ranked = [(score(it["text"], reference), it["score"]) for it in finished]
        return finished[ranked.index(max(ranked))] if finished else found[0]

    return choose


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", newline="\n") as file:
        yield from (line.removesuffix("\n") for line in file)


def _writing(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8", newline="\n")
