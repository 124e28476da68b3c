#!/usr/bin/env python3
"""Asks how often the gate is right: gates heads whose slowdown is known against one base, many times.

  scripts/gate_series.py [OPTIONS] BASE NAME=HEAD [NAME=HEAD...] [-- ARGUMENTS OF gate...]

For example, on a GPU, where kernels are compiled from texts:

  scripts/gate_series.py --runs 20 --out series.txt again:1 equal=again:1 slower=again:4 \
    -- sweeps/gate.json

BASE and HEAD are source trees, whose kernels one program compiles, or HEAD is another attnlab, that
gates itself against the attnlab BASE. --together: one gate has all heads, which take turns with
BASE (attnlab gate --candidate). again:N is this tree with a plant in v2's forward: of N in 8
tiles K is loaded once more. (Both sides have one, since the condition alone makes other machine
code: N from 1 to 7 differ in one constant.) A run gates each head once, in an order drawn anew.
Each head of a run is a line of --out, appended, so a series may be measured in parts: run, head,
exit code, seconds, device, and of each point the verdict, both medians, the ratio and its interval;
with --together also who else was there, and the seconds are those of all. Then how often each head
had which exit code is printed, over all of the file.

Exit: 0 measured, 2 bad arguments, 3 a head or base is missing.
"""
import argparse
import collections
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

THIS_TREE = pathlib.Path(__file__).resolve().parent.parent
PLANTED_FILE = "kernels/v2/forward.cuh"
PLANTED_LINE = "load(gK, ahead, kTiles.k_tile(stage));"
FOLDERS = ("kernels", "reference")  # they hold the texts of kernels


class Missing(Exception):
    pass


def planted_tree(tiles, folder):
    """Copies the texts of this tree, with K of `tiles` in 8 tiles loaded twice."""
    for name in FOLDERS:
        shutil.copytree(THIS_TREE / name, folder / name)
    file = folder / PLANTED_FILE
    text = file.read_text()
    if text.count(PLANTED_LINE) != 1:
        raise Missing(f"{file}: has not exactly one line '{PLANTED_LINE}'")
    file.write_text(text.replace(
        PLANTED_LINE, f"{PLANTED_LINE}\nif (ahead % 8 < {tiles}) {PLANTED_LINE}"))
    return folder


def gate_command(attnlab, base, heads, arguments):
    """Returns the command that gates heads, by one program or by the first head's own."""
    first, *others = heads.items()
    command = ([attnlab, "gate", f"--kernel-sources={first[1]}"] if first[1].is_dir()
               else [str(first[1]), "gate"])
    candidates = [f"--candidate={name}={path}" for name, path in others]
    return [*command, f"--against={base}", *candidates, *arguments]


def judged(gate):
    """Returns what a series keeps of one head's gate."""
    kept = ("verdict", "base_s", "new_s", "ratio", "ratio_ci95", "threshold")
    points = [{"key": point["key"], "trouble": point["trouble"]} |
              {key: point["time"][key] for key in kept if point["time"]}
              for point in gate["points"]]
    return {"exit_code": gate["exit_code"], "measured_again": gate["measured_again"],
            "points": points}


def gate_once(command, heads, records):
    """Gates heads together; returns a line for each, by name."""
    began = time.monotonic()
    done = subprocess.run([*command, "--format=json", "--no-progress", f"--out={records}"],
                          capture_output=True, text=True)
    same = {"seconds": round(time.monotonic() - began, 1)}
    if len(heads) > 1:
        same["together"] = list(heads)
    try:
        said = json.loads(done.stdout)
    except json.JSONDecodeError:
        failed = {"exit_code": done.returncode, "error": (done.stderr or done.stdout)[-500:]}
        return {name: failed | same for name in heads}
    first = (records / "head.jsonl").read_text().splitlines()[0]
    same["device"] = json.loads(first)["device"]
    gates = said["heads"] if "heads" in said else [said]
    return {name: judged(gate) | same for name, gate in zip(heads, gates, strict=True)}


def print_table(file):
    codes = collections.defaultdict(collections.Counter)
    for line in file.read_text().splitlines():
        gate = json.loads(line)
        codes[gate["head"]][gate["exit_code"]] += 1
    shown = sorted({code for counter in codes.values() for code in counter})
    width = max(len(name) for name in codes)
    print(f"{'head':{width}}  gates" + "".join(f"  exit {code}" for code in shown))
    for name, counter in codes.items():
        print(f"{name:{width}}  {counter.total():5}" +
              "".join(f"  {counter[code]:6}" for code in shown))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="BASE")
    parser.add_argument("heads", nargs="+", metavar="NAME=HEAD")
    parser.add_argument("--attnlab", default="build/cpu/attnlab", help="gates source trees")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--together", action="store_true", help="gate all heads in one")
    parser.add_argument("--seconds", type=float, default=float("inf"),
                        help="begin no gate after so many seconds")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gate-series.jsonl"))
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    options, arguments = parser.parse_args(words[:split]), words[split + 1:]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        def side(name, text):
            if text.startswith("again:"):
                return planted_tree(int(text[6:]), pathlib.Path(scratch, name))
            return pathlib.Path(text).resolve()
        base = side("base", options.base)
        heads = {}
        for text in options.heads:
            name, separator, head = text.partition("=")
            if not separator or not head:
                parser.error(f"'{text}' is no NAME=HEAD")
            heads[name] = side(f"head-{name}", head)
        for path in (base, *heads.values()):
            if not path.exists():
                raise Missing(f"{path}: is not there")
        for run in range(1, options.runs + 1):
            drawn = random.sample(list(heads), len(heads))
            for names in [drawn] if options.together else [[name] for name in drawn]:
                if time.monotonic() - began > options.seconds:
                    break
                records = pathlib.Path(scratch, "records")
                chosen = {name: heads[name] for name in names}
                start = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                lines = gate_once(gate_command(options.attnlab, base, chosen, arguments), chosen,
                                  records)
                with options.out.open("a") as file:
                    for name, line in lines.items():
                        file.write(json.dumps({"run": run, "head": name, "time": start} | line)
                                   + "\n")
                said = ", ".join(f"{name}: exit {line['exit_code']}"
                                 for name, line in lines.items())
                print(f"run {run}, {said}, {lines[names[0]]['seconds']} s", file=sys.stderr,
                      flush=True)
                shutil.rmtree(records, ignore_errors=True)
    print_table(options.out)


if __name__ == "__main__":
    try:
        main()
    except Missing as missing:
        print(f"gate_series.py: {missing}", file=sys.stderr)
        sys.exit(3)
