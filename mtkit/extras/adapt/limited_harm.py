"""What `training.max_harm` does in a run: it ends with weights that do little harm, and says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from mtkit.artifacts.manifest import MANIFEST, Artifact
from mtkit.artifacts.records import dump_record, load_record
from mtkit.artifacts.runs import find_origin
from mtkit.config.decoding import DecodingSettings
from mtkit.config.settings import Config
from mtkit.corpus.read import Pair
from mtkit.decoding.api import load
from mtkit.decoding.estimation.estimator import load_estimator
from mtkit.decoding.limits import limit_lengths
from mtkit.decoding.text.line import Line
from mtkit.extras.adapt.adaptation import describe_adaptation, find_adaptation, tabulate_adaptation
from mtkit.extras.adapt.interpolation import limit_harm
from mtkit.report import say, silently
from mtkit.scoring.comparison import BeforeAndAfter
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.candidates import Candidate
from mtkit.training.fine_tuning import Ending, FineTuning, ModelContent
from mtkit.training.setup import RunInputs, TrainingRun, find_glossary
from mtkit.training.state import TrainState


class LimitedHarm(FineTuning):
    """Adaptation of a base model that limits what old text loses."""

    def end(self, run: TrainingRun, state: TrainState, trained: Candidate) -> Ending:
        """Choose weights between those of the base model and the trained ones."""
        best, adaptation = limit_harm(run, state, trained)
        record = dump_record(adaptation) | {"verdict": describe_adaptation(adaptation)}
        base = None
        if adaptation.is_refused and run.group.is_main:
            base = _restore_base_model(run.inputs)
        return Ending(best, {"adaptation": record}, base)

    def translate_with_base_model(
        self, config: Config, model: Artifact, pairs: Sequence[Pair]
    ) -> list[str] | None:
        """Translate lines of the test set with the model of `training.init_from`.

        Return None if the run ended with that model.
        """
        if find_adaptation(model).is_refused:
            return None
        base = find_origin(config)
        assert base is not None  # an adapted model has one
        sources = [pair.source for pair in pairs]
        references = [pair.target for pair in pairs]
        # The first model has said already what loading and preparing says.
        with silently():
            translator = load(base.path, config.training.device)
        with closing(translator):
            # Both models decode with the same settings.
            settings = config.decoding.part(DecodingSettings)
            glossary = find_glossary(config)
            request = replace(translator.request, settings=settings, glossary=glossary)
            groups = limit_lengths(sources, references, translator.tokenizer, request)
            hypotheses = [""] * len(pairs)
            for group in groups:
                lines = [Line(pairs[row].source, tag=pairs[row].target_tag) for row in group.rows]
                translations = translator.submit(lines, group.request).result()
                for row, translation in zip(group.rows, translations, strict=True):
                    hypotheses[row] = translation.text
        return hypotheses

    def describe(self, model: Artifact, test: Artifact | None) -> Iterator[str]:
        """Yield a table of the scores of both models, and which weights the run has ended with."""
        adaptation = find_adaptation(model)
        if not adaptation.is_refused:
            tested = None
            if test is not None:
                tested = load_record(
                    BeforeAndAfter, test.report.get("adaptation"), test.path / MANIFEST
                )
            yield ""
            yield from tabulate_adaptation(adaptation, tested)
        yield f"fine-tuning: {describe_adaptation(adaptation)}"


def _restore_base_model(inputs: RunInputs) -> ModelContent | None:
    """Return the base model with its own vocabulary; None if this run has the same vocabulary.

    Its estimator is the one that it brings along: a new one would need the training data in ids of
    its vocabulary.
    """
    origin = inputs.origin
    assert origin is not None  # an adapted model has one
    tokenizer = Tokenizer.load(origin)
    if tokenizer.models == inputs.tokenizer.models:
        return None
    say("train: the model has the unchanged vocabulary of the base model")
    return ModelContent(
        inputs=replace(inputs, tokenizer=tokenizer),
        weights=inputs.read_base_weights(origin, tokenizer),
        estimator=load_estimator(origin),
    )
