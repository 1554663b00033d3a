"""`--memory`: translations of texts that a translation memory has in exactly the same form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from mtkit.artifacts.output import check_output
from mtkit.corpus.importers import find_importer, name_suffixes
from mtkit.corpus.text import compose, is_blank
from mtkit.errors import UserError
from mtkit.extras.documents.formats import DocumentPart
from mtkit.extras.documents.units import Replacement, Target, TextUnit
from mtkit.report import plural, say


def check_memories(paths: Iterable[str], output: Path | None) -> None:
    """Raise UserError if a memory is of no format for corpora, or is the output."""
    for path in paths:
        if find_importer(path) is None:
            raise UserError(f"{path}: the name of a translation memory ends in {name_suffixes()}")
        if output is not None:
            check_output(output, [Path(path)])


def reuse_matches(
    parts: Sequence[DocumentPart], paths: Sequence[str], languages: tuple[str, str] | None
) -> None:
    """Give the texts of a document their translations in memories, and say how many have one.

    `languages`: those of sources and targets; None: those of each memory.

    Raises:
        UserError: a memory cannot be read, or lacks the languages.
    """
    units = [unit for part in parts for unit in part.units if unit.texts]
    sources = {_key_of(text) for unit in units for text in unit.texts}
    counts = _count_translations(paths, sources, languages)
    for part in parts:
        part.units = [_reuse(unit, counts) for unit in part.units]
    remaining = sum(1 for part in parts for unit in part.units if unit.texts)
    reused = len(units) - remaining
    total = plural(len(units), "text")
    names = " and ".join(paths)
    say(f"{reused:,} of {total} from {names}")
    ambiguous = sum(len(translations) > 1 for translations in counts.values())
    if ambiguous:
        texts = plural(ambiguous, "text")
        say(f"{texts} with several translations there: the most frequent one is taken")


def _count_translations(
    paths: Iterable[str], sources: set[str], languages: tuple[str, str] | None
) -> Mapping[str, Mapping[str, int]]:
    """Return how often memories have each translation of some texts; the last one is at the end.

    Nothing else of a memory is kept.
    """
    counts: dict[str, dict[str, int]] = {}
    for path in paths:
        importer = find_importer(path)
        assert importer is not None, "check_memories refuses such a file"
        columns = importer.choose_columns(path, None, languages)
        for _, _, source, target in importer.read(path, columns):
            key = _key_of(source)
            if key not in sources or is_blank(key) or is_blank(target):
                continue
            translations = counts.setdefault(key, {})
            translation = target.strip()
            # Without its old entry, it becomes the last.
            count = translations.pop(translation, 0)
            translations[translation] = count + 1
    return counts


def _reuse(unit: TextUnit, counts: Mapping[str, Mapping[str, int]]) -> TextUnit:
    """Return a unit without texts to translate, if all of them have a translation."""
    translations: list[str] = []
    for text in unit.texts:
        found = counts.get(_key_of(text))
        if found is None:
            return unit
        # Of equally frequent translations the last one, because `max` returns the first.
        last_first = reversed(list(found))
        translation = max(last_first, key=found.__getitem__)
        # The spaces around the text stay.
        translations.append(text.replace(text.strip(), translation))
    if not translations:
        return unit
    write = partial(_write_match, unit, translations)
    return TextUnit((), write)


def _write_match(
    unit: TextUnit, translations: Sequence[str], texts: Sequence[str], target: Target
) -> Iterable[Replacement]:
    """Return what writes translations, `texts` being those of the model: none."""
    if list(unit.texts) == translations and not unit.has_mark:
        return []  # The document keeps its escapes and spaces.
    return unit.write(translations, target._replace(is_match=True))


def _key_of(text: str) -> str:
    return compose(text).strip()
