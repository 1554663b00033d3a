"""A model whose facts somebody else wrote translates, or one line says what is wrong with it.

Nothing of its facts becomes markup in the card of an export.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from estimators import ESTIMATOR, write_model_with
from foreign_json import HOSTILE, Place, forge, places_in, replaced
from mtkit.artifacts.manifest import MANIFEST, open_artifact
from mtkit.artifacts.records import dump_record
from mtkit.decoding.api import load
from mtkit.decoding.estimation.estimator import ESTIMATION, load_estimator
from mtkit.errors import UserError
from mtkit.extras.pretrained.card import make_exported_card
from mtkit.info import info
from mtkit.models.folder import open_model

LINES = ["A dog runs.", "It rains on the plain in Spain, 3 times.", ""]
REPORT = {
    "steps": 30,
    "pairs": 400,
    "parameters": 31_936,
    "validation": {"step": 30, "loss": 3.3, "perplexity": 27.6, "bleu": 0.5, "chrf": 3.5},
    "signatures": {"bleu": "nrefs:1|tok:13a", "chrf": "nrefs:1|nc:6|space:no"},
    "given": {"1": {"model": "runs/old", "identity": "ab"}},
    "training_seconds": 1.8,
    "averaged_steps": [30],
    "adaptation": {"share": 1.0},
}
"""The report of a model, as training writes it."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model_with(tmp_path_factory.mktemp("honest") / "model", ESTIMATOR)


def markup_of(card: str) -> str:
    """Return a card without its code, which is shown as it is."""
    without_blocks = re.sub(r"^(`{3,}).*?^\1$", "", card, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", without_blocks)


def test_the_card_of_an_honest_model_has_its_facts(model: Path, tmp_path: Path) -> None:
    card = make_exported_card(open_model(forge(model, tmp_path / "m", MANIFEST, REPORT)), "x", "-")
    assert "31,936 parameters, 400 training pairs, trained for 30 steps" in card
    assert "Adapted from another model: `runs/old → this`." in card
    assert "| validation set, greedy search | BLEU | 0.50 | `nrefs:1\\|tok:13a` |" in card


@pytest.mark.parametrize("place", [*places_in(REPORT)], ids=str)
def test_a_foreign_report_is_no_internal_error_and_no_markup(
    place: Place, model: Path, tmp_path: Path
) -> None:
    for hostile in HOSTILE:
        opened = open_model(
            forge(model, tmp_path / "m", MANIFEST, replaced(REPORT, place, hostile))
        )
        try:
            markup = markup_of(make_exported_card(opened, "transformers", "-"))
        except UserError as error:
            assert f"{MANIFEST} is damaged" in str(error)
        else:
            assert "<img" not in markup and "\x1b" not in markup and "\u2028" not in markup
        info(opened.artifact.path)
        assert opened.name


def estimation() -> Any:
    """Return what ESTIMATION of a model holds, with all that it can hold."""
    facts = ESTIMATOR.facts
    assert facts is not None
    source = replace(facts.statistics.source, votes=Counter(en=30, nl=2), declared="en")
    target = replace(facts.statistics.target, votes=Counter(de=30, nl=2))
    statistics = replace(facts.statistics, source=source, target=target)
    return {
        "facts": dump_record(
            replace(facts, statistics=statistics, unreliable_flags=frozenset(["length"]))
        ),
        "calibration": dump_record(ESTIMATOR.calibration),
    }


@pytest.mark.parametrize("place", [*places_in(estimation())], ids=str)
def test_foreign_facts_are_no_internal_error(place: Place, model: Path, tmp_path: Path) -> None:
    for hostile in HOSTILE:
        folder = forge(model, tmp_path / "m", ESTIMATION, replaced(estimation(), place, hostile))
        try:
            load_estimator(open_artifact(folder, "model"))
        except UserError as error:
            assert f"{ESTIMATION} is damaged" in str(error) and str(error).isprintable()
        else:
            check_use(folder)


@pytest.mark.parametrize("language", ["xx", "tlh", "en-x-oo"])
def test_votes_for_a_language_that_cannot_be_identified_do_no_harm(
    language: str, model: Path, tmp_path: Path
) -> None:
    for side in ("source", "target"):
        place = ("facts", "statistics", side, "votes")
        facts = replaced(estimation(), place, {language: 1_000})
        facts = replaced(facts, ("facts", "statistics", side, "declared"), None)
        check_use(forge(model, tmp_path / "m", ESTIMATION, facts))


def check_use(folder: Path) -> None:
    """Translate with a model, and write the card of its export."""
    translations = load(folder, "cpu", engine="torch").results(LINES)
    assert [line.text.count("\n") for line in translations] == [0] * len(LINES)
    card = make_exported_card(open_model(folder), "transformers", "-")
    assert "<img" not in markup_of(card)
