"""`mtkit translate FILE`: translate the texts of a document, and write them into their places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from mtkit.config.language_codes import find_language
from mtkit.decoding.api import Translator
from mtkit.decoding.model_languages import find_model_languages
from mtkit.decoding.text.line import Line, Translation
from mtkit.decoding.translate import Input
from mtkit.errors import UserError
from mtkit.extras.documents.formats import (
    DocumentFormat,
    DocumentPart,
    find_format,
    read_parts,
    write_parts,
)
from mtkit.extras.documents.memory import check_memories, reuse_matches
from mtkit.extras.documents.units import Replacement, Target, TextUnit, find_lines, splice
from mtkit.report import plural, say, warn

_UNSURE = "below --min-confidence: marked for review, or left as in the source"
_UNSAFE = "left as in the source, because the translation lost a link"
_UNWRITABLE = "left as in the source, because the encoding lacks characters; use UTF-8"


@dataclass
class Document(Input):
    """A document whose texts are translated. It is written when all are."""

    unit: ClassVar[str] = "text"

    path: str
    form: DocumentFormat
    parts: Mapping[str, DocumentPart]
    """The texts with what is translated of them, by the names of members."""
    min_confidence: float | None
    memory: Sequence[str] = ()
    """Translation memories, whose exact matches are reused."""
    language: str | None = None
    """The target language, a tag of BCP 47."""
    _answers: list[Translation] = field(default_factory=list, init=False)
    _problems: Counter[str] = field(default_factory=Counter, init=False)
    """How many texts have a problem, by what a warning says of it."""

    @property
    def is_resumable(self) -> bool:
        """Whether a partial output can be continued: a document is written at its end."""
        return False

    def prepare(self, translator: Translator) -> None:
        """Note the target language, and read the memory.

        Raises:
            UserError: the model gives no confidence, which `min_confidence` needs, or the memory
                cannot be read.
        """
        obstacle = translator.confidence_obstacle
        if self.min_confidence is not None and obstacle is not None:
            raise UserError(f"--min-confidence needs the confidence of the model: {obstacle}")
        source = None
        if translator.models:
            languages = find_model_languages(translator.models[0])
            source = languages.source
            if len(languages.targets) == 1:
                (self.language,) = languages.targets
        tag = translator.request.settings.tag
        if tag is not None:
            self.language = find_language(tag)
        if self.memory:
            both = (source, self.language) if source and self.language else None
            reuse_matches(list(self.parts.values()), self.memory, both)

    def count(self) -> int:
        return sum(1 for _ in self._texts())

    def lines(self, done: int) -> Iterator[Line]:
        for number, text in enumerate(self._texts()):
            yield Line(text, id=number)

    def _texts(self) -> Iterator[str]:
        for part in self.parts.values():
            for unit in part.units:
                for text in unit.texts:
                    for start, end in find_lines(text):
                        yield text[start:end]

    def output(self, number: int, translation: Translation) -> bytes:
        self._answers.append(translation)
        return b""

    def line_counts(self) -> Iterator[int]:
        return iter(())

    def end(self) -> bytes:
        answers = iter(self._answers)
        errors = self.form.errors
        contents: dict[str, bytes] = {}
        for name, part in self.parts.items():
            replacements: list[Replacement] = []
            for unit in part.units:
                written = self._write(unit, answers)
                texts = [replacement.text for replacement in written]
                try:
                    part.encode("".join(texts), errors)
                except UnicodeEncodeError:
                    self._problems[_UNWRITABLE] += len(unit.texts) or 1  # a match has none
                else:
                    replacements += written
            contents[name] = part.encode(splice(part.text, replacements), errors)
        for problem, number in self._problems.items():
            warn(f"{self.path}: {plural(number, 'text')} {problem}")
        return write_parts(self.path, self.form, contents)

    def _write(self, unit: TextUnit, answers: Iterator[Translation]) -> Sequence[Replacement]:
        """Return what writes the translations of a unit; nothing if it stays as it is."""
        if not unit.texts:
            return list(unit.write((), Target(self.language)))
        translations: list[str] = []
        is_sure = True
        for text in unit.texts:
            lines: list[Replacement] = []
            for start, end in find_lines(text):
                answer = next(answers)
                lines.append(Replacement(start, end, answer.text))
                confidence = answer.confidence
                if self.min_confidence is not None and confidence is not None:
                    is_sure = is_sure and confidence >= self.min_confidence
            translations.append(splice(text, lines))
        if not is_sure:
            self._problems[_UNSURE] += len(unit.texts)
        is_blank = not all(map(str.strip, translations))
        # A text that is its own translation keeps the escapes and spaces of the document.
        has_changed = translations != list(unit.texts)
        is_written = unit.has_mark or (has_changed and is_sure)
        if (is_blank and has_changed) or not is_written:
            return []
        replacements = list(unit.write(translations, Target(self.language, is_sure)))
        if not replacements:
            self._problems[_UNSAFE] += len(unit.texts)
        return replacements


def open_document(
    path: Path | None,
    output: Path | None,
    all_texts: bool,
    min_confidence: float | None,
    memory: Sequence[str | Path] = (),
) -> Document | None:
    """Read a document to translate; return None if the file is not of a format for documents.

    `path`: None is standard input. `all_texts`: translate the texts again that have a translation.

    Raises:
        UserError: the file cannot be read, the output has the name of another format, or an option
            is for documents and the file is none.
    """
    name = str(path or "")  # standard input has no format
    form = find_format(name)
    if form is None:
        if all_texts or memory or min_confidence is not None:
            problem = "need a document: `mtkit guide documents` lists the formats"
            raise UserError(f"--all, --memory and --min-confidence {problem}")
        return None
    memories = [str(path) for path in memory]
    check_memories(memories, output)
    if output is not None and output.suffix and find_format(output.name) is not form:
        suffixes = " or ".join(form.suffixes)
        raise UserError(f"{output}: has another format than {path}; choose a name with {suffixes}")
    parts = read_parts(name, form)
    kept = 0
    for part in parts.values():
        units = [unit for unit in part.units if all_texts or not any(unit.translations)]
        kept += len(part.units) - len(units)
        part.units = units
    if kept:
        say(f"{name}: keeps {plural(kept, 'translation')} (--all: translate all texts again)")
    return Document(name, form, parts, min_confidence, memories)
