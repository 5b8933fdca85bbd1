"""What GPUs are called, and what runs on one that is not the current one."""

from types import SimpleNamespace

import pytest

import torch

from ucudnn.torch import devices, timing

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
            assert entered[-1:] == [OTHER]

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


@pytest.mark.parametrize("name, known", [
    ("NVIDIA H200", "GPU-0707"), ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "MIG-0707"),
])  # fmt: skip
def test_gpus_and_mig_instances_have_the_ids_that_nvidia_writes(
    monkeypatch, name, known
):
    found = SimpleNamespace(name=name, uuid="0707")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: found)
    assert devices._gpu_name(0) == known
