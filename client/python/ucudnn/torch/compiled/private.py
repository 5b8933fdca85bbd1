"""All that ucudnn.torch.compile uses of PyTorch beyond its documented interface, and
the versions that it was tried with."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib.metadata
import logging
import threading
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

import torch

TRIED = ("2.11", "2.13")

_log = logging.getLogger("ucudnn.torch.compile")
_partitioning = threading.RLock()


def warn_untried() -> None:
    """Once, with a version that nobody has tried."""
    version = ".".join(torch.__version__.split(".")[:2])
    if version not in TRIED and version not in _warned:
        _warned.add(version)
        _log.warning(
            "PyTorch %s: ucudnn.torch.compile was tried with %s",
            version, " and ".join(TRIED),
        )  # fmt: skip


_warned: set[str] = set()


def partition(
    planner: Any, module: Any, inputs: Any, **keywords: Any
) -> tuple[Any, Any]:
    """The forward and backward graph of a joint graph, as torch.compile splits it but
    for the values that the planner, a job.Graph, has saved."""
    from torch._functorch import partitioners

    count = keywords["num_fwd_outputs"]
    plain = partitioners.choose_saved_values_set

    def chosen(graph: Any, *rest: Any, **more: Any) -> list[Any]:
        outputs = torch.utils._pytree.tree_leaves(graph.output_node().args)
        return planner.choose(graph, plain(graph, *rest, **more), outputs[:count])

    planner.rewrite(module.graph)
    with _partitioning:
        partitioners.choose_saved_values_set = chosen
        try:
            forward, backward = partitioners.min_cut_rematerialization_partition(
                module, inputs, **keywords
            )
        finally:
            partitioners.choose_saved_values_set = plain
    planner.saved = [n.name for n in backward.graph.find_nodes(op="placeholder")]
    return forward, backward


def compile_graph(
    module: Any,
    inputs: Sequence[Any],
    planner: Any,
    compiler: str,
    options: dict[str, Any],
) -> Callable[..., Any]:
    """Compiles one of Dynamo's graphs by Inductor or, without generating code, by
    "aot_eager"; it must be a copy, since compilers change it."""
    split = functools.partial(partition, planner)
    # What AOTAutograd caches was split by an earlier plan.
    with torch._functorch.config.patch(enable_autograd_cache=False), _layouts_chosen():
        if compiler == "aot_eager":
            return _aot_eager(split)(module, inputs)
        from torch._inductor.compile_fx import compile_fx

        patches = {**options, "custom_partitioner_fn": _partitioner()(split)}
        return compile_fx(module, inputs, config_patches=patches)


@contextlib.contextmanager
def _layouts_chosen() -> Iterator[None]:
    """Within it `keep_layouts` counts."""
    from torch._inductor import config

    before = config.layout_optimization
    try:
        yield
    finally:
        config.layout_optimization = before


def keep_layouts() -> None:
    """Inductor keeps the layouts of the graph that is being compiled, instead of having
    convolutions' tensors channels last."""
    from torch._inductor import config

    config.layout_optimization = False


@functools.lru_cache(maxsize=None)
def _partitioner() -> Any:
    """The class that Inductor insists on, whose module takes seconds to import."""
    from torch._inductor.custom_graph_pass import CustomPartitionerFn

    class Partitioner(CustomPartitionerFn):
        def __init__(self, split: Callable[..., tuple[Any, Any]]) -> None:
            self._split = split

        def __call__(self, *args: Any, **keywords: Any) -> tuple[Any, Any]:
            return self._split(*args, **keywords)

        # Inductor caches by the graphs that are split, so that this counts for nothing.
        def uuid(self) -> str:
            return "ucudnn"

        def __reduce__(self) -> Any:
            return str, ("ucudnn",)

        def __deepcopy__(self, memo: Any) -> Any:
            return self

    return Partitioner


def _aot_eager(split: Callable[..., tuple[Any, Any]]) -> Any:
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func
    from torch._inductor.compile_fx import select_decomp_table

    def as_it_is(module: Any, inputs: Any) -> Any:
        return make_boxed_func(module.forward)

    def split_as_inductor(*args: Any, **keywords: Any) -> tuple[Any, Any]:
        return split(*args, compiler="inductor", **keywords)

    return aot_autograd(
        fw_compiler=as_it_is,
        bw_compiler=as_it_is,
        partition_fn=split_as_inductor,
        decompositions=select_decomp_table,
    )


def backend_of(compiled: Any) -> Any:
    """What gets the graphs of a compiled module; None if that is not known."""
    one: Any = getattr(getattr(compiled, "dynamo_ctx", None), "callback", None)
    while hasattr(one, "_torchdynamo_orig_backend"):
        one = one._torchdynamo_orig_backend
    return getattr(one, "compiler_fn", None)


def is_compiled(one: Any) -> bool:
    """Whether it is a module or function that torch.compile returned, or a module that
    was compiled in place."""
    names = ("_orig_mod", "_compiled_call_impl", "_torchdynamo_orig_callable")
    return any(getattr(one, name, None) is not None for name in names)


@functools.lru_cache(maxsize=None)  # once, also if the package is loaded anew
def register(name: str, backend: Callable[..., Any]) -> None:
    """Has torch.compile find a backend where the package is not installed, but
    imported: no entry point names it there."""
    entries = importlib.metadata.entry_points(group="torch_dynamo_backends")
    if name not in entries.names:
        torch._dynamo.register_backend(backend, name=name)


def saved_by_operators(node: Any) -> int:
    """Bytes that operators up to an autograd node save outside of compiled graphs,
    parameters apart."""
    sizes: dict[int, int] = {}
    leaves, waiting, seen = set(), [node], {node}
    while waiting:
        one = waiting.pop()
        before = {other for other, _ in one.next_functions if other is not None} - seen
        seen |= before
        waiting += before
        if hasattr(one, "variable"):
            leaves.add(one.variable.untyped_storage().data_ptr())
        for name in dir(one):
            value = getattr(one, name) if name.startswith("_saved_") else None
            for saved in value if isinstance(value, tuple) else (value,):
                if isinstance(saved, torch.Tensor):
                    storage = saved.untyped_storage()
                    sizes[storage.data_ptr()] = storage.nbytes()
    return sum(size for at, size in sizes.items() if at not in leaves)


def inductor_options(mode: Optional[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Of a mode of torch.compile, and of options, which count more. Raises
    RuntimeError for those that Inductor does not know."""
    if mode is None and not options:
        return {}
    return dict(torch._TorchCompileInductorWrapper(mode, dict(options), None).config)


# Inductor's option: whether graphs run as CUDA graphs.
CUDA_GRAPHS = "triton.cudagraphs"


def copied(module: Any) -> Any:
    """A copy of one of Dynamo's graphs that shares parameters with it."""
    other = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    other.meta = dict(module.meta)
    if hasattr(module, "_param_name_to_source"):
        other._param_name_to_source = module._param_name_to_source
    for old, new in zip(module.graph.nodes, other.graph.nodes):
        if hasattr(old, "_dynamo_source"):
            new._dynamo_source = old._dynamo_source
    return other


def specialized(module: Any, arguments: Sequence[Any]) -> tuple[Any, list[int]]:
    """A copy of a graph of symbolic sizes whose numbers are those among `arguments`,
    and which arguments remain."""
    other = copied(module)
    kept = []
    for index, (node, value) in enumerate(
        zip(other.graph.find_nodes(op="placeholder"), arguments)
    ):
        for read in [n for n in node.users if n.target == "item"]:
            read.replace_all_uses_with(value.item())
            other.graph.erase_node(read)
        if isinstance(value, torch.Tensor) and (node.users or value.dim() > 0):
            kept.append(index)
        else:
            node.replace_all_uses_with(value)
            other.graph.erase_node(node)
    other.recompile()
    return other, kept


def size_key(module: Any, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """What `specialized` depends on."""
    nodes = module.graph.find_nodes(op="placeholder")
    return tuple(
        (
            value
            if not isinstance(value, torch.Tensor)
            else (
                value.item()
                if any(user.target == "item" for user in node.users)
                else (tuple(value.shape), value.stride())
            )
        )
        for node, value in zip(nodes, arguments)
    )


@contextlib.contextmanager
def compiled_once(model: Any, backend: Callable[..., Any]) -> Iterator[Any]:
    """A function that calls a model, and whose graphs go to a backend. Neither counts
    among what Dynamo compiles of the model at most."""

    def run(*arguments: Any, **keywords: Any) -> Any:
        return model(*arguments, **keywords)

    run.__code__ = run.__code__.replace()  # with which Dynamo keeps its graphs
    with torch._dynamo.config.patch(recompile_limit=1 << 10):
        yield torch.compile(run, backend=backend, dynamic=False)


def blank_outputs(module: Any) -> list[Any]:
    """What one of Dynamo's graphs returns, but zeros, which no graph computed."""

    def blank(node: Any) -> Any:
        if not isinstance(node, torch.fx.Node):
            return node
        value = node.meta["example_value"]
        zeros = torch.empty_strided(
            value.shape, value.stride(), dtype=value.dtype, device=value.device
        ).zero_()
        return zeros.requires_grad_(value.requires_grad)

    return [blank(node) for node in module.graph.output_node().args[0]]


def faked(arguments: Sequence[Any]) -> list[Any]:
    """Tensors of the same sizes that have no memory."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode()
    return [
        (
            mode.from_tensor(one, static_shapes=True)
            if isinstance(one, torch.Tensor)
            else one
        )
        for one in arguments
    ]


def trains(inputs: Sequence[Any]) -> bool:
    """Whether a graph that is called with these gets a backward pass."""
    return torch.is_grad_enabled() and any(
        isinstance(one, torch.Tensor) and one.requires_grad for one in inputs
    )


def symbolic(value: Any) -> bool:
    """Whether an argument of a graph stands for several sizes."""
    if isinstance(value, torch.Tensor):
        return any(isinstance(n, torch.SymInt) for n in value.shape)
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """Within it operators compute, though a graph is being compiled."""
    from torch.utils._python_dispatch import _disable_current_modes

    guard = torch._C._DisableAutocast()
    with _disable_current_modes(), torch.no_grad():
        yield
    del guard


def inserted(graph: Any, target: Any, *args: Any) -> Any:
    """A new node that calls an operator, with what it returns."""
    node = graph.create_node("call_function", target, args)
    node.meta["val"] = target(
        *(one.meta["val"] if isinstance(one, torch.fx.Node) else one for one in args)
    )
    return node


def fusible(node: Any) -> bool:
    """Whether Inductor computes it within the kernel of what reads it."""
    from torch._functorch.partitioners import get_default_op_list

    return bool(get_default_op_list().is_fusible(node))


def is_view(node: Any) -> bool:
    """Whether its result is a part of its first argument."""
    return bool(getattr(node.target, "is_view", False))


def is_random(node: Any) -> bool:
    """Whether it gives other numbers when computed again."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    names = [a.name for a in node.target._schema.arguments]
    if "dropout_p" not in names:
        return True
    at = names.index("dropout_p")
    given = node.args[at] if at < len(node.args) else node.kwargs.get("dropout_p", 0.0)
    return not (isinstance(given, float) and given == 0.0)


def is_late_input(node: Any) -> bool:
    """Whether an input of the joint graph is known in the backward pass only."""
    name = str(node.target)
    return "tangents" in name or name.startswith("bwd_")


def overwritten_inputs(graph: Any) -> set[Any]:
    """Those that the forward pass changes."""
    described = graph.output_node().meta.get("desc") or []
    leaves = torch.utils._pytree.tree_leaves(described)
    written = {getattr(one, "mutated_input", None) for one in leaves} - {None}
    inputs = graph.find_nodes(op="placeholder")
    copies = [n for n in graph.nodes if n.target is torch.ops.aten.copy_.default]
    return {n for n in inputs if n.meta.get("desc") in written} | {
        n.args[0] for n in copies
    }


def must_stay(node: Any) -> bool:
    """Whether it may not be computed again at all: it has an effect, or waits for
    other ranks."""
    if node.op != "call_function":
        return True
    namespace = getattr(node.target, "namespace", "")
    schema = getattr(node.target, "_schema", None)
    return (
        namespace in ("_c10d_functional", "c10d")
        or (schema is not None and schema.is_mutable)
        or isinstance(node.target, torch._ops.HigherOrderOperator)
        or str(node.meta.get("partitioner_tag")).startswith("must_be_in_")
    )
