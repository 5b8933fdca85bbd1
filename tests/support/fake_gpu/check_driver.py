"""Checks that the fake driver of R470 exports only what CUDA 11.4's driver has.

  check_driver.py LIBCUDA INCLUDE...

CUDA's cudaTypedefs.h tells since when a function has each of its forms: of
PFN_cuEventElapsedTime_v2000 and ..._v12080, the second one is exported as
cuEventElapsedTime_v2.
"""

import re
import subprocess
import sys
from pathlib import Path

OLDEST_CUDA = 11040

library, *includes = sys.argv[1:]
since = {}
headers = [Path(folder) / "cudaTypedefs.h" for folder in includes]
typedefs = next(header.read_text() for header in headers if header.exists())
for name, version in re.findall(r"\*PFN_(cu\w+)_v(\d+)\)", typedefs):
    since.setdefault(name, set()).add(int(version))
command = ["nm", "-D", "--defined-only", "--format=posix", library]
exported = subprocess.run(command, check=True, capture_output=True, text=True).stdout
names = [line.split()[0] for line in exported.splitlines() if line.startswith("cu")]
newer = []
for name in names:
    base, _, form = name.partition("_v")
    versions = sorted(since[base])
    if versions[int(form or 1) - 1] > OLDEST_CUDA:
        newer.append(name)
if newer or len(names) < 50:
    sys.exit(f"{library}: of {len(names)} functions, newer than CUDA 11.4: {newer}")
