"""`mtkit check`: faults of whole corpora are found, and the report agrees with what is dropped."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mtkit.demo import __file__ as demo

from commands import call
from mtkit.batching.build import build_batches
from mtkit.config.batching import BatchingSettings
from mtkit.config.corpora import TableCorpus, TextCorpus
from mtkit.config.languages import check_language
from mtkit.config.settings import Config
from mtkit.corpus import read
from mtkit.corpus.examination import Examination
from mtkit.corpus.examine import examine
from mtkit.corpus.findings import of_languages
from mtkit.corpus.languages import known_languages, telling
from mtkit.corpus.misalignment import Passage, Traces, passages
from mtkit.corpus.read import Pair
from mtkit.corpus.rules import ALL_RULES, Judge, held_out
from mtkit.corpus.statistics import Side, Usual
from mtkit.errors import UserError
from mtkit.tokenizer.train import train_tokenizer
from nasties import INVALID, VALID

FOLDER = Path(str(demo)).parent
Lines = list[tuple[str, str]]


def demo_lines(count: int) -> Lines:
    sides = ((FOLDER / f"train.{code}").read_text(encoding="utf-8") for code in ("en", "ko"))
    return list(zip(*(side.split("\n")[:count] for side in sides), strict=True))


LINES = demo_lines(2500)


def corpus(folder: Path, lines: Lines, name: str = "train") -> TextCorpus:
    for place, code in enumerate(("en", "ko")):
        text = "".join(f"{line[place]}\n" for line in lines)
        (folder / f"{name}.{code}").write_text(text, encoding="utf-8", newline="")
    return TextCorpus(source=str(folder / f"{name}.en"), target=str(folder / f"{name}.ko"))


TONES = ["light", "medium", "dark", "pale", "rosy"]


def random_words(seed: int) -> Callable[[], str]:
    """Draws words of four to nine letters."""
    draw = random.Random(seed)
    return lambda: "".join(draw.choices("abcdefghijklmnoprstuvz", k=draw.randrange(4, 10)))


def failures(found: Examination) -> set[str]:
    return {row.name for row in found.failures}


FAULTS: Lines = [
    ("", "빈 줄"),
    ("The same words, not translated.", "The same words, not translated."),
    ("Sora bought 25 apples in 1987.", "소라는 1978년에 사과 25개를 샀습니다."),
    ("Bread &amp; butter are on the table.", "빵과 버터가 식탁 위에 있습니다."),
    ("Is Minsu at the library today?", "민수는 오늘 도서관에 있습니다 MÃ¤nner MÃ¼ller."),
    ("Minsu goes to school.", "Минсу идёт в школу сегодня утром."),
    ("See https://example.com/a for more.", "자세한 것은 여기에 있습니다."),
    ("Sora reads a book and Minsu writes a letter at the library every day.", "소라."),
    LINES[7],
    LINES[7],
]


@pytest.fixture(scope="module")
def mixed() -> Lines:
    lines = [*LINES[:600], *FAULTS]
    random.Random(1).shuffle(lines)
    return lines


def test_a_clean_corpus_passes(tmp_path: Path) -> None:
    found = examine(corpus(tmp_path, LINES))
    assert {row.name: row.count for row in found.findings if row.status != "passed"} == {}
    assert (found.source.language, found.target.language) == ("en", "ko")
    assert (found.source.scripts, found.target.scripts) == (["LATIN"], ["HANGUL"])
    assert (found.drop, found.deduplicate, found.failures) == ([], False, [])
    assert found.source.unique == len({source for source, _ in LINES})
    assert found.source.characters == sum(len(source) for source, _ in LINES)


def test_no_count_depends_on_the_order_of_pairs_or_on_chunks(
    tmp_path: Path, mixed: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = examine(corpus(tmp_path, mixed))
    monkeypatch.setattr(read, "CHUNK_PAIRS", 7)
    again = examine(corpus(tmp_path, sorted(mixed)))
    assert [(row.name, row.count) for row in first.findings] == [
        (row.name, row.count) for row in again.findings
    ]
    assert (first.source, first.target) == (again.source, again.target)


@pytest.fixture(scope="module")
def tokenized(tmp_path_factory: pytest.TempPathFactory, mixed: Lines) -> Config:
    folder = tmp_path_factory.mktemp("batches")
    train, valid = corpus(folder, mixed), corpus(folder, LINES[:3], "valid")
    config = Config.model_validate(
        {
            "run": str(folder / "run"),
            "data": {"train": train.model_dump(), "valid": valid.model_dump()},
            "tokenizer": {"vocab_size": 800},
            "training": {"steps": 1},
        }
    )
    train_tokenizer(config)
    return config


@pytest.mark.parametrize("setting", [*({"drop": [rule]} for rule in ALL_RULES), {"deduplicate": 1}])
def test_what_check_counts_is_what_batch_drops(
    tokenized: Config, mixed: Lines, setting: dict[str, Any]
) -> None:
    batching = BatchingSettings.model_validate(setting)
    report = build_batches(tokenized.model_copy(update={"batching": batching})).report["train"]
    found = examine(tokenized.data.train, held_out([tokenized.data.valid]))
    rule = batching.drop[0] if batching.drop else "duplicate"
    counted = found["repeated pairs" if batching.deduplicate else rule].count
    assert report["dropped"].get(rule, 0) == counted
    assert report["dropped"].get("blank", 0) == found["blank"].count == 1
    assert report["kept"] == len(mixed) - counted - 1
    assert counted > 0 or rule in ("glued", "letters", "digits", "repetition", "brackets")


def test_what_is_asked_of_a_share_is_told_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    german = "Das ist ein sehr langer deutscher Satz, und er hat die Nummer {}."
    lines = [(s, t if row % 20 else german.format(row)) for row, (s, t) in enumerate(LINES)]
    every = examine(corpus(tmp_path, lines))
    assert every.about("language") == every["language"].count == len(LINES) // 20
    monkeypatch.setattr("mtkit.corpus.examine.ASKED_PAIRS", 800)
    some = examine(corpus(tmp_path, lines))
    assert some["language"].judged < 1000
    assert some.about("language") == pytest.approx(len(LINES) / 20, rel=0.3)
    of_all = [row for row in some.findings if row.judged == len(LINES)]
    assert [some.about(row.name) for row in of_all] == [row.count for row in of_all]


def test_examples_lead_to_file_and_line(tmp_path: Path) -> None:
    found = examine(corpus(tmp_path, [*LINES[:300], FAULTS[3], *LINES[300:400]]))
    (example,) = found["markup"].examples
    assert (example["where"], example["source"]) == ("train.en:301", FAULTS[3][0])
    assert found["markup"].setting == "batching.drop: [markup]"
    assert found.drop == ["markup"]


def traces(lines: list[str]) -> Traces:
    made = Traces()
    made.add(lines)
    return made


@pytest.mark.parametrize("at", [0, 700, 2400])
@pytest.mark.parametrize("lost", [1, 4])
def test_where_lines_were_lost_drift_begins(at: int, lost: int) -> None:
    sources, targets = (list(side) for side in zip(*LINES, strict=True))
    del targets[at : at + lost]
    *before, last = passages(traces(sources[: len(targets)]), traces(targets))
    assert last.shift == -lost
    assert abs(last.first - at) <= 3
    assert all(passage.shift == 0 for passage in before)


@pytest.mark.parametrize("lines", [200, 400])
@pytest.mark.parametrize("seed", range(5))
def test_lines_that_tell_nothing_are_shifted_by_nothing(lines: int, seed: int) -> None:
    """They all end alike, which every shift explains."""
    drawn = random.Random(seed)
    sources, targets = ([f"{'ab'[: drawn.randint(1, 2)]}." for _ in range(lines)] for _ in "ab")
    assert passages(traces(sources), traces(targets)) == [Passage(0, lines, None)]


def test_drift_that_is_mended_later_is_found() -> None:
    sources, targets = (list(side) for side in zip(*LINES, strict=True))
    targets[500:900] = ["아무 말", *targets[500:899]]
    found = passages(traces(sources), traces(targets))
    assert [passage.shift for passage in found] == [0, 1, 0]
    assert abs(found[1].first - 500) <= 3
    assert abs(found[2].first - 899) <= 3


def test_lines_in_order_have_one_passage_and_shuffled_ones_none() -> None:
    sources, targets = (list(side) for side in zip(*LINES, strict=True))
    assert passages(traces(sources), traces(targets)) == [Passage(0, len(LINES), 0)]
    order = sorted(range(len(LINES)), key=lambda row: LINES[row])
    ordered = [[side[row] for row in order] for side in (sources, targets)]
    assert passages(*map(traces, ordered)) == [Passage(0, len(LINES), 0)]
    random.Random(3).shuffle(targets)
    assert passages(traces(sources), traces(targets)) == [Passage(0, len(LINES), None)]


def test_passages_with_ways_of_their_own_are_in_order() -> None:
    """A corpus put together of several: in one of them targets are long, and end otherwise."""
    sources, targets = (list(side) for side in zip(*LINES, strict=True))
    swapped = str.maketrans(".?", "?.")
    targets[600:800] = [target.translate(swapped) * 2 for target in targets[600:800]]
    assert passages(traces(sources), traces(targets)) == [Passage(0, len(LINES), 0)]
    random.Random(4).shuffle(other := targets[600:800])
    targets[600:800] = other
    assert [p.shift for p in passages(traces(sources), traces(targets))] == [0, None, 0]


def test_few_lines_that_belong_to_none_are_a_warning_and_many_a_failure(tmp_path: Path) -> None:
    for count, status in ((100, "warned"), (600, "failed")):
        targets = [target for _, target in LINES]
        block = targets[1000 : 1000 + count]
        random.Random(2).shuffle(block)
        targets[1000 : 1000 + count] = block
        lines = [(source, target) for (source, _), target in zip(LINES, targets, strict=True)]
        drift = examine(corpus(tmp_path, lines))["drift"]
        assert drift.status == status
        assert abs(drift.count - count) <= 16


def test_a_short_shift_that_ends_again_is_a_warning_and_all_others_a_failure(
    tmp_path: Path,
) -> None:
    lines = [*LINES, *LINES]
    cases = ((3000, 40, "warned"), (3000, 400, "failed"), (4960, 40, "failed"))
    for first, count, status in cases:
        targets = [target for _, target in lines]
        targets[first : first + count] = ["아무 말", *targets[first : first + count - 1]]
        shifted = [(source, target) for (source, _), target in zip(lines, targets, strict=True)]
        drift = examine(corpus(tmp_path, shifted))["drift"]
        assert drift.status == status
        assert abs(drift.count - count) <= 3
        assert "their targets seem to be 1 later" in drift.note


def test_unequal_files_fail_with_the_line_where_they_part(tmp_path: Path) -> None:
    train = corpus(tmp_path, LINES)
    (tmp_path / "train.ko").write_text(
        "".join(f"{target}\n" for _, target in LINES[:1200] + LINES[1201:]), encoding="utf-8"
    )
    found = examine(train)
    assert failures(found) == {"unequal files", "drift"}
    assert "2,500 lines" in found["unequal files"].note
    assert "mtkit check" not in found["unequal files"].note
    line = int(found["drift"].examples[0]["where"].split(":")[1])
    assert abs(line - 1201) <= 3


def test_one_language_twice_fails(tmp_path: Path) -> None:
    train = corpus(tmp_path, [(source, source) for source, _ in LINES])
    assert {"one language twice", "copied"} <= failures(examine(train))
    shifted = [(LINES[row][0], LINES[row + 1][0]) for row in range(len(LINES) - 1)]
    assert "one language twice" in failures(examine(corpus(tmp_path, shifted)))


def test_one_language_twice_is_right_where_it_is_meant(tmp_path: Path) -> None:
    """As from one way to write it to another, or to plainer words; the same text is none."""
    plainer = corpus(tmp_path, [(line, f"And so: {line}") for line, _ in LINES])
    assert failures(examine(plainer)) == {"one language twice"}
    assert failures(examine(plainer, languages=("en-GB", None))) == {"one language twice"}
    assert failures(examine(plainer, languages=("en-GB", "en_US"))) == set()
    assert failures(examine(plainer, languages=("en", "bm"))) == set()  # unknown to what tells
    assert failures(examine(plainer, languages=("en", "ko"))) == {"declared language"}
    half = [(line, line if row % 2 else f"And so: {line}") for row, (line, _) in enumerate(LINES)]
    assert failures(examine(corpus(tmp_path, half), languages=("en-US", "en-GB"))) == set()
    same = corpus(tmp_path, [(line, line) for line, _ in LINES])
    assert "one language twice" in failures(examine(same, languages=("en", "en")))


def test_one_speech_is_taken_for_any_of_its_names() -> None:
    latin = Side(frozenset({"latin"}), Counter(bs=60, hr=40))
    english = Side(frozenset({"latin"}), Counter(en=100))
    usual = Usual(english, latin, 1.0, ((0.0, 0.2),), frozenset())
    for code, status in {"sr-Latn": "passed", "hr": "passed", "sl": "failed"}.items():
        found = [row.status for row in of_languages(usual, ("en", code), 0, 100)]
        assert found == ["passed", status]


def test_lines_of_a_language_that_cannot_be_told_are_not_foreign(tmp_path: Path) -> None:
    """They are taken for one of its kin, or for another."""
    lines = [(t, s) if row % 5 == 0 else (s, t) for row, (s, t) in enumerate(LINES)]
    train = corpus(tmp_path, lines)
    assert examine(train, languages=("en", "ko"))["language"].count > 400
    assert examine(train, languages=("fur", "ast"))["language"].count == 0
    half_known = examine(train, languages=("en", "ast"))
    assert half_known["language"].count > 200
    assert "language" not in half_known.drop, "which would know no names"


def test_a_script_of_no_language_that_is_told_is_in_none(tmp_path: Path) -> None:
    """py3langid takes Cherokee for Korean."""
    cherokee = str.maketrans({chr(0xAC00 + at): chr(0x13A0 + at % 80) for at in range(11_172)})
    found = examine(corpus(tmp_path, [(en, ko.translate(cherokee)) for en, ko in LINES]))
    assert (found.source.language, found.target.language) == ("en", None)


def test_a_line_tells_its_language_by_as_many_letters_in_every_alphabet() -> None:
    assert not telling("tilda operators, ") and not telling("тильда операторы, ")
    assert telling("the operators of the tilda") and telling("там операторы тильда и так")
    assert telling("我们今天很早就回家")


def test_the_lines_of_the_other_sides_language_count_for_none() -> None:
    english, mixed = (
        Side(frozenset(), Counter(votes)) for votes in ({"en": 9}, {"ru": 62, "en": 23})
    )
    assert mixed.sure_beside(english) == "ru"
    assert Side(frozenset(), Counter(sn=65, sw=28, rw=7)).sure_beside(english) is None


def test_lists_that_come_back_to_the_same_are_in_order(tmp_path: Path) -> None:
    """The names of signs, each in five colours and for both sexes, before other text."""
    word = random_words(1)
    tones = [f"{kind} {{}}: {tone} skin" for kind in ("man", "woman") for tone in TONES]
    signs = [(word(), word()) for _ in range(200)]
    lines = [(tone.format(a), b + " " + tone.format("")[::-1]) for a, b in signs for tone in tones]
    texts = [[word() for _ in range(row % 5 + 1)] for row in range(2000)]
    lines += [(" ".join(text), " ".join(it[::-1] for it in text)) for text in texts]
    assert "drift" not in failures(examine(corpus(tmp_path, lines)))


def test_words_that_have_nothing_in_common_are_warned_of_however_many(tmp_path: Path) -> None:
    """A dictionary: its lines are too short to tell whether they belong together."""
    word = random_words(12)
    words = [(word(), word()) for _ in range(6000)]
    assert examine(corpus(tmp_path, words))["drift"].status == "warned"
    strangers = [
        (" ".join(word() for _ in range(6)), " ".join(word() for _ in range(6))) for _ in words
    ]
    assert examine(corpus(tmp_path, strangers))["drift"].status == "failed"


@pytest.mark.parametrize(
    ("votes", "accused"), [(Counter(lij=36, it=34, es=30), 0), (Counter(it=30), 1)]
)
def test_lines_are_foreign_only_where_most_others_are_in_one_language(
    votes: Counter[str], accused: int
) -> None:
    english, side = (Side(frozenset({"LATIN"}), of) for of in (Counter(en=9), votes))
    usual = Usual(english, side, 1.0, ((0.0, 0.2),), frozenset())
    pair = Pair("A man is walking down the street.", "Ein Mann geht die Straße entlang.", 0, "a", 1)
    assert Judge(["language"], usual).judge([pair])["language"].sum() == accused


def test_cells_as_spreadsheets_write_them_are_warned_of(tmp_path: Path) -> None:
    lines = [(f'"""{source}"" he said."', target) for source, target in LINES[:9]]
    found = examine(corpus(tmp_path, [*lines, *LINES, ('"Why?"', '""')]))["quoted cells"]
    assert (found.status, found.count) == ("warned", 9)


def test_what_is_often_free_or_long_refuses_no_corpus(tmp_path: Path) -> None:
    free = [(f"{source} (so)", target) for source, target in LINES]
    assert failures(examine(corpus(tmp_path, free))) == set()
    long = [(f"{source} " * 30, f"{target} " * 30) for source, target in LINES]
    assert "long" not in failures(examine(corpus(tmp_path, long)))
    keywords = [(f"{source} | a | b", f"{target} | c | d") for source, target in LINES]
    assert "markup" not in failures(examine(corpus(tmp_path, keywords)))


def test_every_language_that_is_told_has_a_code_that_configs_take() -> None:
    for code in known_languages():
        check_language(code)


def test_pairs_that_stand_there_often_fail_only_where_few_are_left(tmp_path: Path) -> None:
    assert failures(examine(corpus(tmp_path, LINES * 3))) == set()
    assert failures(examine(corpus(tmp_path, LINES[:99] * 30))) == {"few pairs"}


def test_what_is_in_another_language_is_dropped_though_it_is_much(tmp_path: Path) -> None:
    lines = [(t, s) if row % 5 == 0 else (s, t) for row, (s, t) in enumerate(LINES)]
    found = examine(corpus(tmp_path, lines))
    assert "language" in found.drop
    assert "language" in [row.name for row in found.doubtful]
    assert not examine(corpus(tmp_path, LINES)).doubtful


def test_few_lines_that_have_nothing_in_common_are_warned_of(tmp_path: Path) -> None:
    """Above a number of pairs that is proof; below, nobody can tell."""
    strangers = [LINES[row * 7 % 1009][1] for row in range(1009)]
    lines = [(source, target) for (source, _), target in zip(LINES, strangers, strict=False)]
    assert examine(corpus(tmp_path, lines))["drift"].status == "warned"


def test_kin_that_share_a_sides_votes_are_not_one_language() -> None:
    def fails(source: dict[str, int], target: dict[str, int]) -> bool:
        one, other = (Side(frozenset(), Counter(votes)) for votes in (source, target))
        usual = Usual(one, other, 1.0, ((0.0, 1.0),), frozenset())
        return next(of_languages(usual, (None, None), 0, 1000)).status == "failed"

    croatian = {"hr": 570, "bs": 240, "sl": 190}
    assert not fails(croatian, {"hr": 430, "bs": 380, "sr": 190})
    assert not fails(croatian, {"hr": 510, "bs": 490})
    assert fails({"hr": 690, "bs": 310}, {"hr": 710, "bs": 200, "sl": 90})


def test_blank_lines_are_in_no_language(tmp_path: Path) -> None:
    train = corpus(tmp_path, [*LINES[:100], *[("", " "), ("", "")] * 75])
    assert failures(examine(train)) == {"blank"}
    assert failures(examine(corpus(tmp_path, [("", "")] * 200))) == {"blank"}


def test_a_few_lines_tell_no_language(tmp_path: Path) -> None:
    assert examine(corpus(tmp_path, LINES[:5])).source.language is None


def test_what_reading_mends_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = corpus(tmp_path, LINES[:150])
    with Path(str(train.source)).open("ab") as file:
        file.write(b"no \xff text\n")
    with Path(str(train.target)).open("a", encoding="utf-8") as file:
        file.write("글\n")
    examine(train)
    assert capsys.readouterr().err.count("invalid UTF-8") == 1


def test_one_word_corpora_and_five_lines_are_told_to_be_too_few(tmp_path: Path) -> None:
    words = [(f"word{number}", f"낱말{number}") for number in range(150)]
    assert failures(examine(corpus(tmp_path, words))) == set()
    assert examine(corpus(tmp_path, words))["few pairs"].status == "warned"
    assert failures(examine(corpus(tmp_path, LINES[:5]))) == {"few pairs"}
    few = examine(corpus(tmp_path, LINES[:50]), enough=(1, 100))["few pairs"]
    assert (few.status, few.note) == (
        "warned",
        "50 different ones: under 100 are little, under 1 nothing",
    )
    same = corpus(tmp_path, [(word, word) for word, _ in words])
    for languages, is_told in ((None, None), True), (("en", "en-GB"), False):
        found = examine(same, languages=languages)["one language twice"]
        assert found.status == "failed"
        assert ("name them by --languages" in found.note) == is_told


def test_a_language_that_is_not_the_one_named_fails(tmp_path: Path) -> None:
    train = corpus(tmp_path, LINES)
    assert failures(examine(train, languages=("en", "ko"))) == set()
    assert failures(examine(train, languages=("ko", "en"))) == {"declared language"}
    assert failures(examine(train, languages=("en-GB", None))) == set()


def test_a_language_that_cannot_be_told_is_said_not_to_be_judged(tmp_path: Path) -> None:
    found = examine(corpus(tmp_path, LINES), languages=("en", "bm"))["declared language"]
    assert (found.status, found.count) == ("passed", 0)
    assert found.note == "target: bm is none of the languages that can be told apart"
    found = examine(corpus(tmp_path, LINES), languages=("nb", None))["declared language"]
    assert (found.status, found.note) == ("failed", "source is en, not nb")


def test_a_file_that_is_no_text_fails(tmp_path: Path) -> None:
    noise = random.Random(5).randbytes(200_000)
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(noise)
    found = examine(TextCorpus(source=str(tmp_path / "a"), target=str(tmp_path / "b")))
    assert "no text" in failures(found)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_bytes(b""), "empty"),
        (lambda path: path.mkdir(), "a folder, not a file"),
        (lambda path: None, "no such file"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, make: Any, message: str) -> None:
    for name in ("a", "b"):
        make(tmp_path / name)
    with pytest.raises(UserError, match=message):
        examine(TextCorpus(source=str(tmp_path / "a"), target=str(tmp_path / "b")))


def test_nothing_that_a_line_can_hold_ends_an_examination_or_takes_long(tmp_path: Path) -> None:
    endless = ["a" * 500_000, "@" + "a." * 250_000, "<a " * 100_000, " > " * 100_000]
    endless += ["1,000" * 100_000, "{" * 200_000, "中" * 200_000, "( " * 200_000, "1" * 500_000]
    lines = [*(text.encode() for text in [*VALID.values(), *endless]), *INVALID.values()]
    for name, rows in (("a", lines), ("b", lines[::-1])):
        (tmp_path / name).write_bytes(b"\n".join(row.replace(b"\n", b"") for row in rows) + b"\n")
    started = time.process_time()
    found = examine(TextCorpus(source=str(tmp_path / "a"), target=str(tmp_path / "b")))
    assert found.pairs == len(lines)
    assert time.process_time() - started < 60  # seconds of the processor; some patterns take hours


def test_the_command_tells_of_all_corpora_of_a_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, valid = corpus(tmp_path, LINES), corpus(tmp_path, LINES[:150], "valid")
    config = tmp_path / "mtkit.yaml"
    config.write_text(
        f"run: {tmp_path}/run\n"
        f"data:\n  train: {json.dumps(train.model_dump())}\n"
        f"  valid: {json.dumps(valid.model_dump())}\n"
        "training: {steps: 1}\n"
    )
    assert call("check", "-c", str(config), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {name: one["pairs"] for name, one in found.items()} == {"train": 2500, "valid": 150}
    rows = {row["name"]: row for row in found["train"]["findings"]}
    assert (rows["overlap"]["count"], rows["overlap"]["status"]) == (150, "warned")
    assert "overlap" not in found["train"]["drop"]  # 6 % are to be looked at first
    assert rows["overlap"]["setting"] == "batching.drop: [overlap]"
    assert not any(row["setting"] for row in found["valid"]["findings"])  # of which none is dropped


def test_the_report_fits_a_terminal_and_failure_is_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = corpus(tmp_path, [*LINES[:1000], *FAULTS])
    assert call("check", str(train.source), str(train.target), "--languages", "en", "ko") == 0
    told = capsys.readouterr()
    assert max(map(len, told.out.splitlines())) <= 80
    assert "train.en:1004" in told.out
    assert "drop: [uneven" in told.out
    assert call("check", str(train.target), str(train.source), "--languages", "en", "jp") == 2
    assert "did you mean ja" in capsys.readouterr().err
    assert call("check", str(train.target), str(train.source), "--languages", "en", "ko") == 2
    assert "declared language" in capsys.readouterr().err


def test_a_table_is_checked_by_its_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "".join(f"{n}\t{s}\t{t}\n" for n, (s, t) in enumerate(LINES[:150]))
    (tmp_path / "a.tsv").write_text(text, encoding="utf-8")
    assert call("check", str(tmp_path / "a.tsv"), "--columns", "1", "2", "--json") == 0
    assert json.loads(capsys.readouterr().out)["train"]["pairs"] == 150
    table = TableCorpus(table=str(tmp_path / "a.tsv"), source_column=1, target_column=2)
    assert examine(table).target.language == "ko"


@pytest.mark.parametrize(
    "arguments", [[], ["a", "b", "-c", "c.yaml"], ["a", "b", "--set", "x=1"], ["a"]]
)
def test_what_to_check_is_said_once(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("check", *arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1
