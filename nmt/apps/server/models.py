"""The models of a server: loaded once, shared by all requests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from nmt.apps.server.batcher import Batcher, QueuedSegment, SegmentResult
from nmt.apps.server.metrics import Metrics
from nmt.apps.server.settings import Settings
from nmt.artifacts.find_model import find_run
from nmt.base.languages import Direction
from nmt.translation import Translator
from nmt.translation.request import Request
from nmt.translation.word_links import explain


class ServedModel:
    """A model of the server: its name and directions, and its queue."""

    def __init__(self, translator: Translator, name: str, settings: Settings, metrics: Metrics):
        self.translator = translator
        self.name = name
        self.directions = translator.languages.pairs
        batch_tokens = translator.options.batch_tokens
        self.batcher = Batcher(name, self.translate, batch_tokens, settings.timeout, metrics)
        self._request = lru_cache(self._make_request)

    def translate(self, segments: Sequence[QueuedSegment]) -> list[SegmentResult]:
        """Translate `segments`, in order; those with the same number of alternatives in one call."""
        results: dict[QueuedSegment, SegmentResult] = {}
        for num_alternatives in {segment.num_alternatives for segment in segments}:
            same = [segment for segment in segments if segment.num_alternatives == num_alternatives]
            texts = [segment.text for segment in same]
            translations = self.translator.translate_segmented(texts, self._request(num_alternatives))
            for segment, text, translation in zip(same, texts, translations, strict=True):
                is_explained = segment.with_details and translation.text.strip()
                details = explain(self.translator, text.text, text.direction, translation) if is_explained else None
                finished = segment.finish(translation)
                if segment.with_flags:
                    _ = finished.flags  # computed here, in the thread, and kept
                results[segment] = SegmentResult(finished, details)
        return [results[segment] for segment in segments]

    def _make_request(self, num_alternatives: int) -> Request:
        """Ask for the model's own search, with a beam large enough for the alternatives."""
        options = self.translator.options
        size = num_alternatives + 1
        base = options.greedy() if num_alternatives else options
        return Request(base.changed(beam_size=max(options.beam_size, size), num_hypotheses=size))


Step = tuple[Direction, ServedModel]


class Models:
    """All models of a server, by direction and by name."""

    def __init__(self, paths: Sequence[str | None], settings: Settings, metrics: Metrics):
        """Load the models of `paths` (None: the default model). NmtError if a model cannot be used."""
        self.served: list[ServedModel] = []
        for run in [find_run(path) for path in paths]:  # finds all of them before it loads the first
            name = run.path.resolve().name
            num_same = sum(served.name.partition("#")[0] == name for served in self.served)
            statistics = run.statistics()
            # Only the expected chrF needs scores.
            scores = statistics is not None and statistics.confidence is not None
            translator = Translator.load(run, device=settings.device, precision=settings.precision, scores=scores)
            unique_name = f"{name}#{num_same + 1}" if num_same else name
            self.served.append(ServedModel(translator, unique_name, settings, metrics))
        self.directions: dict[Direction, ServedModel] = {}  # in the order of the models; the first model of each
        self.names: dict[str, Step] = {}  # of models, with the direction if one has several, and of directions
        for served in self.served:
            for direction in served.directions:
                self.directions.setdefault(direction, served)
                name = served.name if len(served.directions) == 1 else f"{served.name}:{direction}"
                self.names[name] = direction, served
        for direction, first in self.directions.items():
            self.names.setdefault(str(direction), (direction, first))

    def close(self) -> None:
        """Stop the threads of all models once they have finished."""
        for served in self.served:
            served.batcher.close()
            served.translator.close()
