"""What every section of the settings is: frozen, strict data."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Probability = Annotated[float, Field(ge=0, lt=1)]
Paths = str | list[str]


class Settings(BaseModel):
    """Frozen; an unknown key is an error; no infinities."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
