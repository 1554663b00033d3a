"""The Python examples of the lab for lectures run, and compare what they claim to be equal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import mtkit
from architectures import transformer
from folders import train, write_model
from mtkit.config.schedules import Noam, ScheduleInputs
from mtkit.models.attention import MultiHeadAttention

LECTURES = Path(mtkit.__file__).parent / "guide/lectures.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", LECTURES.read_text("utf-8"), re.DOTALL)


def test_the_lab_has_an_example_for_each_claim() -> None:
    checks = [re.findall(r"assert_close\((.*)\)$|^assert (.*)$", text, re.M) for text in EXAMPLES]
    assert len(EXAMPLES) == 6
    assert all(checks)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
@pytest.mark.parametrize("seed", [1, 2])
def test_an_example_of_the_lab_holds_for_random_weights(
    number: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "runs/small" in EXAMPLES[number]:
        write_model(Path("runs/small/model"), train(), transformer(), max_length=64)
    torch.manual_seed(seed)
    exec(EXAMPLES[number], {})


def test_numbers_of_the_lab_that_have_a_formula() -> None:
    text = " ".join(LECTURES.read_text("utf-8").split())
    weights = torch.tensor([112 / 8, 96 / 8]).softmax(dim=0).tolist()
    assert f"the softmax of 14 and 12 is {weights[0]:.2f} and {weights[1]:.2f}" in text
    layer = MultiHeadAttention(512, 8, 0.0)
    assert f"= {sum(p.numel() for p in layer.parameters()):,}" in text
    inputs = ScheduleInputs(warmup=4000, total_steps=20_000, d_model=512)
    peak, last = (Noam().rate(step, inputs) for step in (4000, 20_000))
    assert f"= {peak:.6f} at step 4,000" in text
    assert f"falls to {last:.6f} at step 20,000" in text


def test_ten_lines_are_ten_lines() -> None:
    loop = EXAMPLES[0].partition("heads = []\n")[2].partition("\n\n")[0]
    assert len(["heads = []", *loop.splitlines()]) <= 10
