"""The verdict on a file without references: its predicted chrF, and the flags of its lines.

The prediction holds for text like the validation set. So it says of how many lines the source is
unlike the training text, and there is no interval if these are too many.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from mtkit.decoding.estimation.estimator import Calibration, Estimate
from mtkit.decoding.estimation.flags import FLAGS, UNLIKE
from mtkit.report import plural

LOW_CONFIDENCE = 0.3
"""Lines with less confidence are counted as low."""
MAX_UNLIKE_SHARE = 0.2
"""A file with a larger share of lines unlike the training text is unlike it, too.

In the validation set, the share is at most 0.1.
"""
FILE_ERROR = 0.02
"""Standard deviation of chrF / 100 of a long file from its prediction, as measured.

Even text of the same kind differs from the validation set by more than chance.
"""
DEVIATIONS = 1.96
"""Half of a 95% interval, in standard errors."""


@dataclass
class FileVerdict:
    """Sums over the lines of a file, so that memory does not grow with the file."""

    calibration: Calibration | None
    unit: str = "line"
    """What a line is called in messages."""
    lines: int = 0
    """Number of lines with confidence."""
    low: int = 0
    """Number of lines with less than LOW_CONFIDENCE."""
    unlike: int = 0
    """Number of lines with confidence whose source is unlike the training text."""
    flags: Counter[str] = field(default_factory=Counter)
    """Number of lines with each flag."""
    _length: float = 0.0
    """Sum of the lengths, in characters of the source."""
    _squared_length: float = 0.0
    """Sum of the squared lengths."""
    _confidence: float = 0.0
    """Sum of confidence times length: longer lines count more in the chrF of a file."""

    def add(self, estimates: Iterable[Estimate]) -> None:
        """Count the estimates of some lines."""
        for estimate in estimates:
            self.flags.update(estimate.flags)
            if estimate.confidence is None:
                continue
            self.lines += 1
            self.low += estimate.confidence < LOW_CONFIDENCE
            self.unlike += UNLIKE in estimate.flags
            self._length += estimate.length
            self._squared_length += estimate.length**2
            self._confidence += estimate.confidence * estimate.length

    @property
    def is_unlike(self) -> bool:
        """Whether the file is unlike the training text, so that nothing can be predicted."""
        return self.unlike > MAX_UNLIKE_SHARE * self.lines

    @property
    def chrf(self) -> tuple[float, float, float] | None:
        """The predicted chrF of the file, and its 95% interval.

        None if no line has confidence, or the file is unlike the training text.

        The interval should hold the chrF that references would give. A bootstrap over lines would
        say how the prediction varies with other lines, but not how wrong it is for these lines.
        """
        if self.calibration is None or not self._length or self.is_unlike:
            return None
        mean = self._confidence / self._length + self.calibration.offset
        # A mean with weights n has the standard error σ·√Σn²/Σn.
        residual = self.calibration.residual * math.sqrt(self._squared_length) / self._length
        offset_error = max(FILE_ERROR, self.calibration.offset_error)
        half_width = DEVIATIONS * math.hypot(residual, offset_error)
        value, low, high = (
            100 * min(1.0, max(0.0, share))
            for share in (mean, mean - half_width, mean + half_width)
        )
        return value, low, high

    def describe(self) -> Iterator[str]:
        """Say the predicted chrF, the share of lines with low confidence, and the flags."""
        if self.calibration is not None and self.is_unlike:
            yield (
                f"{self.unlike:,} of {plural(self.lines, self.unit)} are unlike the training text: "
                f"expect less than chrF {100 * self.calibration.chrf:.1f}, that of the validation "
                "set; nobody knows how much less"
            )
        if self.chrf is not None:
            value, low, high = self.chrf
            share = self.low / self.lines
            yield (
                f"predicted chrF {value:.1f} [{low:.1f}, {high:.1f}]; {share:.0%} of "
                f"{plural(self.lines, self.unit)} below {100 * LOW_CONFIDENCE:.0f}"
            )
        if self.flags:
            counts = [
                f"{flag.name} {self.flags[flag.name]:,}" for flag in FLAGS if self.flags[flag.name]
            ]
            yield f"flagged {self.unit}s: {', '.join(counts)}"

    def record(self) -> dict[str, Any]:
        """Return the verdict as JSON."""
        record: dict[str, Any] = {"lines": self.lines}
        if self.chrf is not None:
            value, low, high = self.chrf
            record |= {"predicted_chrf": value, "interval": [low, high]}
        if self.lines:
            record |= {"low": self.low, "unlike": self.unlike, "is_unlike": self.is_unlike}
        return record | {"flags": {flag.name: self.flags[flag.name] for flag in FLAGS}}
