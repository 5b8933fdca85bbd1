"""What a step's graphs take of a device's memory and time, seen while the first steps
run."""

from __future__ import annotations

import statistics
from typing import Any, Optional, Sequence

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from ucudnn.torch.compiled import private
from ucudnn.torch.compiled.calibrating import Measured
from ucudnn.torch.compiled.costs import bytes_of
from ucudnn.torch.compiled.planning import Choice, Surroundings
from ucudnn.torch.timing import mark, ms_between

# Without a budget, one in so many bytes is left free.
_MARGIN = 16
# An optimizer's state that does not exist yet, in sizes of the parameters, and what
# its step needs besides: Adam's.
_STATE, _TEMPORARY = 2, 1

# Steps after something was compiled: the first takes memory for that, and CUDA graphs
# are captured in the second.
_WARM_UP = 3
# Steps that are measured; nobody waits for the GPU between them.
_MEASURED = 5


def free_budget(device: torch.device) -> Optional[int]:
    """What this process may use of a GPU, less a margin."""
    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    ours = int(torch.cuda.memory_reserved(device))
    return int(free) + ours - (int(free) + ours) // _MARGIN


def surroundings(inputs: Sequence[Any], device: torch.device) -> Surroundings:
    """Before the first step: what is in use, and what an optimizer will need."""
    if device.type != "cuda":
        return Surroundings()
    used = int(torch.cuda.memory_allocated(device))
    tensors = [one for one in inputs if isinstance(one, torch.Tensor)]
    trained = sum(bytes_of(t) for t in tensors if t.requires_grad and t.is_leaf)
    if used < bytes_of(tensors) + trained * _STATE * 3 // 4:
        used += trained * _STATE
    return Surroundings(base=used, after=trained * (1 + _TEMPORARY))


def kept_by_graphs(device: torch.device) -> int:
    """Bytes that CUDA graphs keep for themselves and that no tensor has."""
    segments = torch.cuda.memory_snapshot()
    return sum(
        int(one["total_size"]) - int(one["allocated_size"])
        for one in segments
        if tuple(one["segment_pool_id"]) != (0, 0) and one["device"] == device.index
    )


class _Lap:
    """Events of one step."""

    def __init__(self, begun: Any) -> None:
        self.begun = begun
        self.forward: list[tuple[Any, Any]] = []
        self.backward: list[tuple[Any, Any]] = []


class Watch:
    """The order of a step's graphs, how often each runs and, on a GPU, what each
    part takes at most."""

    def __init__(self, device: torch.device) -> None:
        self.around = Surroundings()
        self.order: list[Any] = []  # graphs, by their first forward pass
        self.calls: dict[Any, int] = {}
        # Bytes saved outside of the graphs; None: not known, as on GPUs, which measure.
        self.outside: Optional[int] = None
        self.measured: Optional[Measured] = None  # the last steps; None: not on a GPU
        self._device = device
        self._gpu = device.type == "cuda"
        self._backward = False  # has begun in this step
        self._fresh = _WARM_UP  # steps that are not measured
        self._forward: dict[Any, int] = {}
        self._behind: dict[Any, int] = {}  # backward
        self._between = self._after = 0
        self._laps: list[_Lap] = []
        self._hook: Optional[Any] = None

    def expect(self, around: Surroundings) -> None:
        """Before the first graph of a step runs."""
        self.compiled()
        if self._gpu and self._hook is None:
            # Others may reset the statistics between two steps.
            self._hook = register_optimizer_step_post_hook(self._optimized)
        if self.begins_step():
            self.order = []
            self.calls = {}
            self._backward = False
            self.around = around

    def compiled(self) -> None:
        self._fresh = _WARM_UP

    def between_steps(self) -> bool:
        return self._backward

    def begins_step(self) -> bool:
        """Whether the next forward pass is the first of its step."""
        return not self.order or self._backward

    @property
    def measures(self) -> bool:
        """Whether it tells what steps take, and not only their order."""
        return self._gpu

    def step_done(
        self, planned: Sequence[Any], choice: Optional[Choice]
    ) -> Optional[bool]:
        """As the next step begins: None if another step than the planned one ran;
        otherwise whether enough were measured. Corrects what the next plan expects."""
        same = list(self.order) == list(planned)
        steps = _MEASURED if self._gpu and choice is not None else 1
        enough = same and self._fresh == 0 and len(self._laps) >= steps
        self.measured = None
        if self._gpu and enough and choice is not None:
            self.measured = self._seen()
            if self.measured.peak is not None:
                self._correct(choice)
        if enough or not same or self._fresh:
            self._forward, self._behind, self._laps = {}, {}, []
            self._between = self._after = 0
        self.order, self._backward = [], False
        self._fresh = max(0, self._fresh - 1)
        return enough if same else None

    def _seen(self) -> Measured:
        self._after = max(self._after, self._reset())
        peak = max(
            self._after, self._between, *self._forward.values(), *self._behind.values()
        )
        ended = self._event()
        ended.synchronize()
        begins = [lap.begun for lap in self._laps] + [ended]

        def median(passes: list[list[tuple[Any, Any]]]) -> float:
            return 1e3 * statistics.median(
                sum(ms_between(a, b) for a, b in one) for one in passes
            )

        return Measured(
            median([[lap] for lap in zip(begins, begins[1:])]),
            median([lap.forward for lap in self._laps]),
            median([lap.backward for lap in self._laps]),
            # Replayed CUDA graphs allocate nothing.
            None if any(graph.captured for graph in self.order) else peak,
        )

    def _correct(self, choice: Choice) -> None:
        around, told = self.around, choice.predicted
        for n, graph in enumerate(self.order):
            for more, seen, expected in (
                (around.forward, self._forward, told.forward),
                (around.backward, self._behind, told.backward),
            ):
                more[n] = more.get(n, 0) + seen.get(graph, expected[n]) - expected[n]
        around.between += self._between - told.between
        around.after += self._after - told.after

    def close(self) -> None:
        """Nothing more is watched."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _optimized(self, *_: Any) -> None:
        self._after = max(self._after, self._reset())

    def _event(self) -> Any:
        return mark(self._device) if self._gpu else None

    def forward(self, graph: Any, arguments: Sequence[Any]) -> Any:
        if not self.order:
            self._laps.append(_Lap(self._event()))
        if graph not in self.order:
            self.order.append(graph)
        lap = self._laps[-1]
        self._reset()
        begun = self._event()
        result = graph.run(*arguments)
        lap.forward.append((begun, self._event()))
        self._note(self._forward, graph)
        node = _node_of(result)
        if node is None:
            return result

        begin: list[Any] = []

        def begins(*_: Any) -> None:
            self._between = max(self._between, self._reset())
            begin.append(self._event())
            if not self._backward:
                self._backward, self.calls = True, {}
                if not self._gpu and self.outside is None:
                    self.outside = private.saved_by_operators(node)
            self.calls[graph] = self.calls.get(graph, 0) + 1

        def ends(*_: Any) -> None:
            if begin:
                lap.backward.append((begin.pop(), self._event()))
            self._note(self._behind, graph)

        node.register_prehook(begins)
        node.register_hook(ends)
        return result

    def _note(self, peaks: dict[Any, int], graph: Any) -> None:
        peaks[graph] = max(peaks.get(graph, 0), self._reset())

    def _reset(self) -> int:
        """The most in use since the last time."""
        if not self._gpu:
            return 0
        most = int(torch.cuda.max_memory_allocated(self._device))
        torch.cuda.reset_peak_memory_stats(self._device)
        return most


def _node_of(result: Any) -> Optional[Any]:
    """The node of autograd's graph that runs a compiled backward pass."""
    nodes = [
        one.grad_fn
        for one in torch.utils._pytree.tree_leaves(result)
        if isinstance(one, torch.Tensor) and one.grad_fn is not None
    ]
    # Of an output, or of a view of one.
    nodes += [below for node in nodes for below, _ in node.next_functions if below]
    return next((n for n in nodes if "CompiledFunction" in n.name()), None)
