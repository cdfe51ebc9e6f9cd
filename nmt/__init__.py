"""nmt: train, evaluate, run and ship your own neural translation model.

`train`, `translate`, `evaluate`, `adapt`, `distill`, `synthesize` and `check` are the commands of the same names;
`Translator` is a model in memory. The names in `__all__`, the parts in `nmt.model` and `nmt.evaluation.score` are the
public interface; all else may change.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmt.apps.recipes.adapt import AdaptResult, adapt
    from nmt.apps.recipes.distill import DistillResult, distill
    from nmt.apps.recipes.language_model import Teacher
    from nmt.apps.recipes.synthesize import SynthesizeResult, synthesize
    from nmt.artifacts.packed import TINY_MODEL
    from nmt.artifacts.rundir import RunDir
    from nmt.base.errors import ConfigError, DataError, NmtError, RunError
    from nmt.config import Config, SearchOptions, load_config
    from nmt.data.check.check import check
    from nmt.data.check.summary import CheckReport
    from nmt.data.text.glossary import Glossary
    from nmt.evaluation.evaluation import Evaluation, evaluate
    from nmt.evaluation.scores import MetricScore
    from nmt.training.metrics import TrainRecord, ValidRecord
    from nmt.training.run import TrainResult, train
    from nmt.translation import SegmentTranslation, Translation, Translator, translate

__version__ = "0.1.0"

__all__ = [
    "TINY_MODEL", "AdaptResult", "CheckReport", "Config", "ConfigError", "DataError", "DistillResult", "Evaluation",
    "Glossary", "MetricScore", "NmtError", "RunDir", "RunError", "SearchOptions", "SegmentTranslation",
    "SynthesizeResult", "Teacher", "TrainRecord", "TrainResult", "Translation", "Translator", "ValidRecord",
    "__version__", "adapt", "check", "distill", "evaluate", "load_config", "synthesize", "train", "translate",
]  # fmt: skip

# The one place outside `apps/` that names it: recipes are loaded when they are called.
_MODULES = {
    "AdaptResult": "nmt.apps.recipes.adapt",
    "CheckReport": "nmt.data.check.summary",
    "Config": "nmt.config",
    "ConfigError": "nmt.base.errors",
    "DataError": "nmt.base.errors",
    "DistillResult": "nmt.apps.recipes.distill",
    "Evaluation": "nmt.evaluation.evaluation",
    "Glossary": "nmt.data.text.glossary",
    "MetricScore": "nmt.evaluation.scores",
    "NmtError": "nmt.base.errors",
    "RunDir": "nmt.artifacts.rundir",
    "RunError": "nmt.base.errors",
    "SearchOptions": "nmt.config",
    "SegmentTranslation": "nmt.translation",
    "SynthesizeResult": "nmt.apps.recipes.synthesize",
    "TINY_MODEL": "nmt.artifacts.packed",
    "Teacher": "nmt.apps.recipes.language_model",
    "TrainRecord": "nmt.training.metrics",
    "TrainResult": "nmt.training.run",
    "Translation": "nmt.translation",
    "Translator": "nmt.translation",
    "ValidRecord": "nmt.training.metrics",
    "adapt": "nmt.apps.recipes.adapt",
    "check": "nmt.data.check.check",
    "distill": "nmt.apps.recipes.distill",
    "evaluate": "nmt.evaluation.evaluation",
    "load_config": "nmt.config",
    "synthesize": "nmt.apps.recipes.synthesize",
    "train": "nmt.training.run",
    "translate": "nmt.translation",
}

logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent unless the program configures logging


def __getattr__(name: str) -> object:
    # Imported lazily, so that `import nmt` is fast.
    if name in _MODULES:
        try:
            return getattr(import_module(_MODULES[name]), name)
        except ModuleNotFoundError as error:
            from nmt.base.errors import missing_torch

            raise missing_torch(error, f"nmt.{name} needs PyTorch") from None
    raise AttributeError(f"module 'nmt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
