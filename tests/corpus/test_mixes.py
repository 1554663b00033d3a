"""Corpora of a mix are independent: each is compared with its own statistics."""

from __future__ import annotations

import json
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from commands import call
from mtkit.batching.build import build_batches
from mtkit.config.corpora import TextCorpus
from mtkit.config.settings import DROP_RULES, Config
from mtkit.corpus.read import read_pairs
from mtkit.corpus.rules import PairFilter
from mtkit.corpus.statistics import compute_statistics, statistics_by_corpus
from mtkit.corpus.store import temporary_rows
from mtkit.tokenizer.train_spm import train_tokenizer
from parallel import FAULTS, LINES, check_corpus, write_corpus

SUBJECTS = {"The man": "კაცი", "The woman": "ქალი", "The child": "ბავშვი", "The dog": "ძაღლი"}
VERBS = {"sees": "ხედავს", "finds": "პოულობს", "buys": "ყიდულობს", "looks for": "ეძებს"}
OBJECTS = {"a book": "წიგნს", "bread": "პურს", "a letter": "წერილს", "a house": "სახლს"}
PLACES = {"here": "აქ", "today": "დღეს", "at home": "სახლში", "tomorrow": "ხვალ"}
GEORGIAN = [
    (f"{s} {v} {o} {p}.", f"{PLACES[p]} {SUBJECTS[s]} {OBJECTS[o]} {VERBS[v]}.")
    for s, v, o, p in product(SUBJECTS, VERBS, OBJECTS, PLACES)
]
"""English and Georgian."""

pytestmark = pytest.mark.slow


@pytest.fixture
def corpora(tmp_path: Path) -> list[TextCorpus]:
    return [
        write_corpus(tmp_path, LINES[:2000], "ko"),
        write_corpus(tmp_path, GEORGIAN, "ka"),
    ]


def test_the_statistics_of_a_corpus_do_not_depend_on_the_others(corpora: list[TextCorpus]) -> None:
    with temporary_rows([*corpora]) as rows:
        together = statistics_by_corpus(rows)
    for number, corpus in enumerate(corpora):
        assert together[number] == compute_statistics(read_pairs(corpus))
        assert len(together[number].sample) == (2000, len(GEORGIAN))[number]


def test_a_small_corpus_in_another_language_passes_beside_a_large_one(
    corpora: list[TextCorpus],
) -> None:
    report = check_corpus([*corpora])
    assert report.failed == []
    assert report.drop == []
    pair_filter = PairFilter(DROP_RULES, report.statistics)
    assert [pair for pair in read_pairs([*corpora]) if pair_filter.broken_rule(pair)] == []


def test_batch_drops_of_each_corpus_what_it_would_drop_of_it_alone(tmp_path: Path) -> None:
    faulty = [*GEORGIAN, ("The dog finds bread here.", "Der Hund findet hier Brot.")]
    corpora = [
        write_corpus(tmp_path, [*LINES[:600], *FAULTS], "ko"),
        write_corpus(tmp_path, faulty, "ka"),
    ]
    valid = write_corpus(tmp_path, LINES[:3], "valid")

    def build(train: list[TextCorpus], name: str, **tokenizer: object) -> Counter[str]:
        config = Config.model_validate(
            {
                "run": str(tmp_path / name),
                "data": {
                    "train": [corpus.model_dump() for corpus in train],
                    "valid": valid.model_dump(),
                },
                "tokenizer": tokenizer,
                "batching": {"drop": ["uneven", "script", "language"]},
                "training": {"steps": 1},
            }
        )
        train_tokenizer(config)
        return Counter(build_batches(config).report["train"]["dropped"])

    together = build(corpora, "mix", vocab_size=900)
    model = str(tmp_path / "mix/tokenizer/spm.model")
    first, second = (
        build([corpus], f"run-{number}", model=model) for number, corpus in enumerate(corpora)
    )
    assert together == first + second
    assert together["script"] == 2


def test_faults_of_one_corpus_are_found_and_named(tmp_path: Path) -> None:
    damaged = [(source, "Nwa ah? ag?? akw?kw? " + source.lower()) for source, _ in LINES[:300]]
    corpora = [write_corpus(tmp_path, GEORGIAN, "ka"), write_corpus(tmp_path, damaged, "ig")]
    report = check_corpus([*corpora])
    assert report.lost_letters.status == "failed"
    assert (report.lost_letters.count, report.lost_letters.checked) == (300, 556)
    assert report.lost_letters.note.startswith(f"{corpora[1].source}: ? inside words in 100%")
    assert str(corpora[0].source) not in report.lost_letters.note


def test_a_rule_that_many_pairs_of_one_corpus_break_is_not_recommended(tmp_path: Path) -> None:
    tagged = [(f"<b>{source}", target) for source, target in GEORGIAN[:200]] + GEORGIAN[200:]
    corpora = [
        write_corpus(tmp_path, [*LINES, *FAULTS], "ko"),
        write_corpus(tmp_path, tagged, "ka"),
    ]
    assert "markup" in check_corpus(corpora[0]).drop
    assert "markup" not in check_corpus([*corpora]).drop


def test_a_shift_at_the_end_of_the_first_corpus_fails(tmp_path: Path) -> None:
    sources = [source for source, _ in LINES[600:999]]
    targets = [target for _, target in LINES[601:1000]]
    shifted = [*LINES[:600], *zip(sources, targets, strict=True)]
    corpora = [write_corpus(tmp_path, shifted, "ko"), write_corpus(tmp_path, LINES[1000:2500], "b")]
    report = check_corpus([*corpora])
    assert report.misalignment.status == "failed"
    assert str(corpora[0].source) in report.misalignment.note


def test_unequal_files_of_a_mix_are_named_and_the_others_checked(tmp_path: Path) -> None:
    corpora = [write_corpus(tmp_path, LINES[:300], "ko"), write_corpus(tmp_path, GEORGIAN, "ka")]
    Path(str(corpora[0].target)).write_text("")
    report = check_corpus([*corpora])
    assert report.unequal_files.status == "failed"
    assert report.pairs == len(GEORGIAN)


def test_the_command_shows_the_languages_of_each_corpus(
    tmp_path: Path, corpora: list[TextCorpus], capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "mtkit.yaml"
    valid = write_corpus(tmp_path, LINES[2000:2200], "valid")
    config.write_text(
        f"run: {tmp_path}/run\n"
        f"data:\n  train: {json.dumps([corpus.model_dump() for corpus in corpora])}\n"
        f"  valid: {json.dumps(valid.model_dump())}\n"
        "training: {steps: 1}\n"
    )
    assert call("check", "-c", str(config)) == 0
    shown = capsys.readouterr().out
    assert "Georgian" in shown and "Hangul" in shown and str(corpora[1].source) in shown
    assert call("check", "-c", str(config), "--json") == 0
    record = json.loads(capsys.readouterr().out)["train"]
    scripts = [corpus["target"]["scripts"] for corpus in record["corpora"]]
    assert scripts == [["HANGUL"], ["GEORGIAN"]]
