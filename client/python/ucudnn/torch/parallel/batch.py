"""The images of a batch, which may be tensors, lists or dictionaries of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import torch

from ucudnn.torch.checks import refuse

_SAYS_HOW_MANY = (
    "attach(..., images=lambda images, targets: len(images)), a function of the "
    "model's arguments, is accepted"
)


def images_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """The number of images in a model's arguments: the first dimension of the first
    tensor. Raises InvalidArgument if there is none, or if that tensor is within a
    list of likes whose length is another number, as with a list of images."""
    for value in (*args, *kwargs.values()):
        found = _images_in(value)
        if found is not None:
            return found
    raise refuse(
        "attach: the model's input", "no tensor among its arguments", _SAYS_HOW_MANY
    )


def _images_in(value: Any) -> Optional[int]:
    if isinstance(value, torch.Tensor):
        return int(value.shape[0]) if value.dim() > 0 else None
    listed = isinstance(value, (list, tuple))
    items = list(value.values()) if isinstance(value, Mapping) else value
    if not listed and items is value:
        return None
    if listed and not items:
        return 0
    found = next((n for n in map(_images_in, items) if n is not None), None)
    alike = listed and len(set(map(_kind_of, items))) == 1
    if alike and found is not None and found != len(items):
        raise refuse(
            "attach: the model's input",
            f"a {type(value).__name__} of {len(items)}, whose first tensor has "
            f"{found} rows: either may be the number of images",
            _SAYS_HOW_MANY,
        )
    return found


def _kind_of(item: Any) -> Any:
    """What a list's items have in common if each is an image, and images and their
    labels do not."""
    if isinstance(item, torch.Tensor):
        return (item.dim(), item.dtype)
    return type(item)


def part_of(value: Any, images: int, part: slice) -> Any:
    """Some of a batch's images: of a tensor's first dimension, of a list or tuple
    with an item for each image, or of each value of a dictionary. Raises
    InvalidArgument if `value` does not have `images` of them."""
    if isinstance(value, Mapping):
        return {k: part_of(v, images, part) for k, v in value.items()}
    if isinstance(value, torch.Tensor) and value.dim() > 0:
        found = int(value.shape[0])
    elif isinstance(value, (list, tuple)):
        found = len(value)
    else:
        raise refuse(
            "micro_batches",
            f"a {type(value).__name__}",
            "tensors, lists with an item for each image and dictionaries of "
            "them are accepted",
        )
    if found != images:
        raise refuse(
            "micro_batches",
            f"a {type(value).__name__} of {found} images",
            f"{images}, this rank's share, are accepted",
        )
    return value[part]


def emptied(one: Any, two: Any) -> Any:
    """A batch of no images, in the structure of `one`, a batch of one image. What
    grows with the number of images is what differs from `two`, a batch of the
    same image twice: a tensor's dimension, or a list's length. Raises
    InvalidArgument for what may hold images otherwise."""
    if isinstance(one, torch.Tensor):
        for dim, sizes in enumerate(zip(one.shape, two.shape)):
            if sizes[0] != sizes[1]:
                return one.narrow(dim, 0, 0)
        return one
    if isinstance(one, Mapping):
        return {name: emptied(one[name], two[name]) for name in one}
    if isinstance(one, (list, tuple)):
        if len(one) != len(two):
            return type(one)()
        items = [emptied(a, b) for a, b in zip(one, two)]
        if hasattr(one, "_fields"):
            return type(one)(*items)
        return type(one)(items)
    if one is None or isinstance(one, (bool, int, float, str, bytes)):
        return one
    raise refuse(
        "loader: collate_fn",
        f"a {type(one).__name__}, which cannot be emptied for an idle rank",
        "tensors, lists and dictionaries of them are accepted",
    )
