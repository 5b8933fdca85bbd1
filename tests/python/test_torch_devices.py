"""What GPUs are called, and what runs on one that is not the current one."""

import threading
from types import SimpleNamespace

import pytest

import torch

from ucudnn.torch import devices, kernels, timing

OTHER = torch.device("cuda", 1)


@pytest.fixture
def entered(monkeypatch):
    """The devices that are made the current one, the last one last."""
    devices = []

    class Current:
        def __init__(self, device):
            self.device = device

        def __enter__(self):
            devices.append(self.device)

        def __exit__(self, *error):
            devices.pop()

    monkeypatch.setattr(torch.cuda, "device", Current)
    return devices


def test_events_are_recorded_on_the_device_that_runs(entered, monkeypatch):
    class Event:
        def __init__(self, enable_timing):
            pass

        def record(self):
            assert entered == [OTHER]

        def synchronize(self):
            pass

        def elapsed_time(self, end):
            return 1.0

    slept, ran = [], []
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: slept.append(list(entered)))
    timing.times_of({"run": lambda: ran.append(list(entered))}, OTHER)
    assert len(slept) == 7 and all(one == [OTHER] for one in slept)
    assert all(one == [OTHER] for one in ran[1:])  # the first warms up


def test_kernels_are_launched_on_their_device(entered, monkeypatch):
    launched = []

    class Driver:
        def cuLaunchKernel(self, *arguments):
            launched.append(list(entered))
            return 0

    monkeypatch.setattr(kernels, "current_stream", lambda device: 0)
    kernel = object.__new__(kernels.Kernel)
    kernel._device, kernel._driver, kernel._function = OTHER, Driver(), None
    kernel._lock, kernel._values = threading.Lock(), None
    kernel.launch(1, 1, [1, 2])
    assert launched == [[OTHER]] and entered == []


@pytest.mark.parametrize("name, known", [
    ("NVIDIA H200", "GPU-0707"), ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "MIG-0707"),
])  # fmt: skip
def test_gpus_and_mig_instances_have_the_ids_that_nvidia_writes(
    monkeypatch, name, known
):
    found = SimpleNamespace(name=name, uuid="0707")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: found)
    assert devices._gpu_name(0) == known
