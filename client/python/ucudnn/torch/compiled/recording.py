"""A model's steps as ucudnn.torch.compile would plan them, without running them."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Mapping, NoReturn, Optional, Sequence

from ucudnn.errors import Error
from ucudnn.torch.compiled import private
from ucudnn.torch.compiled.job import Graph, Job, Options
from ucudnn.torch.compiled.planning import Choice, Part, Step, Surroundings, fastest

# More than any device has, so that graphs are described.
UNBOUNDED = 1 << 62


class _Described(Exception):
    """A graph is known, and need not be compiled."""


class Recorder(Job):
    """Describes the graphs of one model."""

    def __init__(
        self, model: Any, options: Options, inductor: Mapping[str, Any]
    ) -> None:
        super().__init__(options._replace(budget=UNBOUNDED), inductor)
        self._model = model
        self._graphs: list[Graph] = []

    def step(self, run: Callable[[Any], Any]) -> Optional[Step]:
        """That of what `run` does with the model it is given, whose results have no
        values. None if no graph has a backward pass."""
        self._graphs = []
        with private.compiled_once(self._model, self.backend) as model:
            run(model)
        watch, self._watch = self._watch, None
        around = Surroundings() if watch is None else watch.around
        if watch is not None:
            watch.close()
        parts = [
            Part(graph.described, graph.calls)
            for graph in self._graphs
            if graph.described is not None and graph.calls
        ]
        return Step(parts, around, self._scales) if parts else None

    def within(self, step: Step, budget: Optional[int]) -> Choice:
        """The plan that is within a budget, or NoPlan."""
        return fastest(step, budget, self._way())

    def backend(
        self, module: Any, inputs: Sequence[Any], **_: Any
    ) -> Callable[..., Any]:
        graph = Graph(self, private.copied(module))
        graph.calls = 0
        with contextlib.suppress(_Described):
            graph.compile(inputs)

        def run(*_: Any) -> Any:
            graph.calls += 1
            return private.blank_outputs(module)

        return run

    def plan(self, new: Optional[Graph] = None) -> NoReturn:
        if new is not None:
            self._graphs.append(new)
        raise _Described

    def warn(self, error: BaseException, what: str = "") -> NoReturn:
        raise Error(f"share: {type(error).__name__}: {error}") from error
