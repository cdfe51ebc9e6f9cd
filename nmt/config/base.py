"""The base of all sections of a configuration, and the types that several of them share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

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


def first_fault(error: ValidationError) -> str:
    """Return the first of the faults of a validation: the name of the value, and what is wrong with it."""
    fault = error.errors()[0]
    name = "".join(f"{part}." for part in fault["loc"]).removesuffix(".")
    message = fault["msg"].removeprefix("Value error, ")
    return f"{name}: {message}" if name else message
