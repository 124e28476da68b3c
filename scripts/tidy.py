#!/usr/bin/env python3
"""Runs clang-tidy on sources whose judgement is not known yet.

  scripts/tidy.py BUILD [FILE.cpp...]    of all that BUILD's compile_commands.json compiles

A source was judged already where clang-tidy, its settings, the compile command and the texts of
the source and of all headers that it included then are the same as now: good ones are remembered in
~/.cache/attnlab/tidy ($XDG_CACHE_HOME), a small file each. scripts/lint.sh --tidy calls this.

Exit: 0 nothing to say, 1 findings.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIDY = "clang-tidy-14"
KEPT = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")


def digest(*texts):
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


class Judge:
    def __init__(self, build):
        version = subprocess.run([TIDY, "--version"], capture_output=True, text=True, check=True)
        self.settings = version.stdout + (ROOT / ".clang-tidy").read_text()
        self.build = build
        self.texts = {}
        self.folder = KEPT / "attnlab" / "tidy"
        self.folder.mkdir(parents=True, exist_ok=True)

    def text_hash(self, path):
        if path not in self.texts:
            file = pathlib.Path(path)
            self.texts[path] = (
                hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "gone"
            )
        return self.texts[path]

    def dependencies(self, entry):
        """Lists the files that the source includes, and itself, as the compiler does."""
        command = re.sub(r" -o \S+", "", entry["command"]) + " -M"
        command = command[command.index(" -") :]  # without the compiler and its launcher
        listed = subprocess.run(
            f"clang++-14 -Wno-everything{command}",
            shell=True,
            cwd=entry["directory"],
            capture_output=True,
            text=True,
        )
        if listed.returncode != 0:
            return None
        files = listed.stdout.replace("\\\n", " ").split(":", 1)[1].split()
        return [os.path.normpath(os.path.join(entry["directory"], file)) for file in files]

    def key(self, entry, files):
        relative = [os.path.relpath(file, ROOT) for file in files]
        command = entry["command"].replace(str(ROOT), "")
        hashes = [self.text_hash(file) for file in files]
        return digest(self.settings, command, *relative, *hashes)

    def judge(self, entry):
        """Returns what clang-tidy says of the source; "" if all is well."""
        files = self.dependencies(entry)
        kept = self.folder / self.key(entry, files) if files else None
        if kept and kept.exists():
            kept.touch()
            return "", False
        command = [TIDY, "-p", str(self.build), "--quiet", "--warnings-as-errors=*", entry["file"]]
        said = subprocess.run(command, capture_output=True, text=True)
        if said.returncode != 0:
            return said.stdout + said.stderr, True
        if kept:
            kept.touch()
        return "", True


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()

    entries = {}
    for entry in json.loads((arguments.build / "compile_commands.json").read_text()):
        entries.setdefault(entry["file"], entry)  # a source of two programs: as clang-tidy takes it
    wanted = {str(file.resolve()) for file in arguments.files} or {
        file for file in entries if not file.startswith(str(arguments.build.resolve()))
    }
    if unknown := wanted - set(entries):
        print(f"tidy.py: {', '.join(sorted(unknown))}: not compiled in {arguments.build}")
        return 1
    judge = Judge(arguments.build)
    judged = bad = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for said, anew in pool.map(judge.judge, [entries[file] for file in sorted(wanted)]):
            judged += anew
            bad += bool(said)
            print(said, end="", flush=True)
    print(f"clang-tidy: {len(wanted)} sources, {judged} judged now, {bad} with findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
