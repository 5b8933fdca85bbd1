"""python3 -m ucudnn.figures: draws the figures of docs/figures."""

from __future__ import annotations

import argparse
from pathlib import Path

from ucudnn.figures import FIGURES, draw


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python3 -m ucudnn.figures", description="Draws the papers' figures."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FIGURES))
    parser.add_argument("--root", default=".", help="a checkout of ucudnn")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER")
    parser.add_argument(
        "--format", action="append", choices=("svg", "png"), help="default: svg"
    )
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in FIGURES]
    if unknown:
        parser.error(
            f"there is no figure {unknown[0]}; {', '.join(FIGURES)} are accepted"
        )
    if not Path(chosen.root, "tests/data").is_dir():
        parser.error(
            f"--root: '{chosen.root}' is not a checkout of ucudnn, which has the "
            "figures' data in tests/data"
        )
    written = draw(
        chosen.root, chosen.output, chosen.names or FIGURES, chosen.format or ["svg"]
    )
    for file in written:
        print(file)


if __name__ == "__main__":
    main()
