"""The worker processes of a Ray cluster: each loads the model once and translates blocks of texts."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from nmt.artifacts.find_model import find_run
from nmt.artifacts.hub import HUB_PREFIX
from nmt.artifacts.rundir import RunDir, checksums_of_weights
from nmt.base.errors import NmtError
from nmt.base.machine import limit_cores, request_exact_mkl
from nmt.translation.chain import Chain
from nmt.translation.memory import TranslationMemory
from nmt.translation.request import Request
from nmt.translation.translation import Translation
from nmt.translation.translator import Translator


class ModelPaths(NamedTuple):
    """The paths of the runs to load, which every node can read, and how to compute."""

    folders: tuple[str, ...]
    checkpoints: tuple[str, ...]  # one for each run
    checksums: tuple[str, ...]  # of the weights
    options: dict[str, Any]  # of `Translator.load`

    @classmethod
    def from_runs(cls, models: Sequence[RunDir], **options: Any) -> ModelPaths:
        """Return the paths of `models`, one or an ensemble, to be loaded with `options`."""
        sources = [run.source for run in models]  # the names of models on the hub hold on every node
        return cls(
            tuple(str(path if str(path).startswith(HUB_PREFIX) else path.resolve()) for path in sources),
            tuple(run.usable_checkpoint().stem for run in models),
            checksums_of_weights(models),
            options,
        )


class Worker:
    """The code of a worker process. Errors that users can fix are returned, because Ray wraps raised exceptions.

    If the process dies, Ray restarts it and calls the unfinished methods again. The model is loaded when first needed.
    """

    def __init__(self, row: Sequence[ModelPaths], num_threads: int, version: str):
        self._row = row  # one model, or two, the last of which translates what the first translated
        self._num_threads = num_threads
        self._version = version  # nmt's version in the process that collects the translations

    def load(self) -> tuple[str, int] | NmtError:
        """Load the model; return its precision and its maximum source length."""
        try:
            return self._translator.precision, self._translator.max_src_len
        except NmtError as error:
            return error

    def translate(
        self, texts: list[str], request: Request, first: int, memory: TranslationMemory | None = None
    ) -> list[Translation] | NmtError:
        """Translate `texts`, the lines from number `first` on, which `memory` may have."""
        try:
            self._translator.memory = memory
            return self._translator.translate_block(texts, request, first)
        except NmtError as error:
            return error

    @cached_property
    def _translator(self) -> Chain:
        from nmt import __version__

        if __version__ != self._version:
            message = f"the Ray worker on {platform.node()} has nmt {__version__}, not {self._version}"
            raise NmtError(message, hint="install the same version on every node")
        limit_cores(self._num_threads)
        request_exact_mkl()
        return Chain([_load(paths) for paths in self._row])


def _load(paths: ModelPaths) -> Translator:
    node, runs = platform.node(), []
    for folder, checkpoint in zip(paths.folders, paths.checkpoints, strict=True):
        if not folder.startswith(HUB_PREFIX) and not Path(folder).exists():
            hint = "put the model on storage that all nodes share, under the same path"
            raise NmtError(f"the Ray worker on {node} finds no such model", path=folder, hint=hint)
        runs.append(find_run(folder))
        runs[-1].use_checkpoint(checkpoint)
    if checksums_of_weights(runs) != paths.checksums:
        message = f"the weights on {node} differ from those of the requested model"
        raise NmtError(message, path=paths.folders[0], hint="put the model where all nodes read one copy")
    return Translator.load(runs, **paths.options)
