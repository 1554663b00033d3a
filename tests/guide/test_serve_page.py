"""The small installation of the guide to the server."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import mtkit
from architectures import transformer
from folders import as_if_trained, train, write_model
from mtkit.decoding.api import load

ROOT = Path(mtkit.__file__).parents[1]
PAGE = (ROOT / "mtkit/guide/serve.md").read_text("utf-8").replace("\\\n", " ")
LISTS = [
    set(names.split()) for names in re.findall(r"pip install.*? (backports.*?)(?:&&|\n)", PAGE)
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

# Packages are blocked by the names of their modules.
SERVING = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(name)

BLOCKED = set(sys.argv[2].split(","))
sys.meta_path.insert(0, Blocked())
import mtkit.extras.serve.server
from mtkit.decoding.api import load

with load(sys.argv[1], scores=False, glossary={"dog": "Hund"}) as translator:
    print(*translator.translate(["A dog runs."]))
"""


def test_the_packages_that_the_guide_names_suffice_to_serve(tmp_path: Path) -> None:
    listed, in_container = LISTS
    assert listed == in_container
    declared = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["serve"]]
    names = {re.split(r"[<>=; ]", each)[0] for each in declared}
    assert listed <= names
    others = names - listed
    assert "torch" in others
    modules = packages_distributions()
    blocked = [module for module in modules if {*map(str.lower, modules[module])} & others]
    model = write_model(tmp_path / "m", train(), transformer(), as_if_trained)
    with load(model, scores=False, glossary={"dog": "Hund"}) as translator:  # converts the model
        expected = translator.translate(["A dog runs."])
    command = [sys.executable, "-c", SERVING, str(model), ",".join(blocked)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.stdout.splitlines() == expected, ended.stderr
