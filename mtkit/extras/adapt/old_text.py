"""The text that a base model was trained and measured on.

Validation and test sets come from the run of the model itself. Other text is in files that the
config of the run names. A downloaded config may name any file, also a private one. So a file is
used only if it is text that the run was made of: the run recorded its hash, which nobody knows who
has not read the file.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.artifacts.manifest import Artifact, open_artifact
from mtkit.artifacts.runs import SETTINGS, config_of
from mtkit.batching.build import Batches
from mtkit.batching.encode import key_of_pair
from mtkit.config.corpora import Corpus, DatasetCorpus, listed
from mtkit.corpus.files import existing_file
from mtkit.corpus.read import Pair, hash_corpora, paths_of, read_pairs
from mtkit.errors import MtkitError, UserError
from mtkit.models.folder import OpenedModel
from mtkit.report import printable, say, warn
from mtkit.scoring.line_files import REFERENCE_FILE, SOURCE_FILE, load_lines

MAX_OLD_BYTES = 1 << 36
"""Most bytes that are hashed; a foreign config could name a huge file, or one file many times."""
MIN_REPLAYED_SHARE = 0.1
"""If a smaller share of the old pairs is not in the new text, none is replayed.

These few are often rows that the new text has in a corrected form.
"""


@dataclass(frozen=True)
class OldTraining:
    """The training text of a base model, if it is still at hand."""

    corpora: Sequence[Corpus] = ()
    """What can be replayed."""
    pairs: int = 0
    """Number of pairs in an epoch of the base model that the new text does not have."""
    share_in_new_text: float = 0.0
    """The share of the old pairs that the new text has, too."""
    keys: NDArray[np.uint64] = field(default_factory=lambda: np.array([], np.uint64), compare=False)
    """The hashes of the old pairs, once they are compared with the new text."""

    @property
    def is_trained_on(self) -> bool:
        """Whether the adapted model is trained on old pairs, replayed or in the new text."""
        return self.pairs > 0 or self.share_in_new_text > 0

    def replay_settings(self, count: float) -> list[dict[str, Any]]:
        """Return the corpora with weights for about `count` pairs in an epoch, for a config."""
        share = min(1.0, count / max(1, self.pairs))
        settings = []
        for corpus in self.corpora:
            # Two digits are enough for an estimate, and are easy to read in the config.
            weight = float(f"{share * corpus.weight:.2g}")
            settings.append(corpus.model_dump(exclude_defaults=True) | {"weight": weight})
        return settings

    def without_pairs_of(self, new: Iterable[Pair]) -> OldTraining:
        """Return the old text without the pairs that the new text has."""
        if not self.corpora:
            return self
        old_keys = _keys_of(read_pairs(list(self.corpora)))
        share = float(np.isin(old_keys, _keys_of(new)).mean()) if len(old_keys) else 0.0
        if 1 - share < MIN_REPLAYED_SHARE:
            return OldTraining(share_in_new_text=share, keys=old_keys)
        pairs = round(self.pairs * (1 - share))
        return replace(self, pairs=pairs, share_in_new_text=share, keys=old_keys)


def _keys_of(pairs: Iterable[Pair]) -> NDArray[np.uint64]:
    """Return the hashes of pairs with text on both sides: 8 bytes each."""
    return np.array(array("Q", (key_of_pair(pair) for pair in pairs if not pair.blank)), np.uint64)


def find_old_training(base: OpenedModel, batches: Batches) -> OldTraining:
    """Return the training text of the base model, as far as its files are there and unchanged."""
    corpora = listed(config_of(base.run).data.train)
    rows = np.bincount(batches.train.corpora, minlength=len(corpora))
    usable: list[Corpus] = []
    pairs = 0.0
    for index, corpus in _unchanged(base, corpora, "data.train", batches.artifact):
        usable.append(corpus)
        pairs += rows[index] * corpus.weight
    return OldTraining(usable, round(pairs))


def validation_pairs(batches: Batches) -> Iterator[Pair]:
    """Yield the validation set of the base model's run."""
    place = str(batches.artifact.path)
    lines = zip(batches.valid_source, batches.valid_target, batches.valid_tags, strict=True)
    for row, (source, target, tag) in enumerate(lines):
        yield Pair(source, target, corpus=0, file=place, line=row + 1, target_tag=tag)


def test_pairs(base: OpenedModel) -> Iterator[Pair]:
    """Yield the test set of the base model's run: lines that were translated, and all others."""
    with suppress(MtkitError, OSError):
        test = open_artifact(base.run / "test", "test")
        if test.manifest["inputs"].get("model") != base.artifact.identity:
            return
        for name, path in test.paths.items():
            if name.endswith(SOURCE_FILE):
                # `file` raises an error for a name that the manifest does not list.
                references = test.file(name.removesuffix(SOURCE_FILE) + REFERENCE_FILE)
                lines = zip(load_lines(path), load_lines(references), strict=False)
                for row, (source, reference) in enumerate(lines):
                    yield Pair(source, reference, corpus=0, file=str(path), line=row + 1)


def kept_pairs(base: OpenedModel) -> Iterator[Pair]:
    """Yield the text that the base model had to keep, if its files are there and unchanged."""
    corpora = listed(config_of(base.run).data.keep)
    for _, corpus in _unchanged(base, corpora, "data.keep", base.artifact):
        yield from read_pairs(corpus)


def _unchanged(
    base: OpenedModel, corpora: Sequence[Corpus], setting: str, artifact: Artifact
) -> Iterator[tuple[int, Corpus]]:
    """Yield the corpora whose hashes are among the inputs of an artifact, with their index.

    Say which files they are, and warn of the others. `setting`: what names the corpora in the
    config of the run.
    """
    total = 0
    for index, corpus in enumerate(corpora):
        name = setting if len(corpora) == 1 else f"{setting}.{index}"
        try:
            total += _size_of(corpus)
            if total > MAX_OLD_BYTES:
                raise UserError(f"the files take over {MAX_OLD_BYTES >> 30} GiB in all")
            if not hash_corpora(corpus, name).items() <= artifact.manifest["inputs"].items():
                raise UserError(f"{_list_files(corpus)} is not the text of this run")
        except MtkitError as problem:
            use = "give it with --keep" if setting == "data.keep" else "add it to the new config"
            message = f"{name} of {base.run / SETTINGS} is not used: {problem}"
            # A foreign name may have line feeds.
            warn(printable(f"--from: {message}; if you know this text, {use}"))
            continue
        say(printable(f"init: reads {_list_files(corpus)} ({name} of {base.run}, unchanged)"))
        yield index, corpus


def _size_of(corpus: Corpus) -> int:
    """Return the size of the files of a corpus; raise UserError unless all are plain files."""
    if isinstance(corpus, DatasetCorpus):
        raise UserError(f"{corpus.dataset} is a dataset, not a file")
    total = 0
    for path in paths_of(corpus):
        size = existing_file(str(path)).stat().st_size
        if not size:  # files of the kernel, such as those in /proc, have size 0, too
            raise UserError(f"{path} is empty")
        total += size
    return total


def _list_files(corpus: Corpus) -> str:
    """Return the paths of a corpus for a message."""
    return ", ".join(map(str, paths_of(corpus)))
