"""RUN/test: translations and scores of the test set; of an adapted model, also of the given one."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path

from mtkit.artifacts.manifest import MANIFEST, Artifact
from mtkit.artifacts.recipe import scores_recipe
from mtkit.artifacts.records import dump_record, load_record
from mtkit.artifacts.stage import Draft, Stage
from mtkit.batching.text_lines import write_lines
from mtkit.config.settings import Config
from mtkit.corpus.read import Pair
from mtkit.corpus.sets import hash_sets, open_set
from mtkit.decoding.api import load
from mtkit.decoding.estimation.flags import UNLIKE
from mtkit.decoding.limits import limit_lengths, max_test_seconds
from mtkit.decoding.text.line import Line, Translation
from mtkit.progress import progress
from mtkit.scoring.line_files import HYPOTHESES_FILE, REFERENCE_FILE, SOURCE_FILE
from mtkit.scoring.memory import group_by_tag
from mtkit.scoring.quality import QualityReport, score_test_set
from mtkit.scoring.verdict import describe_baseline, describe_verdict
from mtkit.training.fine_tuning import find_fine_tuning

TEST_PORTIONS = 32
"""Number of portions of the test set; each takes every 32nd line."""
MIN_TEST_LINES = 30
"""Fewest lines of a test set that are translated, however long they take."""
GIVEN_FILE = "given.txt"
"""File of RUN/test: the translations of the given model, if adaptation has changed it."""
ALL_LINES = "all."
"""How names of files in RUN/test begin that have all lines, if only a part was translated."""


def evaluate(config: Config, model: Artifact) -> Artifact | None:
    """Translate and score the test set, in RUN/test. Without a test set, return None."""
    if config.data.test is None:
        return None
    inputs = {"model": model.identity} | hash_sets(config, "test")
    stage = Stage("test", Path(config.run) / "test", scores_recipe(config), inputs)
    return stage.ensure(config, lambda draft: _translate_and_score(draft, config, model))


def _translate_and_score(draft: Draft, config: Config, model: Artifact) -> None:
    """Fill RUN/test: the lines of the test set, their translations, and the report on them."""
    with open_set(config, "test") as test_set:
        pairs = list(test_set)
    translations = _translate(pairs, config, model)
    scored = [pairs[row] for row in sorted(translations)]
    chosen = [translations[row] for row in sorted(translations)]
    texts = [translation.text for translation in chosen]
    write_lines(draft.folder / SOURCE_FILE, [pair.source for pair in scored])
    write_lines(draft.folder / REFERENCE_FILE, [pair.target for pair in scored])
    write_lines(draft.folder / HYPOTHESES_FILE, texts)
    if len(scored) < len(pairs):
        for tag, rows in group_by_tag(pairs).items():
            name = ALL_LINES if tag is None else f"{ALL_LINES}{tag}."
            sources = [pairs[row].source for row in rows]
            references = [pairs[row].target for row in rows]
            write_lines(draft.folder / f"{name}{SOURCE_FILE}", sources)
            write_lines(draft.folder / f"{name}{REFERENCE_FILE}", references)
    given = find_fine_tuning(config).translate_with_given_model(config, model, scored)
    if given is not None:
        write_lines(draft.folder / GIVEN_FILE, given)
    is_unlike = [UNLIKE in translation.flags for translation in chosen]
    report = score_test_set(config, scored, texts, is_unlike, given)
    draft.report.update(dump_record(report))
    draft.report.update(
        {
            "lines": len(scored),
            "all_lines": len(pairs),
            "verdict": describe_verdict(report),
            "baseline": describe_baseline(report),
        }
    )


def _translate(pairs: Sequence[Pair], config: Config, model: Artifact) -> dict[int, Translation]:
    """Translate the test set, or as many lines as there is time for; return them by row.

    The set is divided into TEST_PORTIONS portions, and each is spread over the set. The first round
    translates at least MIN_TEST_LINES lines. After each round, the speed so far tells how many more
    portions there is time for. The next round takes at most twice as many as the one before.
    """
    translator = load(model.path, config.training.device)
    sources = [pair.source for pair in pairs]
    references = [pair.target for pair in pairs]
    lines = [Line(pair.source, tag=pair.target_tag) for pair in pairs]
    # The references only limit the length of translations.
    groups = limit_lengths(sources, references, translator.tokenizer, translator.request)
    max_seconds = max_test_seconds(float(model.report["training_seconds"]))
    done: dict[int, Translation] = {}
    with closing(translator), progress("translating the test set", len(pairs), "lines") as bar:
        translator.submit(lines[:1]).result()  # the first call prepares the engine
        started = time.monotonic()
        done_portions = 0
        portions_for_min_lines = math.ceil(TEST_PORTIONS * MIN_TEST_LINES / len(pairs))
        next_portions = min(TEST_PORTIONS, portions_for_min_lines)
        while next_portions > 0:
            portions = _spread_portions(done_portions, done_portions + next_portions)
            for group in groups:
                rows = [row for row in group.rows if row % TEST_PORTIONS in portions]
                chosen_lines = [lines[row] for row in rows]
                translations = chain.from_iterable(translator.stream(chosen_lines, group.request))
                for row, translation in zip(rows, translations, strict=True):
                    done[row] = translation
                    bar.advance()
            done_portions += next_portions
            seconds = time.monotonic() - started
            portions_per_second = done_portions / max(seconds, 1e-6)
            affordable_portions = int((max_seconds - seconds) * portions_per_second)
            next_portions = min(
                2 * next_portions, TEST_PORTIONS - done_portions, affordable_portions
            )
    return done


def _spread_portions(start: int, end: int) -> set[int]:
    """Return portions `start` to `end` of a fixed order that spreads them over the test set."""
    # 13 and 32 have no common divisor, so every portion comes once; 13 / 32 is near the golden
    # section, so early portions lie far apart.
    return {13 * place % TEST_PORTIONS for place in range(start, end)}


def open_report(test: Artifact) -> QualityReport:
    """Return the report on a test set; UserError if it is damaged."""
    return load_record(QualityReport, test.report, test.path / MANIFEST)
