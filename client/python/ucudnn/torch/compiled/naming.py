"""What people call the nodes of a graph, and where a graph ends."""

from __future__ import annotations

import re
from typing import Any, Iterable

_PLACE = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def named(node: Any) -> tuple[str, str]:
    """The module and the operator that made its result."""
    while getattr(node.target, "__name__", "") == "getitem":
        node = node.args[0]
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = str(stack[-1][0]) if stack else ""
    path = re.sub(r"^L\['\w+'\]\.?(_orig_mod\.)?", "", path)
    packet = getattr(node.target, "overloadpacket", node.target)
    return path, str(packet)


def breaks_of(modules: Iterable[Any]) -> str:
    """Where a step broke into these of Dynamo's graphs, as the end of a sentence; empty
    if there is one."""
    ends = [_end_of(module) for module in modules]
    if len(ends) < 2:
        return ""
    return (
        f"; it broke into {len(ends)} graphs, of which nothing is computed again across "
        f"the breaks, after {', '.join(ends[:-1])}"
    )


def _end_of(module: Any) -> str:
    """The line that the last operator comes from."""
    for node in reversed(module.graph.nodes):
        places = _PLACE.findall(node.meta.get("stack_trace") or "")
        if places:
            file, line, function = places[-1]
            return f"{file}:{line} ({function})"
    return "an unknown line"
