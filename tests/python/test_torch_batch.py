import pytest

import torch

import ucudnn
from ucudnn.torch.parallel.batch import emptied, images_of, part_of


def tensors(*shapes):
    return [torch.ones(shape) for shape in shapes]


def test_counts_the_rows_of_the_first_tensor():
    x = torch.ones(4, 2)
    assert images_of((None, torch.tensor(1.0), x), {}) == 4
    assert images_of((), {"x": {"ids": x}}) == 4
    # However many more there are behind it.
    assert images_of((x, tensors((1, 4), (1, 4))), {}) == 4
    # Images and their labels, as a DataLoader collates them.
    assert images_of(([x, torch.ones(4)], 0), {}) == 4
    assert images_of(([x, None],), {}) == 4
    # A list of as many as each has rows is no riddle.
    assert images_of((tensors((2, 5), (2, 6)),), {}) == 2
    assert images_of(([], []), {}) == 0


@pytest.mark.parametrize(
    "value, text",
    [
        (tensors((3, 8, 8), (3, 9, 9)), "a list of 2, whose first tensor has 3"),
        (tuple(tensors((4, 2), (4, 2))), "a tuple of 2, whose first tensor has 4"),
        ([{"image": torch.ones(3, 8, 8)}], "a list of 1, whose first tensor"),
        (7, "no tensor among its arguments"),
    ],
)
def test_refuses_batches_whose_images_it_cannot_count(value, text):
    with pytest.raises(ucudnn.InvalidArgument, match=text):
        images_of((value,), {})


def test_takes_a_part_of_each_kind_of_batch():
    part = slice(1, 3)
    assert part_of(torch.arange(4), 4, part).tolist() == [1, 2]
    assert part_of(("a", "b", "c"), 3, part) == ("b", "c")
    told = part_of({"x": torch.arange(3), "y": [5, 6, 7]}, 3, part)
    assert told["x"].tolist() == [1, 2]
    assert told["y"] == [6, 7]
    for value, text in (
        (torch.ones(5), "a Tensor of 5 images; 4, this rank's share"),
        ({"x": torch.ones(4), "y": [1]}, "a list of 1 images; 4"),
        ("name", "a str; tensors, lists"),
    ):
        with pytest.raises(ucudnn.InvalidArgument, match=text):
            part_of(value, 4, part)


def test_empties_what_grows_with_the_images():
    one = {
        "x": torch.ones(1, 2),
        "sequence": torch.ones(5, 1, 2),
        "pair": [torch.ones(1), ("name",)],
        "boxes": [torch.ones(3, 4)],
        "scale": torch.ones(2),
        "epoch": 4,
    }
    two = {
        "x": torch.ones(2, 2),
        "sequence": torch.ones(5, 2, 2),
        "pair": [torch.ones(2), ("name", "name")],
        "boxes": [torch.ones(3, 4)] * 2,
        "scale": torch.ones(2),
        "epoch": 4,
    }
    told = emptied(one, two)
    assert told["x"].shape == (0, 2)
    assert told["sequence"].shape == (5, 0, 2)
    assert told["pair"][0].shape == (0,)
    assert told["pair"][1] == ()
    assert told["boxes"] == []
    assert told["scale"].shape == (2,)
    assert told["epoch"] == 4
    with pytest.raises(ucudnn.InvalidArgument, match="a object, which cannot"):
        emptied(object(), object())
