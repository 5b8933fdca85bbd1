"""Checks that docs/ renders as a site that loads nothing from elsewhere.

    check_site.py SOURCE_FOLDER SITE

Run by the Python of build/venv, which has mkdocs-material. Pages may link to
other places; what a browser loads by itself (scripts, styles, fonts, pictures)
is in the site.
"""

import os
import pathlib
import re
import subprocess
import sys

LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\s>]*"
    r"|<link\b(?=[^>]*rel=[\"']?(?:stylesheet|preload|preconnect|icon))[^>]*"
    r"\bhref=[\"']?(?:https?:)?//[^\s>]*"
)
LOADED_BY_CSS = re.compile(r"(?:url\(|@import\s)\s*[\"']?(?:https?:)?//[^)\"']*")


def main() -> int:
    root, site = (pathlib.Path(folder).resolve() for folder in sys.argv[1:])
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--clean",
         "--config-file", root / "mkdocs.yml", "--site-dir", site],
        check=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},  # names no change of ours
    )
    pages = sorted(site.rglob("*.html"))
    found = [
        f"{file.relative_to(site)}: loads {match[0]}"
        for files, pattern in ((pages, LOADED), (site.rglob("*.css"), LOADED_BY_CSS))
        for file in files
        for match in pattern.finditer(file.read_text())
    ]
    print("\n".join(found) or f"{len(pages)} pages, which load nothing from elsewhere")
    return 1 if found or len(pages) < 3 else 0


if __name__ == "__main__":
    sys.exit(main())
