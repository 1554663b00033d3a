"""The start of `mtkit init --from`: opens the base model, and proposes to adapt it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from mtkit.artifacts.runs import check_other_run, find_base_model
from mtkit.corpus.read import Pair, paths_of
from mtkit.corpus.store import CorpusRows
from mtkit.errors import UserError, blame_setting
from mtkit.extras.adapt.base_model import describe_swap, find_old_text, follow_latest
from mtkit.extras.adapt.from_model import AdaptedModel, propose_adaptation
from mtkit.extras.adapt.languages import choose_tags
from mtkit.init.facts import CorpusFacts
from mtkit.init.from_scratch import Start
from mtkit.init.proposal import InitOptions
from mtkit.models.folder import open_model


class FromModel(Start):
    """A start from the weights of the base model."""

    def __init__(self, options: InitOptions) -> None:
        """Open the base model; check that it suits the run and the languages of the corpora."""
        assert options.base is not None
        place = follow_latest(options.base)
        with blame_setting(("--run",)):
            check_other_run(place, options.run_folder)
        with blame_setting(("--from",)):
            opened = open_model(find_base_model(place).path)
        opened, options = choose_tags(opened, options)
        super().__init__(options)
        self.base = find_old_text(opened, place, options.keep)
        self.held_out = self.base.held_out

    def propose(
        self, facts: CorpusFacts, sample: Sequence[Pair], texts: Sequence[CorpusRows]
    ) -> tuple[CorpusFacts, AdaptedModel]:
        """Plan the adaptation of the base model; return the facts as they are."""
        options = self.options
        adapted = propose_adaptation(
            self.base,
            facts,
            sample,
            options.minutes,
            new=chain.from_iterable(texts),
            how_to_swap=describe_swap(options.corpora[0]),
            new_vocabulary=options.new_vocabulary,
        )
        for corpus in adapted.base.old_training.corpora:
            for path in paths_of(corpus):
                if options.folder.resolve() in path.resolve().parents:
                    raise UserError(
                        f"{path} is training text of {self.base.place}, which {options.folder} "
                        "would replace; choose another output with -o"
                    )
        return facts, adapted
