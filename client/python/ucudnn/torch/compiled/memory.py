"""What a step's graphs take of a device's memory and time, seen while the first steps
run."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from ucudnn.torch.compiled.costs import bytes_of
from ucudnn.torch.compiled.planning import Choice, Surroundings

# Without a budget, one in so many bytes is left free.
_MARGIN = 16
# An optimizer's state that does not exist yet, in sizes of the parameters, and what
# its step needs besides: Adam's.
_STATE, _TEMPORARY = 2, 1


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


class Watch:
    """The order of a step's graphs, how often each runs and, on a GPU, what each
    part takes at most."""

    def __init__(self, device: torch.device) -> None:
        self.around = Surroundings()
        self.order: List[Any] = []  # graphs, by their first forward pass
        self.calls: Dict[Any, int] = {}
        self.peak: Optional[int] = None  # of the last step that was measured
        self._device = device
        self._gpu = device.type == "cuda"
        self._backward = False  # has begun in this step
        self._fresh = True  # something was compiled in this step, which takes memory
        self._forward: Dict[Any, int] = {}
        self._behind: Dict[Any, int] = {}  # backward
        self._between = self._after = 0
        self._begun: Optional[Any] = None  # an event, as the step began
        self._passes: List[Tuple[Any, Any]] = []  # events around each of the graphs'
        # Of the last step that was measured, and of its graphs.
        self.us = self.graphs_us = 0.0
        self._hook: Optional[Any] = None

    def expect(self, around: Surroundings) -> None:
        """Before the first graph of a step runs."""
        self._fresh = True
        if self._gpu and self._hook is None:
            # Others may reset the statistics between two steps.
            self._hook = register_optimizer_step_post_hook(self._optimized)
        if not self.order or self.between_steps():
            self.order = []
            self.calls = {}
            self._backward = False
            self.around = around

    def compiled(self) -> None:
        self._fresh = True

    def between_steps(self) -> bool:
        return self._backward

    def step_done(
        self, planned: Sequence[Any], choice: Optional[Choice]
    ) -> Optional[bool]:
        """As the next step begins: None if another step than the planned one ran;
        otherwise whether it was measured. Corrects what the next plan expects."""
        same = list(self.order) == list(planned)
        measured = same and not self._fresh
        self.peak = None
        if self._gpu and measured and choice is not None:
            self._correct(choice)
        self.order, self._forward, self._behind = [], {}, {}
        self._between, self._after, self._passes = 0, 0, []
        self._backward, self._fresh = False, False
        return measured if same else None

    def _correct(self, choice: Choice) -> None:
        around, told = self.around, choice.predicted
        after = max(self._after, self._reset())
        if self._begun is not None:
            ended = self._event()
            ended.synchronize()
            self.us = self._begun.elapsed_time(ended) * 1e3
            self.graphs_us = sum(a.elapsed_time(b) * 1e3 for a, b in self._passes)
        for n, graph in enumerate(self.order):
            for more, seen, expected in (
                (around.forward, self._forward, told.forward),
                (around.backward, self._behind, told.backward),
            ):
                more[n] = more.get(n, 0) + seen.get(graph, expected[n]) - expected[n]
        around.between += self._between - told.between
        around.after += after - told.after
        self.peak = max(
            after, self._between, *self._forward.values(), *self._behind.values()
        )

    def close(self) -> None:
        """Nothing more is watched."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _optimized(self, *_: Any) -> None:
        self._after = max(self._after, self._reset())

    def _event(self) -> Any:
        if not self._gpu:
            return None
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def forward(self, graph: Any, arguments: Sequence[Any]) -> Any:
        if not self.order:
            self._begun = self._event()
        if graph not in self.order:
            self.order.append(graph)
        self._reset()
        begun = self._event()
        result = graph.run(*arguments)
        self._passes.append((begun, self._event()))
        self._note(self._forward, graph)
        node = _node_of(result)
        if node is None:
            return result

        begin: List[Any] = []

        def begins(*_: Any) -> None:
            self._between = max(self._between, self._reset())
            begin.append(self._event())
            if not self._backward:
                self._backward, self.calls = True, {}
            self.calls[graph] = self.calls.get(graph, 0) + 1

        def ends(*_: Any) -> None:
            if begin:
                self._passes.append((begin.pop(), self._event()))
            self._note(self._behind, graph)

        node.register_prehook(begins)
        node.register_hook(ends)
        return result

    def _note(self, peaks: Dict[Any, int], graph: Any) -> None:
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
    waiting = [
        one.grad_fn
        for one in torch.utils._pytree.tree_leaves(result)
        if isinstance(one, torch.Tensor) and one.grad_fn is not None
    ]
    for node in waiting:
        if "CompiledFunction" in node.name():
            return node
    for node in waiting:  # views of outputs
        for other, _ in node.next_functions:
            if other is not None and "CompiledFunction" in other.name():
                return other
    return None

