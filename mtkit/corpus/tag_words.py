"""Tags that are also words of the sources."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator

from mtkit.config.corpora import Corpus, listed
from mtkit.config.target_tags import piece_of_tag
from mtkit.corpus.read import Pair
from mtkit.corpus.store import CorpusRows
from mtkit.report import plural


class TagWords:
    """Counts the sources that have a tag of their corpora as a word."""

    def __init__(self, corpora: Corpus | list[Corpus]) -> None:
        self._words = {corpus.tag for corpus in listed(corpora) if corpus.tag}
        """Tags that are read as words of the text."""
        self._target_tags: dict[str, str] = {}
        """Target tags, by the words that look like them."""
        for corpus in listed(corpora):
            tag = corpus.target_tag
            if tag is not None:
                spellings = (tag, f"<{tag}>", piece_of_tag(tag), f">>{tag}<<")
                self._target_tags |= dict.fromkeys(spellings, tag)
        self._counts = Counter[str]()
        self._places: dict[str, str] = {}
        """Where each word was found first."""

    @classmethod
    def find(cls, rows: CorpusRows) -> TagWords:
        """Return the tags of corpora that are words of their sources."""
        tag_words = cls(rows.corpora)
        if tag_words._words or tag_words._target_tags:
            deque(tag_words.watch(rows), maxlen=0)
        return tag_words

    def watch(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yield the pairs, and count the words that are tags."""
        tags = self._words | self._target_tags.keys()
        for pair in pairs:
            # Nearly all sources have none; for them this is one test per word.
            if tags and not tags.isdisjoint(pair.source.split()):
                self._count(pair)
            yield pair

    def _count(self, pair: Pair) -> None:
        for word in set(pair.source.split()):
            if word in self._words or word in self._target_tags:
                self._counts[word] += 1
                self._places.setdefault(word, pair.where)

    def messages(self) -> Iterator[str]:
        """Yield a line for each tag that is a word, with the first place and what it means."""
        for word, count in self._counts.most_common():
            found = f"{plural(count, 'source')} (first: {self._places[word]})"
            if word in self._words:
                yield (
                    f"data.train: the tag {word!r} is also a word of {found}, which the model "
                    "cannot tell from tagged ones; choose a tag that no text contains, such as <bt>"
                )
            else:
                yield (
                    f"data.train: {word!r} is also a word of {found}; it stays a word there, "
                    f"because only the setting target_tag adds the tag {self._target_tags[word]!r}"
                )
