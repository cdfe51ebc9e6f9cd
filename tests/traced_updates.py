"""Recordings of traced operations, which stand for CUDA graphs on a CPU.

As in a graph, numbers of Python stay what they were when it was made, tensors are those it was made with, and nothing
but the operations happens again. Random numbers are drawn anew if operations draw them, as torch's dropout does.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.model import layers
from nmt.model.kernels.dropout import Dropout
from nmt.training import loop, run


class Tape(TorchDispatchMode):
    """The operations of some work, to run them again: as `make_fx` does, but many times as fast."""

    def __init__(self):
        super().__init__()
        self.operations = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        outputs = func(*args, **(kwargs or {}))
        self.operations.append((func, args, kwargs or {}, outputs))
        return outputs

    @torch.no_grad()
    def replay(self, result=None):
        """Run the operations, where one has read the output of another on the new output; return the new `result`."""
        made = {}

        def newest(each):  # torch's tree_map takes several times as long
            if isinstance(each, list | tuple):
                return type(each)(map(newest, each))
            return made.get(id(each), each)

        for func, args, kwargs, outputs in self.operations:
            again = func(*newest(args), **{name: newest(value) for name, value in kwargs.items()})
            several = isinstance(outputs, list | tuple)
            pairs = zip(outputs, again, strict=True) if several else [(outputs, again)]
            made |= ((id(before), after) for before, after in pairs)
        return newest(result)


class Tracer:
    """Records one half of a `RecordedUpdate` as `record_training` does; `made` counts the recordings."""

    def __init__(self, fault: Exception | None = None):
        """Fail with `fault` after the operations have been seen, as a capture does that ends with an error."""
        self.made = 0
        self.fault = fault

    def __call__(self, work, device):
        # What is traced is computed. A graph that is recorded computes nothing: undone.
        tensors = tensors_of(work.__self__)
        before, random = [tensor.detach().clone() for tensor in tensors], torch.get_rng_state()
        with Tape() as tape:
            work()
        with torch.no_grad():
            for tensor, value in zip(tensors, before, strict=True):
                tensor.copy_(value)
        torch.set_rng_state(random)
        if self.fault is not None:
            raise self.fault
        self.made += 1
        return tape.replay


def tensors_of(update) -> list[torch.Tensor]:
    """The tensors that an update may write."""
    optimizer = update.optimizer
    scale = {} if optimizer.loss_scale is None else optimizer.loss_scale.state()
    return [
        *(value for value in vars(update).values() if torch.is_tensor(value)),
        *optimizer.master.values(),
        *optimizer.model_parameters.values(),
        optimizer.gradients,
        *(tensor for state in optimizer.adam.state.values() for tensor in state.values()),
        *scale.values(),
    ]


def drop_as_a_gpu(patch) -> None:
    """Let dropout be torch's operation on a CPU, too, instead of numbers that the host draws."""
    patch.setattr(Dropout, "forward", lambda self, states: F.dropout(states, self.rate, self.training))
    patch.setattr(layers, "add_dropped", lambda states, branch, dropout: states + dropout(branch))
    patch.setattr(layers, "dropped_relu", lambda hidden, dropout: dropout(F.relu(hidden)))


def record_trainings(patch) -> list[Tracer]:
    """Let trainings on a CPU record their updates; return the recorders of the trainings and stages that began."""
    recorders: list[Tracer] = []

    def fit_into_memory(training):
        recorders.append(Tracer())
        settings = training.stage.config.training
        training.step.record(training.batches.block_shape(), settings.label_smoothing, recorders[-1])

    for module in (run, loop):
        patch.setattr(module, "fit_into_memory", fit_into_memory)
    drop_as_a_gpu(patch)
    return recorders
