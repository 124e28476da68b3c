#!/usr/bin/env python3
"""Checks documents, comments of scripts, and the command lines in records.

  scripts/check_text.py              check the tree
  scripts/check_text.py --self-test  require that wrong lines are caught

Prints "file:line: what" for everything wrong and then exits with 1. The rules:

  - A line of a Markdown file has at most 100 columns, unless it is a row of a table. The same holds
    for comments and docstrings of scripts; clang-format looks after those of C++.
  - A record under results/ names no folder of the machine that wrote it: the files in its
    command_line are given relative to the tree.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

COLUMNS = 100
# Finds an absolute path as an argument or as the value of a flag or key.
ABSOLUTE = re.compile(r"(?:^|[ =,])(/[^ ,]+)")


def wrong_line(path, line):
    """Says what is wrong with a line of a file of this name, or None."""
    if path.endswith(".md"):
        if len(line) > COLUMNS and not line.startswith("|"):
            return f"{len(line)} columns, {COLUMNS} at the most: break the line"
    elif path.endswith(".jsonl") and path.startswith("results/"):
        found = ABSOLUTE.search(json.loads(line).get("command_line", ""))
        if found:
            return f"command_line names {found[1]}: write the path relative to the tree"
    elif path.endswith((".sh", ".py")) or path == ".ci/run":
        # A docstring has no mark of its own: its lines are those without a quote or a bracket.
        is_text = line.lstrip().startswith("#") or not re.search(r"[\"'(){}\[\]$]", line)
        if len(line) > COLUMNS and is_text:
            return f"{len(line)} columns, {COLUMNS} at the most: break the line"
    return None


def check_tree():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True, text=True).stdout
    wrong = 0
    for path in listed.split("\0"):
        if not pathlib.Path(path).is_file():
            continue
        if not (path.endswith((".md", ".jsonl", ".sh", ".py")) or path == ".ci/run"):
            continue
        if path.startswith("tests/golden/"):
            continue  # whole answers of the program, tables that are as wide as a file lets them be
        text = pathlib.Path(path).read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            what = wrong_line(path, line)
            if what:
                print(f"{path}:{number}: {what}")
                wrong += 1
    return 1 if wrong else 0


def self_test():
    long = "word " * 21
    record = '{"command_line": "attnlab run %s"}'
    cases = [
        ("HACKING.md", long, True),
        ("HACKING.md", long[:COLUMNS], False),
        ("HACKING.md", "| " + long, False),
        ("scripts/a.sh", "# " + long, True),
        ("scripts/a.sh", 'echo "' + long + '"', False),
        ("scripts/a.py", long, True),
        ("harness/a.cpp", "// " + long, False),
        ("results/a.jsonl", record % "--out /home/somebody/a.jsonl", True),
        ("results/a.jsonl", record % "--protocol file=/home/somebody/a.jsonl", True),
        ("results/a.jsonl", record % "sweeps/quick.json --out results/a.jsonl", False),
        ("results/a.jsonl", "{}", False),
    ]
    wrong = [case for case in cases if (wrong_line(*case[:2]) is not None) != case[2]]
    for path, line, is_wrong in wrong:
        print(f"self-test: {path}: {line!r}: want {'a complaint' if is_wrong else 'none'}")
    print(f"text self-test: {len(cases) - len(wrong)} of {len(cases)} lines judged right")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true", help="check the checker")
    return self_test() if parser.parse_args().self_test else check_tree()


if __name__ == "__main__":
    sys.exit(main())
