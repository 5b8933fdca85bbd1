"""Tables of the stage graphs of run.sh from its raw output.

    graphs.py graphs.txt >graphs.md

Times are milliseconds, medians over processes. Fails if a row has no result.
"""

import json
import math
import re
import statistics
import sys

LINE = re.compile(
    r"^(?P<variant>\w+): \S*?(?P<network>[^/]+)\.csv batch (?P<batch>\d+) "
    r"(?P<precision>\w+): .*enqueued in (?P<host>[\d.]+) ms, "
    r"measured (?P<measured>[\d.]+) ms(, predicted (?P<predicted>[\d.]+) ms)?"
)
GRAPHS = re.compile(r"^(\w+): ucudnn: (.*graphs captured.*)$")


def read(path):
    """The sections of the output: {row: [lines]}."""
    rows, row = {}, None
    with open(path, encoding="utf-8") as text:
        for line in text:
            line = line.rstrip("\n")
            if line.startswith("== "):
                row = line[3:]
                rows[row] = []
            elif row is not None and not line.startswith("not begun: "):
                rows[row].append(line)
    return rows


def timings(lines):
    """{variant: {"measured": [...], "host": [...], "predicted": [...]}}."""
    found = {}
    for line in lines:
        match = LINE.match(line)
        if not match:
            continue
        of = found.setdefault(match["variant"], {"measured": [], "host": [], "predicted": []})
        of["measured"].append(float(match["measured"]))
        of["host"].append(float(match["host"]))
        if match["predicted"]:
            of["predicted"].append(float(match["predicted"]))
    return {
        variant: {key: statistics.median(values) if values else None for key, values in of.items()}
        for variant, of in found.items()
    }


def ms(value):
    return "-" if value is None else f"{value:.3f}"


def percent(of):
    if not of or of["predicted"] is None:
        return "-"
    return f"{100 * (of['measured'] / of['predicted'] - 1):+.1f} %"


def small(rows):
    print("## Small mini-batches, 64 MiB a kernel\n")
    print("| row | cuDNN alone | graphs | gain | enqueued | host: alone | host: graphs |")
    print("|---|---|---|---|---|---|---|")
    gains = []
    for row, lines in rows.items():
        if not row.startswith("small:"):
            continue
        of = timings(lines)
        if "alone" not in of or "graphs" not in of:
            print(f"| {row} | no result | | | | | |")
            continue
        gain = of["alone"]["measured"] / of["graphs"]["measured"]
        gains.append(gain)
        enqueued = of.get("enqueued", {}).get("measured")
        print(
            f"| {row[6:]} | {ms(of['alone']['measured'])} | {ms(of['graphs']['measured'])} "
            f"| {gain:.2f} | {ms(enqueued)} | {ms(of['alone']['host'])} "
            f"| {ms(of['graphs']['host'])} |"
        )
    if gains:
        mean = math.exp(sum(map(math.log, gains)) / len(gains))
        print(f"\nGain: least {min(gains):.2f}, geometric mean {mean:.2f} of {len(gains)} rows.\n")


def large(rows):
    print("## Large mini-batches\n")
    print("| row | cuDNN alone | graphs | of its points | enqueued | of its points | WD, 512 MiB "
          "| of its points | shim |")
    print("|---|---|---|---|---|---|---|---|---|")
    for row, lines in rows.items():
        if not row.startswith("large:"):
            continue
        of = timings(lines)
        measured = {variant: ms(of[variant]["measured"]) if variant in of else "-" for variant in
                    ("alone", "graphs", "enqueued", "wd", "shim")}
        print(
            f"| {row[6:]} | {measured['alone']} | {measured['graphs']} "
            f"| {percent(of.get('graphs'))} | {measured['enqueued']} "
            f"| {percent(of.get('enqueued'))} | {measured['wd']} | {percent(of.get('wd'))} "
            f"| {measured['shim']} |"
        )
    print()


def executor(rows):
    print("## Executors: device and host time in milliseconds\n")
    print("| row | plan | predicted | enqueued | a graph a kernel | one graph | graph memory |")
    print("|---|---|---|---|---|---|---|")
    branches = []
    for row, lines in rows.items():
        results = []
        for line in lines:
            if not line.startswith('{"network"'):
                continue
            result = json.loads(line)
            results.append(result)
            for plan in ("planned", "undivided"):
                of = result[plan]

                def both(name):
                    times = of[name]
                    return f"{times['device_us'] / 1e3:.3f}, {times['host_us'] / 1e3:.3f}"

                print(
                    f"| {row.split(':', 1)[1]} | {plan}, {of['steps']} steps "
                    f"| {of['predicted_us'] / 1e3:.3f} | {both('enqueued')} "
                    f"| {both('replayed_by_kernel')} | {both('replayed')} "
                    f"| {of['replayed']['graph_bytes'] / 2**20:.1f} MiB |"
                )
            if len(results) == 2:
                branches.append((row, results))
    print("\n## Algorithms in two parallel branches\n")
    print("| row | one branch | with branches | gain | predicted | runs in branches | planning |")
    print("|---|---|---|---|---|---|---|")
    for row, (one, two) in branches:
        before, after = (of["planned"]["replayed"]["device_us"] / 1e3 for of in (one, two))
        plan = two["planned"]
        print(
            f"| {row.split(':', 1)[1]} | {before:.3f} | {after:.3f} "
            f"| {100 * (before / after - 1):.1f} % | {plan['predicted_us'] / 1e3:.3f} "
            f"| {plan['branched']} of {plan['steps']} "
            f"| {one['planning_s']:.0f}, {two['planning_s']:.0f} s |"
        )
    print()


def others(rows):
    print("## Engines, host time, memory\n\n```")
    for row, lines in rows.items():
        if row.startswith(("engines:", "host:", "random:")):
            print(f"== {row}")
            print("\n".join(lines))
            continue
        last = {}
        for line in lines:
            match = GRAPHS.match(line)
            if match:
                last[match[1]] = match[2]
        for variant, text in last.items():
            print(f"{row} {variant}: {text}")
    print("```")


def main():
    rows = read(sys.argv[1])
    small(rows)
    large(rows)
    executor(rows)
    others(rows)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
