"""Measured steps in files that processes share: one for each kind and step,
`torch/STEP/KIND.json` in the folder of ucudnn's caches: $UCUDNN_CACHE_DIR, else
$XDG_CACHE_HOME/ucudnn, else $HOME/.cache/ucudnn. Files are replaced atomically;
an unreadable one counts as absent, and a folder that cannot be written is not an
error."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any, Optional

from ucudnn.files import PathLike
from ucudnn.torch.profiling import StepProfile


class StepCache:
    """The cache in `folder`; None: the default, "": none."""

    def __init__(self, folder: Optional[PathLike] = None) -> None:
        self._folder = _default() if folder is None else str(folder)

    def path(self, step: str, kind: str) -> Optional[Path]:
        """Where the times of a step on a kind are."""
        if not self._folder:
            return None
        digest = hashlib.sha256(kind.encode()).hexdigest()[:8]
        readable = re.sub(r"[^A-Za-z0-9.]+", "-", kind)[:60].strip("-")
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", step)
        return Path(self._folder) / "torch" / name / f"{readable}-{digest}.json"

    def read(self, step: str, kind: str) -> StepProfile:
        """What was measured; nothing if there is no such file."""
        nothing = StepProfile(kind)
        try:
            told = self.read_json(step, kind)
            times = {int(b): float(ms) for b, ms in told["ms"].items()}
            largest, least = told["largest"], told["least"]
        except (ValueError, TypeError, KeyError, AttributeError):
            return nothing
        valid = all(b > 0 and 0 < ms < float("inf") for b, ms in times.items())
        bounded = largest is None or (isinstance(largest, int) and largest >= 0)
        if told.get("kind") != kind or not valid or not bounded:
            return nothing
        return StepProfile(kind, times, largest, 2 if least == 2 else 1)

    def write(self, step: str, measured: StepProfile) -> None:
        told = {
            "kind": measured.kind,
            "ms": {str(b): ms for b, ms in sorted(measured.ms.items())},
            "largest": measured.largest,
            "least": measured.least,
        }
        self.write_json(step, measured.kind, told)

    def read_json(self, step: str, kind: str) -> Any:
        """None if there is no such file, or it has none."""
        path = self.path(step, kind)
        try:
            return path and json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def write_json(self, step: str, kind: str, told: dict[str, Any]) -> None:
        path = self.path(step, kind)
        if path is None:
            return
        text = json.dumps(told, indent=1) + "\n"
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", dir=path.parent, delete=False, encoding="utf-8"
            ) as file:
                file.write(text)
            os.replace(file.name, path)


def _default() -> str:
    chosen = os.environ.get("UCUDNN_CACHE_DIR")
    if chosen is not None:
        return chosen
    for variable, below in (("XDG_CACHE_HOME", ""), ("HOME", ".cache")):
        base = os.environ.get(variable, "")
        if os.path.isabs(base):
            return os.path.join(base, below, "ucudnn")
    return ""
