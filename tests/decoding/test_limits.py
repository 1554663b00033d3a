"""Laws of the limits for text with references: they cut what no reference is as long as."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from folders import SENTENCES, train
from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.engines.engine import Request
from mtkit.decoding.limits import COVERED_REFERENCES, limit_lengths, max_test_seconds

TOKENIZER = train()
LINES = st.lists(
    st.tuples(*[st.lists(st.sampled_from(SENTENCES), max_size=9).map(" ".join)] * 2), min_size=1
)


@given(LINES, st.integers(2, 300), st.integers(0, 2))
def test_every_line_has_one_limit_which_covers_its_source_and_the_references(
    lines: list[tuple[str, str]], max_length: int, min_length: int
) -> None:
    sources, references = zip(*lines, strict=True)
    settings = DecodingSettings(max_length=max_length, min_length=min_length)
    groups = limit_lengths(sources, references, TOKENIZER, Request(settings))
    assert sorted(row for group in groups for row in group.rows) == list(range(len(lines)))
    limits = {row: group.request.settings.max_length for group in groups for row in group.rows}
    source_lengths = [len(ids) for ids in TOKENIZER.encode_source(list(sources))]
    target_lengths = [len(ids) for ids in TOKENIZER.encode_target(list(references))]
    for row, length in enumerate(source_lengths):
        assert limits[row] == max_length or length < limits[row] < max_length
    covered = sum(
        limits[row] in (max_length, max(limits[row], target_lengths[row])) for row in limits
    )
    assert covered >= int(COVERED_REFERENCES * len(lines))


def test_a_short_source_has_a_lower_limit_than_a_long_one_and_its_reference_does_not_matter() -> (
    None
):
    sources = ["Why?"] * 5 + ["A dog runs. " * 9] * 5
    references = ["Why?"] * 5 + ["A dog runs. " * 9] * 5

    def limits(references: list[str]) -> list[int]:
        groups = limit_lengths(sources, references, TOKENIZER, Request(DecodingSettings()))
        rows = {row: group.request.settings.max_length for group in groups for row in group.rows}
        return [rows[row] for row in range(10)]

    assert len({*limits(references)[:5]}) == len({*limits(references)[5:]}) == 1
    assert limits(references)[0] < limits(references)[5] < DecodingSettings().max_length
    assert limits([*references[1:5], "", *references[5:]])[0] == limits(references)[0]


def test_a_long_training_gives_the_test_set_more_time() -> None:
    assert max_test_seconds(0.0) == max_test_seconds(60.0) < max_test_seconds(600.0) < 150
