"""Encode the training corpora in parts, each an artifact of its own in `RUN/parts`.

A part is a range of rows, `batching.part_rows` of them. It depends on the text of its rows, on the
settings, and on the index, an artifact that is made first: the number of rows of each file, and
statistics of the corpora. So parts can be made in any order, by many processes and on many
machines, and have the same bytes. Parts keep repeated pairs; `join.py` drops them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

from mtkit.artifacts.locks import LockHeldError, lock_path
from mtkit.artifacts.manifest import Artifact, kind_at, open_artifact
from mtkit.artifacts.recipe import batches_recipe
from mtkit.artifacts.records import dump_record, load_record
from mtkit.artifacts.replacement import foreign_file_error, recover_all, remove
from mtkit.artifacts.stage import Draft, Stage
from mtkit.artifacts.storage import read_json, write_json
from mtkit.batching.counts import Dropped
from mtkit.batching.encode import Encoded, encode_chunk, encode_pairs
from mtkit.batching.hints import HintWriter
from mtkit.batching.part_store import part_writer
from mtkit.batching.text_lines import read_written_lines, write_lines
from mtkit.config.corpora import listed
from mtkit.config.settings import Config
from mtkit.corpus.read import hash_corpora, paths_of, read_pairs
from mtkit.corpus.row_index import RowIndex
from mtkit.corpus.rules import PairFilter, held_out_keys
from mtkit.corpus.statistics import CorpusStatistics, compute_statistics
from mtkit.corpus.tag_words import TagWords
from mtkit.errors import UserError
from mtkit.progress import progress
from mtkit.report import say
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train_spm import sample_pairs

PARTS = "parts"
"""The folder of the index and of all parts in a run."""
SAMPLED_ROWS = 200_000
"""Number of rows of a corpus, at equal distances, of which statistics are computed."""
ALIGNED_PAIRS = 100_000
"""Number of pairs from which links between words are learned."""
PLAIN, HINTED = "train", "hinted"
"""The token stores of a part: its pairs, and second forms of some of them, with hints."""
FACTS, SAMPLE = "facts.json", "sample.txt"
"""Files of the index: numbers of rows with statistics, and pairs from which hints are learned."""
REPORT = "report.json"
"""A file of a part: dropped pairs, and tags that are words."""
FILE_STATES = "files"
"""What the index reports: size and time of change of each file, by its path."""
PART_ROWS = "batching.part_rows"
"""What the index depends on besides text: the number of rows of a part."""
_NAME = re.compile("index|part-[0-9]{5,}")
"""The names of the artifacts in `RUN/parts`."""
_LOCK_NAME = re.compile(rf"\.({_NAME.pattern})\.lock")


class Parts:
    """The parts of the training corpora of a run."""

    def __init__(self, config: Config, tokenizer: Artifact, index: Artifact) -> None:
        """Read the facts of the index."""
        path = index.file(FACTS)
        facts = read_json(path)
        self.config = config
        self.tokenizer = Tokenizer.load(tokenizer)
        self.rows = RowIndex(listed(config.data.train), facts["rows"])
        self._index = index
        self._statistics = [
            load_record(CorpusStatistics, each, path) for each in facts["statistics"]
        ]

    @property
    def folder(self) -> Path:
        """The folder of the index and of all parts."""
        return self._index.path.parent

    @property
    def stores(self) -> list[str]:
        """The names of the token stores of each part."""
        return [PLAIN, HINTED] if self.config.batching.hints else [PLAIN]

    @property
    def vocab(self) -> int:
        """The size of the larger vocabulary."""
        return max(self.tokenizer.source_vocab, self.tokenizer.target_vocab)

    def __len__(self) -> int:
        return math.ceil(self.rows.total / self.config.batching.part_rows)

    def rows_of(self, number: int) -> range:
        """Return the rows of a part; parts are numbered from 1."""
        size = self.config.batching.part_rows
        return range(self.rows.total)[(number - 1) * size : number * size]

    def find(self, number: int) -> Artifact | None:
        """Return a part; None if it is missing or not up to date."""
        return self._stage(number).current()

    def encode(self, number: int) -> Artifact:
        """Encode a part unless it is up to date.

        Raises:
            UserError: there is no such part, or its text cannot be read.
        """
        if not 1 <= number <= len(self):
            raise UserError(
                f"--part: {number} is not between 1 and the number of parts, {len(self)}"
            )
        description = "encoding train"
        if len(self) > 1:
            description = f"encoding part {number} of {len(self)}"
        return _make(
            self._stage(number), lambda draft: self._fill(draft, self.rows_of(number), description)
        )

    def check_unchanged(self) -> None:
        """Raise UserError if the text is not that of the index: changed, or another copy.

        Only files of another size or time are read.
        """
        if _states_of_files(self.config) == self._index.report[FILE_STATES]:
            return
        indexed = self._index.manifest["inputs"]
        for name, digest in hash_texts(self.config).items():
            if indexed.get(name) != digest:
                raise UserError(
                    f"{name} is not the text that was indexed; run `mtkit batch --parts` again, or "
                    "copy the text again"
                )

    def _stage(self, number: int) -> Stage:
        """Return the stage that makes a part; the index identifies all text that parts have."""
        return Stage(
            kind="part",
            path=self.folder / f"part-{number:05}",
            recipe=batches_recipe(self.config),
            inputs={"index": self._index.identity, "rows": str(self.rows_of(number))},
        )

    def _fill(self, draft: Draft, rows: range, description: str) -> None:
        """Write the files of a part."""
        self.check_unchanged()
        tag_words = TagWords(self.config.data.train)
        hint_writer = self._hint_writer()
        dropped = Dropped()
        max_length = self.config.batching.max_length
        # Lazy: tags that are words are counted while the loop below reads the pairs.
        pairs = tag_words.watch(self.rows.read(rows))
        with ExitStack() as stack:
            bar = stack.enter_context(progress(description, len(rows), "pairs"))
            append_to: dict[str, Callable[[Encoded], None]] = {}
            for name in self.stores:
                append_to[name] = stack.enter_context(part_writer(draft.folder, name, self.vocab))
            for chunk in encode_pairs(pairs, self.tokenizer, max_length, self._pair_filter()):
                append_to[PLAIN](chunk)
                if hint_writer is not None:
                    hinted = encode_chunk(hint_writer.write(chunk.kept), self.tokenizer, max_length)
                    # A second form that is too long is dropped without a report: the pair is kept.
                    append_to[HINTED](hinted)
                for pair, reason in chunk.dropped:
                    dropped.add(pair, reason)
                bar.advance(chunk.pairs)
        self.check_unchanged()  # again, because somebody may have written while they were read
        report = {"dropped": dropped.record(), "tag_words": tag_words.record()}
        write_json(draft.folder / REPORT, report)

    def _pair_filter(self) -> PairFilter | None:
        """Return the rules of `batching.drop` with the statistics they need; None without rules."""
        rules = self.config.batching.drop
        if not rules:
            return None
        statistics = self._statistics
        if "overlap" in rules:
            data = self.config.data
            measuring = [*listed(data.valid), *listed(data.test), *listed(data.keep)]
            keys = held_out_keys(read_pairs(measuring))
            statistics = [replace(each, held_out=keys) for each in statistics]
        return PairFilter(rules, statistics)

    def _hint_writer(self) -> HintWriter | None:
        """Return the writer of hints; None without `batching.hints`."""
        share = self.config.batching.hints
        if not share:
            return None
        lines = read_written_lines(self._index.file(SAMPLE))
        sample = zip(lines[::2], lines[1::2], strict=True)
        return HintWriter(sample, self.tokenizer, share, self.config.seed)


def index_parts(config: Config, tokenizer: Artifact, inputs: Mapping[str, str]) -> Parts:
    """Make the index of the parts unless it is up to date, and return the parts.

    `inputs`: the hashes of all that batches are made of, by name.

    Raises:
        UserError: a corpus cannot be read.
    """
    stage = Stage(
        kind="index",
        path=_index_path(config),
        recipe=batches_recipe(config),
        inputs={**inputs, PART_ROWS: str(config.batching.part_rows)},
    )
    return Parts(config, tokenizer, _make(stage, lambda draft: _fill_index(draft, config)))


def open_parts(config: Config, tokenizer: Artifact) -> Parts:
    """Open the index that `index_parts` has made, and return the parts.

    Raises:
        UserError: there is no index, or it is of other settings or another tokenizer.
    """
    index = open_artifact(_index_path(config), "index", verify=True)
    change = batches_recipe(config).difference(index.manifest["settings"])
    if change is not None:
        raise UserError(f"{index.path}: {change.describe()}; run `mtkit batch --parts` again")
    if index.manifest["inputs"]["tokenizer"] != tokenizer.identity:
        raise UserError(f"{index.path}: the tokenizer changed; run `mtkit batch --parts` again")
    if index.manifest["inputs"].get(PART_ROWS) != str(config.batching.part_rows):
        raise UserError(
            f"{index.path}: {PART_ROWS} changed; give the value that `mtkit batch --parts` used, "
            "or run that command again"
        )
    return Parts(config, tokenizer, index)


def remove_parts(run: Path) -> None:
    """Delete the index and all parts of a run, which are not needed once they are joined.

    Files of the user stay.
    """
    folder = run / PARTS
    if not folder.is_dir():
        return
    for name in ("index", "part-*"):
        recover_all(folder, name)
    for path in sorted(folder.iterdir()):  # the index first, so that no process makes a part anew
        if _NAME.fullmatch(path.name) and kind_at(path) in ("index", "part"):
            remove(path)
    for path in folder.iterdir():
        if _LOCK_NAME.fullmatch(path.name):
            path.unlink(missing_ok=True)
    if not folder.is_symlink() and not any(folder.iterdir()):
        folder.rmdir()


def hash_texts(config: Config) -> dict[str, str]:
    """Return hashes of the text that batches are made of, by the setting that names it."""
    data = config.data
    hashes = hash_corpora(data.train, "data.train") | hash_corpora(data.valid, "data.valid")
    if "overlap" in config.batching.drop:
        hashes |= hash_corpora(listed(data.test), "data.test")
        hashes |= hash_corpora(listed(data.keep), "data.keep")
    return hashes


def _states_of_files(config: Config) -> dict[str, list[int]]:
    """Return size and time of change of each file of the text, by its path."""
    data = config.data
    states: dict[str, list[int]] = {}
    for corpus in chain(*map(listed, (data.train, data.valid, data.test, data.keep))):
        for path in paths_of(corpus):
            if path.is_file():
                state = path.stat()
                states[str(path)] = [state.st_size, state.st_mtime_ns]
    return states


def _index_path(config: Config) -> Path:
    return Path(config.run) / PARTS / "index"


def _fill_index(draft: Draft, config: Config) -> None:
    """Count rows, and compute what all parts need."""
    draft.report[FILE_STATES] = _states_of_files(config)
    corpora = listed(config.data.train)
    index = RowIndex.count(corpora)
    statistics: list[CorpusStatistics] = []
    if config.batching.drop:
        for corpus in range(len(corpora)):
            rows = _at_equal_distances(index.rows_of(corpus), SAMPLED_ROWS)
            statistics.append(compute_statistics(index.read(rows)))
    sample: list[tuple[str, str]] = []
    if config.batching.hints:
        rows = _at_equal_distances(range(index.total), SAMPLED_ROWS)
        sample = sample_pairs(index.read(rows), ALIGNED_PAIRS, config.seed)
    write_lines(draft.folder / SAMPLE, chain.from_iterable(sample))
    facts = {"rows": index.counts, "statistics": [dump_record(each) for each in statistics]}
    write_json(draft.folder / FACTS, facts)


def _at_equal_distances(rows: range, count: int) -> range:
    """Return at most `count` of the rows; all of them if there are not more."""
    return rows[:: math.ceil(len(rows) / count)]


def _make(stage: Stage, fill: Callable[[Draft], None]) -> Artifact:
    """Return an artifact, which is filled anew if it is not up to date.

    While another process makes it, wait.
    """
    folder = stage.path.parent
    if folder.exists() and not folder.is_dir():
        raise foreign_file_error(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _hold_lock(stage.path):
        artifact = stage.current()
        if artifact is not None:
            return artifact
        with stage.write() as draft:
            fill(draft)
        return stage.open()


@contextmanager
def _hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock of an artifact; wait for another process that holds it."""
    lock = path.with_name(f".{path.name}.lock")
    with ExitStack() as stack:
        try:
            stack.enter_context(lock_path(lock))
        except LockHeldError as held:
            say(f"{path} is being made by another process; waiting for it{held.advice}")
            stack.enter_context(lock_path(lock, wait=True))
        yield
