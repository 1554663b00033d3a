"""The script (writing system) of letters: the first word of their Unicode names."""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import cache

SAME_SCRIPT = {
    "CJK": "HAN",
    "HIRAGANA": "KANA",
    "KATAKANA": "KANA",
    "KATAKANA-HIRAGANA": "KANA",
    "HALFWIDTH": "KANA",
    "FULLWIDTH": "LATIN",
}
"""First words that are not names of scripts, or name one of several that are used together."""
NO_SCRIPT = frozenset(["", "COMBINING", "VARIATION", "MODIFIER"])
UNSPACED_SCRIPTS = frozenset(["HAN", "KANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"])
"""Scripts without spaces between words."""


@cache
def script_of(character: str) -> str | None:
    """Return the script of a letter or mark, such as LATIN or HAN; None for other characters."""
    if unicodedata.category(character)[0] not in "LM":
        return None
    script = unicodedata.name(character, "").split(" ")[0]
    return None if script in NO_SCRIPT else SAME_SCRIPT.get(script, script)


def count_scripts(text: str) -> Counter[str]:
    """Count the letters and marks of each script."""
    counts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if script := script_of(character):
            counts[script] += count
    return counts
