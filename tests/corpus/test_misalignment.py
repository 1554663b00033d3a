"""Misaligned files: where lines were lost or added, passages are found with their shift."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from mtkit.corpus.misalignment import Passage, find_passages, line_features
from parallel import LINES, check_corpus, random_words, write_corpus

TONES = ["light", "medium", "dark", "pale", "rosy"]


def sides() -> tuple[list[str], list[str]]:
    return [source for source, _ in LINES], [target for _, target in LINES]


def passages(sources: list[str], targets: list[str]) -> list[Passage]:
    return find_passages(line_features(sources), line_features(targets))


@pytest.mark.parametrize("at", [0, 700, 2400])
@pytest.mark.parametrize("lost", [1, 4])
def test_a_shift_begins_where_lines_were_lost(at: int, lost: int) -> None:
    sources, targets = sides()
    del targets[at : at + lost]
    *before, last = passages(sources[: len(targets)], targets)
    assert last.shift == -lost
    assert abs(last.first - at) <= 3
    assert all(passage.shift == 0 for passage in before)


def test_a_shift_ends_where_the_files_match_again() -> None:
    sources, targets = sides()
    targets[500:900] = ["아무 말", *targets[500:899]]
    found = passages(sources, targets)
    assert [passage.shift for passage in found] == [0, 1, 0]
    assert abs(found[1].first - 500) <= 3
    assert abs(found[2].first - 899) <= 3


def test_aligned_files_are_one_passage_and_shuffled_ones_unrelated() -> None:
    sources, targets = sides()
    assert passages(sources, targets) == [Passage(0, len(LINES), 0)]
    order = sorted(range(len(LINES)), key=lambda row: LINES[row])
    ordered = [[side[row] for row in order] for side in (sources, targets)]
    assert passages(*ordered) == [Passage(0, len(LINES), 0)]
    random.Random(3).shuffle(targets)
    assert passages(sources, targets) == [Passage(0, len(LINES), None)]


@pytest.mark.parametrize("lines", [200, 400])
@pytest.mark.parametrize("seed", range(5))
def test_lines_that_all_look_alike_have_no_shift(lines: int, seed: int) -> None:
    drawn = random.Random(seed)
    sources, targets = ([f"{'ab'[: drawn.randint(1, 2)]}." for _ in range(lines)] for _ in "ab")
    assert passages(sources, targets) == [Passage(0, lines, None)]


def test_a_passage_with_other_habits_is_aligned_unless_shuffled() -> None:
    """In one document of a corpus, targets are long and end otherwise."""
    sources, targets = sides()
    swapped = str.maketrans(".?", "?.")
    targets[600:800] = [target.translate(swapped) * 2 for target in targets[600:800]]
    assert passages(sources, targets) == [Passage(0, len(LINES), 0)]
    random.Random(4).shuffle(other := targets[600:800])
    targets[600:800] = other
    assert [passage.shift for passage in passages(sources, targets)] == [0, None, 0]


def test_periodic_lists_are_aligned(tmp_path: Path) -> None:
    """Names of emoji in five skin tones and for two sexes, before other text."""
    word = random_words(1)
    tones = [f"{kind} {{}}: {tone} skin" for kind in ("man", "woman") for tone in TONES]
    signs = [(word(), word()) for _ in range(200)]
    lines = [(tone.format(a), b + " " + tone.format("")[::-1]) for a, b in signs for tone in tones]
    texts = [[word() for _ in range(row % 5 + 1)] for row in range(2000)]
    lines += [(" ".join(text), " ".join(it[::-1] for it in text)) for text in texts]
    report = check_corpus(write_corpus(tmp_path, lines))
    assert report.misalignment.status != "failed"


@pytest.mark.parametrize("seed", range(3))
def test_a_shift_is_found_in_lines_that_are_sorted_by_length(seed: int) -> None:
    """Each source is as long as the targets around it, so only question marks show the shift."""
    word, drawn = random_words(seed), random.Random(seed)
    lines: list[tuple[str, str]] = []
    for row in range(3000):
        source, target = (" ".join(word() for _ in range(2 + row // 100)) for _ in "st")
        mark = drawn.choice(".?")
        lines.append((source + mark, target + mark))
    sources, targets = ([line[side] for line in lines] for side in (0, 1))
    del targets[1000]
    found = passages(sources[:-1], targets)
    assert [passage.shift for passage in found] == [0, -1]
    assert abs(found[1].first - 1000) <= 3


@pytest.mark.slow
@pytest.mark.parametrize(("count", "status"), [(100, "warned"), (600, "failed")])
def test_a_few_unrelated_lines_warn_and_many_fail(tmp_path: Path, count: int, status: str) -> None:
    sources, targets = sides()
    block = targets[1000 : 1000 + count]
    random.Random(2).shuffle(block)
    targets[1000 : 1000 + count] = block
    corpus = write_corpus(tmp_path, list(zip(sources, targets, strict=True)))
    finding = check_corpus(corpus).misalignment
    assert finding.status == status
    assert abs(finding.count - count) <= 16


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "count", "status"),
    [(3000, 40, "warned"), (3000, 400, "failed"), (4960, 40, "failed")],
)
def test_a_short_shift_warns_unless_it_lasts_to_the_end(
    tmp_path: Path, first: int, count: int, status: str
) -> None:
    targets = [target for _, target in LINES * 2]
    targets[first : first + count] = ["아무 말", *targets[first : first + count - 1]]
    shifted = [(source, target) for (source, _), target in zip(LINES * 2, targets, strict=True)]
    finding = check_corpus(write_corpus(tmp_path, shifted)).misalignment
    assert finding.status == status
    assert abs(finding.count - count) <= 3
    assert "1 line later" in finding.note


def test_unequal_files_fail_with_the_line_where_they_diverge(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path, LINES)
    targets = "".join(f"{target}\n" for _, target in LINES[:1200] + LINES[1201:])
    (tmp_path / "train.ko").write_text(targets, encoding="utf-8")
    report = check_corpus(corpus)
    assert {finding.name for finding in report.failed} == {"unequal files", "misalignment"}
    assert "2,500 lines" in report.unequal_files.note
    place = re.search(r"train\.en:(\d+)", report.misalignment.note)
    assert place and abs(int(place[1]) - 1201) <= 3


@pytest.mark.slow
def test_unrelated_files_fail_only_if_lines_are_many_and_long(tmp_path: Path) -> None:
    """A dictionary has lines too short to tell, and a small corpus too few."""
    word = random_words(12)
    words = [(word(), word()) for _ in range(6000)]
    assert check_corpus(write_corpus(tmp_path, words)).misalignment.status == "warned"
    long = [(" ".join(word() for _ in range(6)), " ".join(word() for _ in range(6))) for _ in words]
    assert check_corpus(write_corpus(tmp_path, long)).misalignment.status == "failed"
    assert check_corpus(write_corpus(tmp_path, long[:1009])).misalignment.status == "warned"
