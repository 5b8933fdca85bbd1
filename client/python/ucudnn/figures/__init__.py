"""The figures of the papers that ucudnn rests on, from its own measurements and
plans, beside what the papers print. One function a figure:

>>> ucudnn.figures.cluster_6(root).savefig("cluster-6.png")

`root` is a checkout of ucudnn, whose tests/data and docs/results have the data.
`python3 -m ucudnn.figures --root . -o docs/figures` draws all of docs/figures.
They need matplotlib and, for memory plans, a library built with ONNX.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List

from ucudnn.figures.hmms import hmms_batches, hmms_plans
from ucudnn.figures.micro_batches import (
    cluster_6,
    cluster_8,
    cluster_9,
    cluster_10,
    cluster_11,
    cluster_12,
    cluster_13,
    ipsj_1,
    ipsj_11,
)
from ucudnn.figures.modnn import (
    modnn_9,
    modnn_11,
    modnn_12,
    modnn_13,
    modnn_14,
    modnn_17,
)
from ucudnn.figures.vdnn import vdnn_4, vdnn_7, vdnn_8, vdnn_9, vdnn_10
from ucudnn.files import PathLike

__all__ = [
    "FIGURES",
    "cluster_6",
    "cluster_8",
    "cluster_9",
    "cluster_10",
    "cluster_11",
    "cluster_12",
    "cluster_13",
    "draw",
    "hmms_batches",
    "hmms_plans",
    "ipsj_1",
    "ipsj_11",
    "modnn_9",
    "modnn_11",
    "modnn_12",
    "modnn_13",
    "modnn_14",
    "modnn_17",
    "vdnn_4",
    "vdnn_7",
    "vdnn_8",
    "vdnn_9",
    "vdnn_10",
]

# By the name of its file.
FIGURES: Dict[str, Callable[[PathLike], Any]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        cluster_6, cluster_8, cluster_9, cluster_10, cluster_11, cluster_12, cluster_13,
        ipsj_1, ipsj_11, vdnn_4, vdnn_7, vdnn_8, vdnn_9, vdnn_10, modnn_9, modnn_11,
        modnn_12, modnn_13, modnn_14, modnn_17, hmms_plans, hmms_batches,
    )
}  # fmt: skip


def draw(
    root: PathLike,
    folder: PathLike,
    names: Iterable[str] = tuple(FIGURES),
    formats: Iterable[str] = ("svg",),
) -> List[Path]:
    """Writes figures to `folder`, which is made if need be. The same data gives
    the same files with the same matplotlib. Formats are "svg" and "png"."""
    import matplotlib

    Path(folder).mkdir(parents=True, exist_ok=True)
    formats = tuple(formats)
    written = []
    for name in names:
        figure = FIGURES[name](root)
        for form in formats:
            file = Path(folder) / f"{name}.{form}"
            metadata = {"Date": None} if form == "svg" else {"Software": None}
            # Text stays text: small files, which can be searched.
            with matplotlib.rc_context(
                {"svg.hashsalt": name, "svg.fonttype": "none"}
            ):
                figure.savefig(file, dpi=150, metadata=metadata)
            written.append(file)
    return written
