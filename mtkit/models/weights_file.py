"""Files of weights: data, never code, and checked before anything in them is read.

Nothing here needs torch, for those who only carry weights from one format into another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError, safe_open

from mtkit.errors import UserError

OLDER_NAMES = (
    (re.compile(r"^(encoder|decoder)\.(\d)"), r"\1.layers.\2"),
    (re.compile(r"^(bridge|attention)\."), r"decoder.\1."),
)
"""What parameters were called before a layer belonged to a half, and what they are called now."""
FLOATS = {"pt": ("BF16", "F16", "F32", "F64"), "numpy": ("F16", "F32", "F64")}
"""Types that weights may have, as safetensors calls them: those that a framework can read."""


def name_today(name: str) -> str:
    """The name that a parameter of a file has now: its own, unless the file is an older one."""
    for older, today in OLDER_NAMES:
        name = older.sub(today, name)
    return name


def finite(weight: Any, name: str, path: Path) -> Any:
    """The weight of that name in the file; UserError where it has values that are not finite."""
    if not isfinite(weight.min()) or not isfinite(weight.max()):
        raise UserError(f"{path}: {name} has values that are not finite: a broken model")
    return weight


@contextmanager
def open_weights(
    path: Path,
    framework: Literal["pt", "numpy"],
    shapes: Mapping[str, Sequence[int]],
    *,
    others: bool = False,
) -> Iterator[Callable[[str], Any]]:
    """Yields what reads the weights named in `shapes`; `others` may lie in the file beside them.

    Raises UserError where there is no such file, or naming the first weight that is missing,
    unknown, or of another shape or type.
    """
    try:
        with safe_open(path, framework=framework) as file:
            names = {name_today(name): name for name in file.keys()}  # noqa: SIM118 (no mapping)
            unknown = set() if others else names.keys() - shapes.keys()
            for what, odd in (("missing", shapes.keys() - names.keys()), ("unknown", unknown)):
                if odd:
                    raise UserError(f"{path}: {min(odd)} is {what}: weights of another model")
            for name, wanted in shapes.items():
                weight = file.get_slice(names[name])
                shape, type_ = weight.get_shape(), weight.get_dtype()
                if shape != list(wanted):
                    raise UserError(f"{path}: {name} has shape {shape}, not {list(wanted)}")
                if type_ not in FLOATS[framework]:
                    types = ", ".join(FLOATS[framework])
                    raise UserError(f"{path}: {name} has values of type {type_}, not {types}")
            yield lambda name: file.get_tensor(names[name])
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except SafetensorError as error:
        raise UserError(f"{path}: not a safetensors file ({error})") from None
