"""Campaign: the code makes what it made when a record was written; `gate.py` says how to write one.

python tests/gate.py record.txt, change the code, then: make gate RECORD=record.txt
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest

from gate import make_record


@pytest.mark.campaign
def test_artifacts_losses_and_translations_are_those_of_the_record(tmp_path: Path) -> None:
    record = Path(os.environ["RECORD"]).read_text("utf-8").splitlines()
    changes = difflib.unified_diff(record, list(make_record(tmp_path)), n=0, lineterm="")
    assert list(changes) == []
