"""What is stored as JSON is restored as it was; anything else is refused in one line."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreign_json import HOSTILE, places_in, replaced
from mtkit.artifacts.records import dump_record, load_record
from mtkit.corpus.read import Pair
from mtkit.corpus.statistics import CorpusStatistics, SideStatistics
from mtkit.decoding.estimation.estimator import Calibration, Features
from mtkit.errors import UserError
from mtkit.extras.adapt.adaptation import Adaptation
from mtkit.scoring.comparison import BeforeAndAfter
from mtkit.scoring.metrics import Score
from mtkit.scoring.quality import PartScores, QualityReport

BLEU = Score("BLEU", 35.0, "nrefs:1|case:mixed|tok:13a|version:2.6.0", (30.0, 40.0), 0.25, 1.0)
CHRF = Score("chrF2", 60.5, "nrefs:1|nc:6", difference=2.0)
SIDE = SideStatistics(frozenset(["LATIN", "HAN"]), Counter(en=30, gcf=1), "de")
RECORDS = [
    CorpusStatistics(SIDE, SideStatistics(frozenset(), Counter()), ratio=1.25, spread=0.12),
    Calibration(1.5, Features(1.5, 0.25), 0.15, -0.01, 0.01, 500),
    Adaptation(0.5, 1.0, BeforeAndAfter(40, BLEU, CHRF), BeforeAndAfter(30, CHRF, BLEU)),
    Adaptation(0.0, 0.5, BeforeAndAfter(40, BLEU, CHRF)),
    QualityReport({"bleu": BLEU, "chrf": CHRF}),
    QualityReport({"bleu": BLEU}, "1 source", {"all": PartScores(4, {"chrf": CHRF})}, 20_000),
    QualityReport({"chrf": CHRF}, tags={"de": PartScores(0, {})}),
]
"""One of each kind of record, and some with other fields unset."""
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=5,
)


def numbers_in(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(inner)
    elif isinstance(value, float):
        yield value


@pytest.mark.parametrize("value", RECORDS, ids=lambda value: type(value).__name__)
def test_a_record_is_restored_as_it_was(value: Any) -> None:
    stored = json.loads(json.dumps(dump_record(value), sort_keys=True))
    assert load_record(type(value), stored, Path("x.json")) == value


@pytest.mark.parametrize("value", RECORDS, ids=lambda value: type(value).__name__)
def test_a_foreign_value_is_refused_in_one_line_or_has_the_type_of_its_field(value: Any) -> None:
    record = dump_record(value)
    for place in places_in(record):
        for hostile in HOSTILE:
            try:
                foreign = replaced(record, place, hostile)
                restored = load_record(type(value), foreign, Path("x.json"))
            except UserError as error:
                assert str(error).startswith("x.json is damaged (") and str(error).isprintable()
                assert len(str(error)) < 400
            else:
                assert all(map(math.isfinite, numbers_in(dump_record(restored))))


@given(anything)
def test_json_of_no_record_is_refused_in_one_line(record: Any) -> None:
    for value in RECORDS:
        if not isinstance(value, QualityReport):  # a report may have no scores
            with pytest.raises(UserError, match=r"^x\.json is damaged \("):
                load_record(type(value), record, Path("x.json"))


def test_numbers_out_of_bounds_and_names_with_markup_are_no_record() -> None:
    statistics = dump_record(RECORDS[0])
    for place, foreign in [
        (("ratio",), 1e308),
        (("ratio",), 0),
        (("spread",), 1e-300),
        (("target", "declared"), "no language at all"),
        (("source", "votes"), {"en": "many"}),
        (("source", "votes"), {"en": -1}),
        (("source", "votes"), {"en": 10**400}),
        (("source", "votes"), {"<b>": 1}),
        (("source", "scripts"), ["<b>"]),
    ]:
        with pytest.raises(UserError, match=f"damaged \\({'.'.join(place)}"):
            load_record(CorpusStatistics, replaced(statistics, place, foreign), Path("x.json"))
    for field in ("name", "signature"):
        for foreign in ("a`\n<img src=x onerror=alert(1)>", "<b>", "a\n", "`", "\x1b"):
            with pytest.raises(UserError, match=f"damaged \\({field}"):
                load_record(Score, dump_record(BLEU) | {field: foreign}, Path("x.json"))


def test_text_is_neither_stored_with_statistics_nor_read_from_them() -> None:
    pair = Pair("secret", "secret", 0, "file", 1)
    statistics = CorpusStatistics(SIDE, SIDE, 1.0, 0.5, (pair,), held_out=frozenset([1]))
    record = dump_record(statistics)
    assert "secret" not in json.dumps(record)
    for foreign in ({"sample": [list(pair)]}, {"held_out": [1]}):
        with pytest.raises(UserError, match="does not belong in this file"):
            load_record(CorpusStatistics, record | foreign, Path("x.json"))
    assert load_record(CorpusStatistics, record, Path("x.json")).sample == ()
