"""Four German sentences, translated well, otherwise, and badly."""

from pathlib import Path

REFERENCES = [
    "Ein Hund rennt über die Wiese.",
    "Zwei Männer, „stark“ wie Bären, heben z. B. ein Boot.",
    "Am 3. Mai regnete es.",
    "Warum?",
]
OTHERS = [
    "Ein hund läuft über das Gras.",
    "Zwei bärenstarke Männer heben ein Boot.",
    "Am 3. Mai hat es geregnet.",
    "Weshalb?",
]
"""Second references."""
HYPOTHESES = [
    "Ein hund läuft über die Wiese.",
    'Zwei Männer, "stark" wie Bären, tragen ein Boot.',
    "Am 3. Mai regnete es sehr.",
    "",
]


def write(path: Path, lines: list[str]) -> Path:
    """Write a line each."""
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path
