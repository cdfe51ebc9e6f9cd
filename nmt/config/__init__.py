"""The configuration: its sections, loading and dumping."""

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
