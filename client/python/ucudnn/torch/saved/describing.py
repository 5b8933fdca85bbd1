"""A recorded step as ucudnn/solve.h describes it."""

from __future__ import annotations

import bisect
from dataclasses import replace
from typing import Any, NamedTuple, Sequence

import torch

from ucudnn.torch.reserve import rounded
from ucudnn.torch.saved.links import Rates
from ucudnn.torch.saved.recorded import Recording, Saved

# Storages of less than this share of all saved bytes stay.
_LEAST_SHARE = 1 / 2000


class Description(NamedTuple):
    """A recorded step for the solver, and what its numbers stand for."""

    step: dict[str, Any]  # as ucudnn/solve.h describes it
    recording: Recording  # with the narrow copies that a plan keeps instead
    planned: list[bool]  # by storage
    storages: list[int]  # by tensor of the step: the number of its storage
    hooks: list[int]  # by hook of the step: the number in the recording
    plain_peak: int  # bytes


def described(
    recording: Recording,
    device: torch.device,
    rates: Rates,
    budget: int,
    may_narrow: bool,
) -> Description:
    """Of a step whose copies reach `rates`. If it needs more than `budget` bytes,
    a plan may keep narrow copies where values allow it."""
    gpu = device.type == "cuda"
    planned = _planned(recording.storages)
    besides = _besides(recording, planned, gpu)
    plain_peak = _plain_peak(recording, planned, besides, gpu)
    times = recording.ms
    if may_narrow and plain_peak > budget:
        recording, times = _narrowed(recording, planned)
        besides = _besides(recording, planned, gpu)
    d2h, h2d = rates
    step, hooks = merged({
        "segments": [
            {"time_us": ms * 1e3, "bytes": size, "backward": backward}
            for ms, size, backward in zip(times, besides, _backward(recording))
        ],
        "tensors": _tensors(recording, planned, besides, gpu),
        "link": {"d2h_bytes_per_us": d2h, "h2d_bytes_per_us": h2d},
    })  # fmt: skip
    return Description(step, recording, planned, _numbers(planned), hooks, plain_peak)


def _planned(storages: Sequence[Saved]) -> list[bool]:
    """Whether a plan may move or drop the storage, and gains by it."""
    movable = [not s.stays and bool(s.uses) and s.held < min(s.uses) for s in storages]
    least = sum(s.bytes for s, can in zip(storages, movable) if can) * _LEAST_SHARE
    return [can and s.bytes >= least for s, can in zip(storages, movable)]


def _numbers(planned: Sequence[bool]) -> list[int]:
    return [number for number, plans in enumerate(planned) if plans]


def _tensors(
    recording: Recording, planned: Sequence[bool], besides: Sequence[int], gpu: bool
) -> list[dict[str, Any]]:
    storages = recording.storages
    at = {number: index for index, number in enumerate(_numbers(planned))}
    tensors = []
    for number in at:
        saved = storages[number]
        uses = _uses(saved, len(recording.ms))
        tensor: dict[str, Any] = {
            "bytes": rounded(saved.bytes, gpu),
            "hook": saved.hook,
            "held": saved.held,
            "uses": uses,
        }
        again = saved.again
        if again is not None and all(
            _readable(storages[n], uses[-1]) for n in again.recipe.reads
        ):
            first = uses[0]
            floor = 0
            if gpu:
                inside = recording.bytes[first] - recording.floor[first]
                floor = max(0, besides[first] - inside)
            tensor["recipe"] = {
                "time_us": again.ms * 1e3,
                "bytes": again.bytes + floor,
                "reads": [at[n] for n in again.recipe.reads if planned[n]],
            }
        tensors.append(tensor)
    return tensors


def _readable(saved: Saved, last: int) -> bool:
    """Whether a recipe finds the storage up to the segment `last`: what other code
    holds is certain to be there until it is needed itself."""
    if saved.is_narrow:
        return False
    return not saved.stays or last <= max(saved.uses)


def _uses(saved: Saved, segments: int) -> list[int]:
    return [u for u in sorted({*saved.uses, saved.released}) if u < segments]


def _plain_peak(
    recording: Recording, planned: Sequence[bool], besides: Sequence[int], gpu: bool
) -> int:
    """The most bytes in any segment if every storage stays."""
    live = list(besides)
    for number in _numbers(planned):
        saved = recording.storages[number]
        last = _uses(saved, len(live))[-1]
        for segment in range(saved.hook + 1, last + 1):
            live[segment] += rounded(saved.bytes, gpu)
    return max(live)


def _narrowed(
    recording: Recording, planned: Sequence[bool]
) -> tuple[Recording, list[float]]:
    """The recording with narrow copies where values allow it, and the segments'
    milliseconds with the conversions."""
    storages, times = list(recording.storages), list(recording.ms)
    for number in _numbers(planned):
        saved = storages[number]
        if saved.narrow is not None:
            storages[number] = saved.as_narrow()
            for segment in (saved.hook + 1, *saved.uses):
                times[segment] += saved.narrow_ms
    return replace(recording, storages=storages), times


def _backward(recording: Recording) -> list[bool]:
    """By segment; one that a hook of the backward pass begins is part of it, and
    what follows the last."""
    flags = list(recording.backward)
    for hook, kind in enumerate(recording.kinds):
        flags[hook + 1] = flags[hook + 1] or not kind.saves
    return flags


def _besides(recording: Recording, planned: Sequence[bool], gpu: bool) -> list[int]:
    """By segment: the bytes that any plan needs besides the planned storages. The
    recording had each on the device until other code let go of it, and from its
    first use to its last; so has a plan those of which it keeps a narrow copy."""
    segments = len(recording.ms)
    change = [0] * (segments + 1)

    def add(size: int, first: int, last: int) -> None:
        change[first] += size
        change[min(last, segments - 1) + 1] -= size

    for saved, plans in zip(recording.storages, planned):
        size = rounded(saved.bytes, gpu)
        if saved.is_narrow:
            continue
        if gpu and not saved.stays:
            add(-size, saved.hook + 1, saved.held)
        if not saved.uses:
            if not saved.stays:
                add(size, saved.hook + 1, segments - 1)  # until the graph ends
            continue
        if gpu:
            add(-size, min(saved.uses), saved.released)
        if not plans and not saved.stays:
            add(size, saved.hook + 1, max(saved.released, saved.held))
    besides = []
    now = 0
    for segment in range(segments):
        now += change[segment]
        measured = recording.bytes[segment] if gpu else 0
        besides.append(max(0, measured + now))
    return besides


def merged(step: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """The step with those hooks alone at which a planned storage is saved, let go
    of or needed, and their numbers: most are of parameters and small storages, and
    a search tries as many more plans."""
    hooks = {0}
    for tensor in step["tensors"]:
        uses = tensor["uses"]
        hooks.update((tensor["hook"], tensor["held"], uses[-1]))
        hooks.update(use - 1 for use in uses)
    kept = sorted(hook for hook in hooks if hook + 1 < len(step["segments"]))
    segments: list[dict[str, Any]] = [
        {"time_us": 0.0, "bytes": 0, "backward": False} for _ in range(len(kept) + 1)
    ]

    def place(segment: int) -> int:
        return bisect.bisect_left(kept, segment)

    for number, segment in enumerate(step["segments"]):
        into = segments[place(number)]
        into["time_us"] += segment["time_us"]
        into["bytes"] = max(into["bytes"], segment["bytes"])
        into["backward"] = into["backward"] or segment["backward"]
    tensors = [
        {
            **tensor,
            "hook": place(tensor["hook"]),
            "held": place(tensor["held"]),
            "uses": sorted({place(use) for use in tensor["uses"]}),
        }
        for tensor in step["tensors"]
    ]
    return {**step, "segments": segments, "tensors": tensors}, kept
