"""A PEP 517 build backend that packs the wheel with the standard library only,
so that `pip install ./client/python` needs no network; cluster nodes often have
none.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from pathlib import Path
from typing import Any, Dict, List, Optional

HERE = Path(__file__).parent


def _settings() -> Dict[str, str]:
    """The plain strings of pyproject.toml; tomllib came with Python 3.11."""
    text = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    return dict(re.findall(r'^([a-z-]+) = "(.*)"$', text, re.MULTILINE))


def _hash(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return "sha256=" + digest.rstrip(b"=").decode()


def get_requires_for_build_wheel(
    config_settings: Optional[Dict[str, Any]] = None,
) -> List[str]:
    return []


def build_wheel(
    wheel_directory: str,
    config_settings: Optional[Dict[str, Any]] = None,
    metadata_directory: Optional[str] = None,
) -> str:
    settings = _settings()
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
        "Requires-Dist: torch>=1.13; extra == 'torch'\n"
    )
    wheel = (
        "Wheel-Version: 1.0\n"
        "Generator: ucudnn\n"
        "Root-Is-Purelib: true\n"
        "Tag: py3-none-any\n"
    )
    contents = {
        str(file.relative_to(HERE)): file.read_bytes()
        for file in sorted((HERE / "ucudnn").rglob("*"))
        # Include shared libraries that were copied into the package.
        if file.suffix == ".py" or file.name == "py.typed" or ".so" in file.name
    }
    contents[f"{info}/METADATA"] = metadata.encode()
    contents[f"{info}/WHEEL"] = wheel.encode()
    record = f"{info}/RECORD"
    lines = [
        f"{path},{_hash(content)},{len(content)}"
        for path, content in contents.items()
    ]
    contents[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    result = f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(
        Path(wheel_directory) / result, "w", zipfile.ZIP_DEFLATED
    ) as archive:
        for path, content in contents.items():
            archive.writestr(path, content)
    return result
