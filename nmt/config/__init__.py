"""The configuration: its sections, loading and dumping. Each is imported when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmt.config.corpora import ParallelFiles
    from nmt.config.data import DataConfig
    from nmt.config.dump import dump_config
    from nmt.config.load import load_config
    from nmt.config.model import ModelConfig
    from nmt.config.search import SearchOptions
    from nmt.config.sections import Config
    from nmt.config.tokenizer import TokenizerConfig
    from nmt.config.training import TrainingConfig

__all__ = [
    "Config", "DataConfig", "ModelConfig", "ParallelFiles", "SearchOptions", "TokenizerConfig", "TrainingConfig",
    "dump_config", "load_config",
]  # fmt: skip

_MODULES = {
    "Config": "sections", "DataConfig": "data", "ModelConfig": "model", "ParallelFiles": "corpora",
    "SearchOptions": "search", "TokenizerConfig": "tokenizer", "TrainingConfig": "training", "dump_config": "dump",
    "load_config": "load",
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return getattr(import_module(f"nmt.config.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'nmt.config' has no attribute {name!r}")
