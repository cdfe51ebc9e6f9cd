"""The base of all sections of a configuration, and the types that several of them share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, field_validator
from pydantic_core import PydanticCustomError

from nmt.base.errors import ConfigError, require_one_of

Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Rate = Annotated[float, Field(ge=0.0, lt=1.0)]  # not 1: dropping everything, for example, leaves nothing to learn
Portion = Annotated[float, Field(gt=0.0, le=1.0)]  # not 0: that would leave nothing
UpToMillion = Annotated[int, Field(ge=0, le=1_000_000)]
BatchTokens = Annotated[int, Field(ge=16, le=100_000_000)]
TokensPerUpdate = Annotated[int, Field(ge=0, le=100_000_000)]
Characters = Literal["normalized", "as_written"]
MAX_SEED = 2**31 - 1  # the largest that every library accepts


def first_fault(error: ValidationError) -> str:
    """Return the first of the faults of a validation: the name of the value, and what is wrong with it."""
    fault = error.errors()[0]
    # Between the names, pydantic puts the tags of `Corpora`.
    name = ".".join(str(part) for part in fault["loc"] if part not in ("one", "several"))
    message = fault["msg"].removeprefix("Value error, ")
    return f"{name}: {message}" if name else message


if TYPE_CHECKING:
    _Base = BaseModel
else:

    class _ReportsMistakes(type(BaseModel)):
        def __call__(cls, *args, **values):
            """Construct a section, with ConfigError for a user's mistake; pydantic does not call this for its own."""
            for name in values:
                require_one_of(f"key of {cls.__name__}", name, list(cls.model_fields))
            try:
                return super().__call__(*args, **values)
            except ValidationError as error:
                raise ConfigError(f"{cls.__name__}: {first_fault(error)}") from None

    class _Base(BaseModel, metaclass=_ReportsMistakes):
        pass


class Section(_Base):
    """The base class of all sections: it rejects unknown keys, and its values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False, defer_build=True)

    @field_validator("*", mode="wrap")
    @classmethod
    def _refuse_true_for_1(cls, value: object, read: ValidatorFunctionWrapHandler) -> object:
        """Refuse true and false for a number, and a number for one of these: beam_size=True is a mistake.

        The path of a file may be a `Path`.
        """
        result = read(str(value) if isinstance(value, Path) else value)
        if result is value:  # as most are: text, small numbers, sections
            return result
        pairs: Iterable[tuple[object, object]] = [(value, result)]
        if isinstance(value, list | tuple) and isinstance(result, tuple):
            pairs = zip(value, result, strict=False)
        for given, got in pairs:
            are_numbers = isinstance(given, int | float) and isinstance(got, int | float)
            if are_numbers and isinstance(given, bool) != isinstance(got, bool):
                raise PydanticCustomError("other_type", "Input should be of type {kind}", {"kind": type(got).__name__})
        return result
