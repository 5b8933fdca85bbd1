import numpy
import pytest
import torch
import ucudnn
from ucudnn.torch.replay.inputs import Inputs

CPU = torch.device("cpu")


def refused(inputs, *arguments, **keywords):
    with pytest.raises(ucudnn.InvalidArgument) as error:
        inputs.take(arguments, keywords)
    return str(error.value)


def test_copies_the_examples_tensors():
    image = torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    example = (image, {"label": torch.zeros(2), "name": "x"}), {"scale": 2}
    inputs = Inputs(*example, CPU)
    copied, nested = inputs.arguments
    assert copied is not image and torch.equal(copied, image)
    assert copied.stride() == image.stride()
    assert nested["name"] == "x" and inputs.keywords == {"scale": 2}


def test_takes_the_tensors_of_a_call():
    inputs = Inputs([torch.zeros(2), [torch.zeros(3)]], {"y": torch.zeros(1)}, CPU)
    before = inputs.arguments[0]
    inputs.take((torch.ones(2), [torch.full((3,), 2.0)]), {"y": torch.ones(1)})
    assert inputs.arguments[0] is before and float(before.sum()) == 2
    assert float(inputs.arguments[1][0].sum()) == 6
    assert float(inputs.keywords["y"]) == 1


def test_takes_what_it_holds():
    inputs = Inputs([torch.ones(2, requires_grad=True)], {}, CPU)
    inputs.take(inputs.arguments, {})
    inputs.take([torch.zeros(2)], {})
    assert inputs.arguments[0].requires_grad
    assert float(inputs.arguments[0].sum()) == 0


def test_refuses_another_number_of_arguments():
    inputs = Inputs([torch.zeros(2)], {"y": 1}, CPU)
    assert "2 arguments, y=; 1 arguments, y= are" in refused(
        inputs, torch.zeros(2), 3, y=1
    )
    assert "1 arguments;" in refused(inputs, torch.zeros(2))


@pytest.mark.parametrize(
    "other, told",
    [
        (torch.zeros(3), "torch.float32 (3,) on cpu"),
        (torch.zeros(2, dtype=torch.int64), "torch.int64 (2,) on cpu"),
        (torch.zeros(2, device="meta"), "torch.float32 (2,) on meta"),
        (7, "7"),
    ],
)
def test_refuses_other_tensors(other, told):
    inputs = Inputs([1, torch.zeros(2)], {}, CPU)
    text = refused(inputs, 1, other)
    assert f"memory: argument 1: {told}; torch.float32 (2,) on cpu is acc" in text


@pytest.mark.parametrize("other", [3, 2.0, None, torch.tensor(2)])
def test_refuses_other_values(other):
    inputs = Inputs([], {"scale": 2}, CPU)
    assert "2 is accepted, which was captured" in refused(inputs, scale=other)
    inputs.take([], {"scale": 2})


def test_refuses_values_that_it_cannot_compare():
    inputs = Inputs([numpy.zeros(2)], {}, CPU)
    assert "argument 0" in refused(inputs, numpy.zeros(2))
    inputs.take(inputs.arguments, {})


def test_refuses_other_lists():
    inputs = Inputs([[torch.zeros(2)]], {}, CPU)
    assert "argument 0" in refused(inputs, [torch.zeros(2), torch.zeros(2)])
    assert "argument 0" in refused(inputs, (torch.zeros(2),))


def test_changes_nothing_if_it_refuses():
    inputs = Inputs([torch.zeros(2), torch.zeros(2)], {}, CPU)
    refused(inputs, torch.ones(2), torch.ones(3))
    assert float(inputs.arguments[0].sum()) == 0


def test_refuses_tensors_of_another_device():
    with pytest.raises(ucudnn.InvalidArgument) as error:
        Inputs([torch.zeros(2)], {}, torch.device("meta"))
    assert "with graphs=True tensors on meta are accepted" in str(error.value)
