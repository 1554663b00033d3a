"""Find the model that training starts from.

It is a run or model of mtkit, or a MarianMT model in a folder or on the Hugging Face hub.

A MarianMT model is imported once, into the user's cache, under the hash of its files. Of a model
on the hub, only the files that mtkit reads are downloaded, by `huggingface_hub` into its own cache.
Weights are safetensors; pickles are not even downloaded.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from concurrent.futures import Future
from pathlib import Path
from threading import Thread

from mtkit.artifacts.cache import models_folder, record_import
from mtkit.artifacts.locks import lock_path
from mtkit.artifacts.manifest import (
    FORMAT_VERSIONS,
    MANIFEST,
    VERSION,
    Artifact,
    hash_file,
    kind_at,
    open_artifact,
    sha256_of,
)
from mtkit.artifacts.runs import find_model
from mtkit.errors import MtkitError, UserError
from mtkit.formats import marian
from mtkit.formats.huggingface import import_model
from mtkit.report import say

REQUIRED_FILES = (
    marian.CONFIG_FILE,
    marian.SOURCE_SPM,
    marian.TARGET_SPM,
    marian.VOCABULARY_FILE,
)
"""Files of every MarianMT model, besides the weights."""
CTRANSLATE2_WEIGHTS = "model.bin"
"""File of every model for CTranslate2."""
HUB_SECONDS = 5.0
"""How long the hub may take to say which files a model has, over all its addresses."""

_HUB_NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
"""OWNER/NAME, or OWNER/NAME@REVISION."""


def find_given_model(place: str) -> Artifact:
    """Return the verified model at a place, imported if another program wrote it.

    `place`: a run or model of mtkit, a folder of a MarianMT model, or OWNER/NAME of a model on the
    Hugging Face hub, with @REVISION if it is not the main one.

    Raises:
        UserError: there is no model, it is damaged or not supported, or the hub cannot be reached.
    """
    path = Path(place)
    if not place:  # which would be the current folder
        return find_model(place)
    if (path / CTRANSLATE2_WEIGHTS).is_file() and not (path / marian.WEIGHTS_FILE).is_file():
        raise UserError(
            f"{place} is a model for CTranslate2, which cannot be trained; give the model that it "
            "was converted from"
        )
    if _is_marian_folder(path):
        return _import_once(path, place)
    hub_name = None if path.exists() else _HUB_NAME.fullmatch(place)
    # A missing run in an existing folder, such as runs/old, is not a name on the hub.
    if hub_name is None or path.parent.is_dir():
        return find_model(place)
    owner_and_name, revision = hub_name.groups()
    return _import_once(_download(owner_and_name, revision), place)


def _is_marian_folder(path: Path) -> bool:
    """Return whether a folder is a MarianMT model, or claims to be one."""
    has_manifest = (path / MANIFEST).is_file()
    # Artifacts of mtkit have a manifest; of these, only exports can be in the format of MarianMT.
    if has_manifest and kind_at(path) != "export":
        return False
    is_run = (path / "model" / MANIFEST).is_file()
    names = (marian.CONFIG_FILE, marian.WEIGHTS_FILE, marian.PICKLE_FILE)
    return not is_run and any((path / name).is_file() for name in names)


def _import_once(folder: Path, place: str) -> Artifact:
    """Return the model of a folder from the cache; import it if it is not there."""
    for name in (marian.WEIGHTS_FILE, *REQUIRED_FILES):
        marian.find_file(folder, name)  # raises UserError if it is missing
    files = [folder / name for name in marian.MARIAN_FILES if (folder / name).is_file()]
    hashes = {file.name: hash_file(file) for file in files}
    # Another version may import the same files in another way.
    key = {"mtkit": VERSION, "format": FORMAT_VERSIONS["model"], "files": hashes}
    path = models_folder() / sha256_of(key)
    model = _open_sound(path)
    if model is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with lock_path(path.with_name(f".{path.name}.lock"), wait=True):
            model = _open_sound(path)  # another process may have imported it meanwhile
            if model is None:
                say(f"importing the model {place}, once")
                model = import_model(folder, path)
    record_import(place, path)
    return model


def _open_sound(path: Path) -> Artifact | None:
    """Return an imported model; None if there is none, or if it is damaged."""
    try:
        return open_artifact(path, "model", verify=True)
    except UserError:
        return None


def _download(name: str, revision: str | None) -> Path:
    """Download the files of a model on the hub that mtkit reads, and return their folder.

    If the hub cannot be reached, return the folder of an earlier download.
    """
    # Slow to import.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )
    from huggingface_hub.utils.tqdm import disable_progress_bars

    # Its log and progress bars would come between the one-line messages of mtkit.
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)
    disable_progress_bars()
    shown = _show(name, revision)
    try:
        commit, files = _ask_hub(name, revision)
        _check_files(shown, files)
        say(f"{shown}: downloading from the Hugging Face hub, unless it is in its cache")
        folder = snapshot_download(name, revision=commit, allow_patterns=[*marian.MARIAN_FILES])
        return Path(folder)
    except MtkitError:
        raise
    except GatedRepoError:
        raise UserError(
            f"{shown}: the hub gives this model only to users who have asked for it; accept its "
            "terms there, and log in with `hf auth login`"
        ) from None
    except RevisionNotFoundError:
        raise UserError(f"{name} has no revision {revision!r} on the Hugging Face hub") from None
    except (RepositoryNotFoundError, HFValidationError):
        raise UserError(
            f"{shown} is neither a folder here nor a model on the Hugging Face hub; check its "
            "name, such as Helsinki-NLP/opus-mt-en-de, or the path"
        ) from None
    except Exception as error:  # requests, httpx, OSError, …: the hub cannot be reached
        reason = str(error).partition("\n")[0] or type(error).__name__
    # Here the hub cannot be reached; in all other cases, the function has returned or raised.
    return _find_downloaded(name, revision, reason)


def _ask_hub(name: str, revision: str | None) -> tuple[str | None, set[str]]:
    """Return the commit of a model on the hub, and the names of its files.

    Raises:
        TimeoutError: the hub has not answered within HUB_SECONDS.
        Exception: what `huggingface_hub` raises.
    """
    from huggingface_hub import HfApi

    answer: Future[tuple[str | None, set[str]]] = Future()

    def ask() -> None:
        try:
            facts = HfApi().model_info(name, revision=revision, timeout=HUB_SECONDS)
            answer.set_result((facts.sha, {file.rfilename for file in facts.siblings or []}))
        except Exception as error:
            answer.set_exception(error)

    # In a thread, because its timeout holds for each of the hub's addresses, and not for the
    # resolution of its name: without a network, one call can take several times as long.
    Thread(target=ask, daemon=True).start()
    try:
        return answer.result(HUB_SECONDS)
    except TimeoutError:
        raise TimeoutError(f"no answer within {HUB_SECONDS:g} s") from None


def _find_downloaded(name: str, revision: str | None, reason: str) -> Path:
    """Return the folder of an earlier download; `reason`: why the hub cannot be reached."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    shown = _show(name, revision)
    option = f" --revision {revision}" if revision else ""
    try:
        patterns = [*marian.MARIAN_FILES]
        folder = snapshot_download(
            name, revision=revision, allow_patterns=patterns, local_files_only=True
        )
    except (LocalEntryNotFoundError, HFValidationError):
        raise UserError(
            f"{shown} is not a folder here, and the Hugging Face hub cannot be reached ({reason}); "
            f"connect to the network, or run `hf download {name}{option} --local-dir FOLDER` where "
            "there is one, copy FOLDER here, and give its path"
        ) from None
    say(f"{shown}: using the copy in the hub's cache, because the hub cannot be reached")
    return Path(folder)


def _show(name: str, revision: str | None) -> str:
    return f"{name}@{revision}" if revision else name


def _check_files(name: str, files: Collection[str]) -> None:
    """Raise UserError if a model on the hub lacks files that mtkit needs."""
    missing = [file for file in REQUIRED_FILES if file not in files]
    if missing:
        raise UserError(
            f"{name} has no {missing[0]}, so it is not a MarianMT model; choose another, such as "
            "Helsinki-NLP/opus-mt-en-de"
        )
    if marian.WEIGHTS_FILE in files:
        return
    repository = name.partition("@")[0]
    raise UserError(
        f"{name} has no {marian.WEIGHTS_FILE}, and pickles such as {marian.PICKLE_FILE} are never "
        f"loaded; look for a converted copy at https://huggingface.co/{repository}/discussions, "
        f"and give it as {repository}@refs/pr/NUMBER; or convert it with transformers, "
        f'MarianMTModel.from_pretrained("{repository}").save_pretrained(FOLDER), and copy the '
        "other files to FOLDER"
    )
