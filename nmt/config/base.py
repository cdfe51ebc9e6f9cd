"""The base of all sections of a configuration, and the types that several of them share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Rate = Annotated[float, Field(ge=0.0, lt=1.0)]
Portion = Annotated[float, Field(gt=0.0, le=1.0)]
UpToMillion = Annotated[int, Field(ge=0, le=1_000_000)]
BatchTokens = Annotated[int, Field(ge=16, le=100_000_000)]
TokensPerUpdate = Annotated[int, Field(ge=0, le=100_000_000)]
MAX_SEED = 2**31 - 1  # the largest that every library accepts


class Section(BaseModel):
    """The base class of all sections: it rejects unknown keys, and its values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False, defer_build=True)
