"""What the core knows of glossaries: an extra reads them, and finds their terms in a text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from mtkit.artifacts.manifest import Artifact
from mtkit.plugins import load_plugin

GLOSSARY = "glossary.tsv"
"""File of a model folder."""
Direction = tuple[str | None, str | None]
"""Codes of the source and the target language; None if unknown."""


class Glossary(ABC):
    """Terms and their translations."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of entries."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """The sha256 of the entries, in order."""

    @abstractmethod
    def directed(self, languages: Direction) -> Glossary:
        """Return the glossary in the direction of a model.

        Raises:
            UserError: the glossary is for other languages.
        """

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the glossary into the folder of a model."""


def open_glossary(glossary: str | Path | Mapping[str, object] | Glossary) -> Glossary:
    """Return a glossary as Python code gives it: the path of a file, or a dictionary.

    Raises:
        TypeError: it is neither.
        UserError: the file cannot be read, or an entry is faulty; or no extra reads glossaries.
    """
    opened: Glossary = load_plugin("actions", "open_terms")(glossary)
    return opened


def load_glossary(artifact: Artifact) -> Glossary | None:
    """Load the glossary that a model brings along; None if it has none.

    Raises:
        UserError: the file is damaged, or no extra reads glossaries.
    """
    if GLOSSARY not in artifact.files:
        return None
    loaded: Glossary = load_plugin("actions", "load_terms")(artifact.file(GLOSSARY))
    return loaded
