"""Models on the Hugging Face hub: what is there, and the download of the files that mtkit reads.

`huggingface_hub` downloads into its own cache, resumes what was interrupted, and obeys HF_ENDPOINT,
HF_HUB_OFFLINE, HF_HOME and HF_TOKEN.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from mtkit.errors import MtkitError, UserError
from mtkit.extras.pretrained import marian
from mtkit.report import say

if TYPE_CHECKING:
    from huggingface_hub import HfApi

HUB_SECONDS = 5.0
"""How long the hub may take to answer a question, over all its addresses."""
CONVERTER = "SFconvertbot"
"""The account of the hub's own program that offers safetensors where a model has only pickles."""
SHOWN_COMMIT = 7
"""Characters of a commit that messages show."""

_Answer = TypeVar("_Answer")


class UnreachableHubError(Exception):
    """The hub cannot be reached; the message says why."""


@dataclass(frozen=True)
class Download:
    """A model on the hub that mtkit can read."""

    name: str
    """OWNER/NAME."""
    revision: str | None
    commit: str
    origin: dict[str, str] = field(default_factory=dict)
    """What the report of the imported model says of where it came from."""
    folder: Path | None = None
    """Where the files are; None if they have not been downloaded."""

    def fetch(self) -> Path:
        """Download the files, and return their folder.

        Raises:
            UserError: the hub does not give them to this user, or the download was interrupted.
        """
        from huggingface_hub import constants, snapshot_download

        if self.folder is not None:
            return self.folder
        licence = self.origin.get("licence", "its card names none")
        say(
            f"{self.name}: downloading commit {self.commit[:SHOWN_COMMIT]} from "
            f"{constants.ENDPOINT}; licence: {licence}"
        )
        try:
            with _errors_of_hub(self.name, self.revision):
                # The revision, not its commit: so the hub's cache knows the commit of the revision.
                download = partial(snapshot_download, self.name, revision=self.revision)
                folder = Path(download(allow_patterns=[*marian.MODEL_FILES]))
                if shards := marian.find_shards(folder):
                    download(allow_patterns=sorted(set(shards.values())))
                return folder
        except UnreachableHubError as error:
            raise UserError(
                f"{self.name}: the download was interrupted, because {error}; the same command "
                "resumes it"
            ) from None


def ask_hub(name: str, revision: str | None) -> Download:
    """Return the model that the hub has under a name.

    Raises:
        UserError: the hub has no such model or revision, or mtkit cannot read it.
        UnreachableHubError: the hub cannot be reached.
    """
    with _errors_of_hub(name, revision):
        facts = _call_with_timeout(
            lambda hub: hub.model_info(name, revision=revision, timeout=HUB_SECONDS)
        )
        files = {file.rfilename for file in facts.siblings or []}
        if files.isdisjoint({marian.WEIGHTS_FILE, marian.INDEX_FILE}):
            converted = _find_converted(name) if revision is None else None
            pickles = {marian.PICKLE_FILE, marian.PICKLE_INDEX_FILE}
            if converted is None or files.isdisjoint(pickles):
                raise _missing_weights_error(name, revision)
            say(f"{name} has only a pickle; using the safetensors of {name}@{converted}")
            return ask_hub(name, converted)
    if files.isdisjoint({marian.SOURCE_SPM, marian.SENTENCEPIECE_FILE}):
        raise UserError(
            f"{_show(name, revision)} has no {marian.SOURCE_SPM} and no "
            f"{marian.SENTENCEPIECE_FILE}, so it is not a MarianMT, M2M-100 or NLLB model; choose "
            "another, such as Helsinki-NLP/opus-mt-en-de"
        )
    origin = {"place": _show(name, revision), "commit": str(facts.sha)}
    if facts.card_data and (licence := facts.card_data.get("license")):
        origin["licence"] = str(licence)
    return Download(name, revision, str(facts.sha), origin)


def _find_converted(name: str) -> str | None:
    """Return the revision in which the hub's own program offers safetensors; None without one."""
    offers = _call_with_timeout(lambda hub: list(hub.get_repo_discussions(name, author=CONVERTER)))
    for offer in offers:
        is_from_hub = offer.author == CONVERTER and offer.is_pull_request
        if is_from_hub and "safetensors" in offer.title:
            return f"refs/pr/{offer.num}"
    return None


def _missing_weights_error(name: str, revision: str | None) -> UserError:
    return UserError(
        f"{_show(name, revision)} has no {marian.WEIGHTS_FILE}, and pickles such as "
        f"{marian.PICKLE_FILE} are never loaded; look for a converted copy at "
        f"https://huggingface.co/{name}/discussions, and give it as {name}@refs/pr/NUMBER; or "
        f'convert it with transformers, AutoModelForSeq2SeqLM.from_pretrained("{name}")'
        ".save_pretrained(FOLDER), and copy the other files to FOLDER"
    )


def find_download(name: str, revision: str | None, unreachable: UnreachableHubError) -> Download:
    """Return the model of an earlier download.

    Raises:
        UserError: there is none; the message says why the hub cannot be reached, and what to do.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    shown = _show(name, revision)
    option = f" --revision {revision}" if revision else ""
    try:
        folder = Path(
            snapshot_download(
                name,
                revision=revision,
                allow_patterns=[*marian.MODEL_FILES],
                local_files_only=True,
            )
        )
    except (LocalEntryNotFoundError, HFValidationError):
        raise UserError(
            f"{shown} is not a folder here, and {unreachable}; connect to the network, or run "
            f"`hf download {name}{option} --local-dir FOLDER` where there is one, copy FOLDER "
            "here, and give its path"
        ) from None
    say(f"{shown}: using the copy in the hub's cache, because {unreachable}")
    origin = {"place": shown, "commit": folder.name}
    return Download(name, revision, folder.name, origin, folder)


@contextmanager
def _errors_of_hub(name: str, revision: str | None) -> Iterator[None]:
    """Raise the errors of `huggingface_hub` as a UserError or an UnreachableHubError."""
    # Slow to import.
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )
    from huggingface_hub.utils.tqdm import disable_progress_bars

    # Its log and progress bars would come between the one-line messages of mtkit.
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)
    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        yield
    except (MtkitError, UnreachableHubError):
        raise
    except GatedRepoError:
        raise UserError(
            f"{_show(name, revision)}: the hub gives this model only to users who have asked for "
            "it; accept its terms there, and log in with `hf auth login`"
        ) from None
    except RevisionNotFoundError:
        raise UserError(f"{name} has no revision {revision!r} on the Hugging Face hub") from None
    except (RepositoryNotFoundError, HFValidationError):
        raise UserError(
            f"{_show(name, revision)} is neither a folder here nor a model on the Hugging Face "
            "hub; check its name, such as Helsinki-NLP/opus-mt-en-de, or the path"
        ) from None
    except Exception as error:  # requests, httpx, OSError, …
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UnreachableHubError(f"the Hugging Face hub cannot be reached ({reason})") from None


def _call_with_timeout(ask: Callable[[HfApi], _Answer]) -> _Answer:
    """Return the answer of the hub; raise a TimeoutError if it takes longer than HUB_SECONDS."""
    from huggingface_hub import HfApi

    answer: Future[_Answer] = Future()

    def call() -> None:
        try:
            answer.set_result(ask(HfApi()))
        except Exception as error:
            answer.set_exception(error)

    # In a thread, because its timeout holds for each of the hub's addresses, and not for the
    # resolution of its name: without a network, one call can take several times as long.
    Thread(target=call, daemon=True).start()
    try:
        return answer.result(HUB_SECONDS)
    except TimeoutError:
        raise TimeoutError(f"no answer within {HUB_SECONDS:g} s") from None


def _show(name: str, revision: str | None) -> str:
    return f"{name}@{revision}" if revision else name
