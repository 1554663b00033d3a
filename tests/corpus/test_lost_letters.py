"""Letters that were lost when a file was saved are found; sound text with such signs is not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from commands import call
from mtkit.corpus.findings import Finding
from mtkit.corpus.lost_letters import check_lost_letters
from mtkit.corpus.read import Pair
from mtkit.corpus.statistics import compute_statistics
from parallel import LINES, write_corpus

ENGLISH = [
    "The child is reading a book in the house.",
    "Are you coming to the market today?",
    "The teacher bought bread, milk and fish.",
    "We do not know when the rain will stop.",
]
SENTENCES = {
    "Igbo": (
        "cp1252",
        ["Nwa ahụ na-agụ akwụkwọ n’ụlọ.", "Ị na-abịa ahịa taa?"],
        ["Onye nkụzi zụrụ achịcha na azụ̀.", "Anyị amaghị mgbe mmiri ga-akwụsị."],
    ),
    "Yoruba": (
        "cp1252",
        ["Ọmọ náà ń ka ìwé nínú ilé.", "Ṣé o ń bọ̀ sí ọjà lónìí?"],
        ["Olùkọ́ ra búrẹ́dì àti ẹja.", "A kò mọ ìgbà tí òjò yóò dá dúró."],
    ),
    "Turkish": (
        "cp1252",
        ["Çocuk evde kitap okuyor, ağaç dışarıda.", "Bugün çarşıya geliyor musun?"],
        ["Öğretmen ekmek, süt ve balık aldı.", "Yağmurun ne zaman duracağını bilmiyoruz."],
    ),
    "German": (
        "ascii",
        ["Das Mädchen liest zu Hause ein schönes Buch.", "Fährst du heute zum Markt?"],
        ["Der Lehrer kaufte Brötchen für die Schüler.", "Wir wissen nicht, wann es aufhört."],
    ),
    "Kazakh": (
        "cp1251",
        ["Бала үйде кітап оқып отыр.", "Сен бүгін базарға келесің бе?"],
        ["Мұғалім нан, сүт және балық сатып алды.", "Жаңбырдың қашан тоқтайтынын білмейміз."],
    ),
    "Kurdish": (
        "cp1256",
        ["منداڵەکە لە ماڵەوە کتێب دەخوێنێتەوە.", "ئایا ئەمڕۆ دێیت بۆ بازاڕ؟"],
        ["مامۆستاکە نان و شیر و ماسی کڕی.", "نازانین کەی باران دەوەستێت."],
    ),
    "Greek": (
        "latin-1",
        ["Το παιδί διαβάζει ένα βιβλίο στο σπίτι.", "Έρχεσαι σήμερα στην αγορά;"],
        ["Ο δάσκαλος αγόρασε ψωμί, γάλα και ψάρια.", "Δεν ξέρουμε πότε θα σταματήσει η βροχή."],
    ),
    "Chinese": (
        "latin-1",
        ["孩子在家里看一本书。", "你今天来市场吗?"],
        ["老师买了面包、牛奶和鱼。", "我们不知道雨什么时候会停。"],
    ),
}
"""By language: an encoding without its letters, and translations of ENGLISH."""


def check(sources: Sequence[str], targets: Sequence[str]) -> Finding:
    pairs: list[Pair] = []
    for number in range(40):  # numbered, because repeated pairs are counted once
        for source, target in zip(sources, targets, strict=True):
            pairs.append(Pair(f"{source} {number}", f"{target} {number}", 0, "f", len(pairs) + 1))
    return check_lost_letters(compute_statistics(pairs))


def translations(language: str) -> tuple[str, list[str]]:
    encoding, *parts = SENTENCES[language]
    return str(encoding), [sentence for part in parts for sentence in part]


@pytest.mark.parametrize("language", SENTENCES)
def test_letters_lost_in_the_encoding_of_a_spreadsheet_are_found_on_either_side(
    language: str,
) -> None:
    encoding, sound = translations(language)
    damaged = [text.encode(encoding, "replace").decode(encoding) for text in sound]
    for finding, side in ((check(ENGLISH, damaged), "target"), (check(damaged, ENGLISH), "source")):
        assert finding.status == "failed"
        assert re.search(rf"^\? inside words in \d+% of the {side}s: letters", finding.note)
        assert finding.examples
    assert check(ENGLISH, sound).status == check(sound, ENGLISH).status == "passed"


SOUND = {
    "URLs with queries": "Schau auf https://example.com/a?page=2&lang=de und example.org/?q nach.",
    "code": "x = is_open?first:last; call(get_name, _private, __init__, s?.length)",
    "names of files": "Der Test liegt in my_file_name.txt neben test_all.py und x_train.",
    "spaces that are missing": "Wirklich?Ja, wirklich?Ich weiß nicht.",
    "marks that are repeated": "Was??? Wirklich?! Ja ????",
    "gaps to be filled": "Der ____ rennt durch den ____ und _____.",
    "Markdown": "Das ist _sehr_ wichtig und __immer__ wahr.",
    "boxes to be ticked": "□ Ja □ Nein",
    "questions in Spanish": "Hola, ¿qué tal?¿Vienes o no? Dijo: ¿y tú?",
    "Chinese without spaces": "你好吗?我很好。真的吗?真的?iPhone",
    "emoji": "❤️ Liebe 1️⃣ ☝️",
}


@pytest.mark.parametrize("kind", SOUND)
def test_sound_text_is_not_accused(kind: str) -> None:
    ordinary = "Kommst du heute zum Markt?" if kind.startswith("spaces") else "Ein Hund rennt."
    assert check(ENGLISH, [SOUND[kind], *[ordinary] * 3]).status == "passed"


def test_words_of_both_sides_prove_nothing() -> None:
    names = ["Open a?b now.", "See what?ever and file?.", "???????", "x?y"]
    assert check(names, names).status == "passed"


def test_a_corpus_fails_if_one_line_in_a_hundred_is_damaged() -> None:
    _, sound = translations("German")
    for damaged_lines, status in ((9, "passed"), (10, "failed")):
        pairs = [Pair(f"{ENGLISH[0]} {n}", f"{sound[0]} {n}", 0, "f", n) for n in range(1000)]
        for number in range(damaged_lines):
            pairs[number] = pairs[number]._replace(target=f"Das M?dchen {number}.")
        assert check_lost_letters(compute_statistics(pairs)).status == status


def test_the_commands_say_what_happened_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [(source, f"Nwa ah? na-ag? akw?kw? {source}") for source, _ in LINES[:300]]
    corpus = write_corpus(tmp_path, lines)
    for command in ("check", "init"):
        assert call(command, str(corpus.source), str(corpus.target)) == 2
        output, errors = capsys.readouterr()
        shown = " ".join((output + errors).split())
        assert "? inside words in 100% of the targets: letters were lost" in shown
        assert "CSV UTF-8" in shown
