#!/usr/bin/env python3
"""Checks the commands, the pasted outputs and the links in the documents (every .md of the tree).

  scripts/check_docs.py --attnlab build/cpu/attnlab              check the tree
  scripts/check_docs.py --attnlab build/cpu/attnlab --self-test  require that faults are caught

Prints "file:line: what" for everything wrong and then exits with 1. What is checked:

  - A command stands in a fenced block, behind "$ " where its output follows, or in `backquotes`
    where it begins with attnlab or a script. Its program, its verb, each of its flags and the files
    of the tree that it names must exist.
  - Commands that only read run, where they are in a block and name no placeholder (FILE): help,
    list, table, model, and run with --dry-run, which all other commands of run get as well, for
    the values of their flags. They must end within 60 s, for tests may run beside them. They see
    a copy of the tree's sweeps, results and peers, and no GPU.
  - An output that is pasted behind a command that ran is compared word by word. Numbers, hashes and
    the machine's name may differ, lines may break elsewhere; a line "..." stands for any number of
    lines. Tables come from records of the tree alone, so there numbers count, too.
  - A link within the tree leads to a file that exists, and to one of its headings; a path of the
    tree in `backquotes` exists (of a module the name will do: `kernels/cuda/jit`).
"""

import argparse
import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT_S = 60
TREE = ("sweeps/", "results/", "scripts/", "tests/", "kernels/", "docs/", "harness/", "reference/")
READING = {"list", "table", "model"}
FOREIGN = {"cmake", "ctest", "python3", "man", "env", "/tmp/peer/bin/python", "/tmp/peer/bin/pip"}
WRITES = {"--out", "--save", "--junit"}
PROGRAM = re.compile(
    r"(?:python3 )?(?:\./)?(?:build/cpu/)?"
    r"(?:attnlab |attnlab_mutants|emulated |scripts/|tests/\S+ )")
PATH = re.compile(rf"(?:{'|'.join(TREE)})[\w./*+-]+")
PLACEHOLDER = re.compile(r"\b(?!CPU|GPU|CUDA)[A-Z][A-Z_]+\b|\.\.\.")


class Command(NamedTuple):
    line: int
    text: str
    output: list  # lines that follow; None where none are pasted
    is_block: bool


# --- what a document holds ------------------------------------------------------------------------


def fences(text):
    """Yields (line of the first, lines, language) of each fenced block."""
    block = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"\s*```(\w*)\s*$", line)
        if mark and block is None:
            block = (number + 1, [], mark[1])
        elif mark:
            yield block
            block = None
        elif block:
            block[1].append(line)


def joined(lines):
    """Yields (begin, end, line), with lines that a backslash continues joined."""
    index = 0
    while index < len(lines):
        begin, line = index, lines[index]
        while line.endswith("\\") and index + 1 < len(lines):
            index += 1
            line = line[:-1].rstrip() + " " + lines[index].strip()
        yield begin, index + 1, line
        index += 1


def commands_of_block(first, lines):
    if not any(line.startswith("$ ") for line in lines):
        words = lines[0].split() if lines else []
        if words and ("/" in words[0] or words[0] in FOREIGN or words[0] == "attnlab"):
            for begin, _, line in joined(lines):
                if line.strip():
                    yield Command(first + begin, line, None, True)
        return
    found = [entry for entry in joined(lines) if entry[2].startswith("$ ")]
    for place, (begin, end, line) in enumerate(found):
        until = found[place + 1][0] if place + 1 < len(found) else len(lines)
        output = lines[end:until]
        yield Command(first + begin, line[2:], output if any(output) else None, True)


def spans(text):
    """Yields (line, words) of each piece in backquotes, fenced blocks left out."""
    prose = re.sub(r"(?ms)^\s*```.*?^\s*```\s*?$", lambda block: "\n" * block[0].count("\n"), text)
    for span in re.finditer(r"`([^`]+)`", prose):
        yield prose.count("\n", 0, span.start()) + 1, " ".join(span[1].split())


def commands_of(text):
    for first, lines, language in fences(text):
        if language in ("", "sh", "console"):
            yield from commands_of_block(first, lines)
    for line, words in spans(text):
        if PROGRAM.match(words) and not words.endswith("/"):
            yield Command(line, words, None, False)


def slug(heading):
    """Returns what a heading is called in a link."""
    plain = re.sub(r"[`*]", "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def headings(text):
    plain = re.sub(r"(?ms)^\s*```.*?^\s*```\s*$", "", text)
    return {slug(found[1]) for found in re.finditer(r"(?m)^#+ (.*)$", plain)}


# --- the checks -----------------------------------------------------------------------------------


class Checker:
    def __init__(self, attnlab, root=ROOT, limit_s=LIMIT_S):
        self.attnlab = pathlib.Path(attnlab).resolve()
        self.root = root
        self.limit_s = limit_s
        self.ran = self.parsed = self.compared = 0
        self.folder = tempfile.TemporaryDirectory()
        for name in ("sweeps", "results", "scripts/peers"):
            shutil.copytree(ROOT / name, pathlib.Path(self.folder.name) / name)
        self.environment = {
            **os.environ, "HOME": self.folder.name, "XDG_CACHE_HOME": self.folder.name,
            "CUDA_VISIBLE_DEVICES": ""}
        self.environment.pop("COLUMNS", None)

    def run(self, *arguments):
        return subprocess.run(
            [self.attnlab, *arguments], cwd=self.folder.name, env=self.environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=self.limit_s, check=False)

    @functools.cache
    def flags(self, verb=None):
        words = (verb, "--help") if verb else ("--help",)
        said = subprocess.run([self.attnlab, *words], text=True, capture_output=True, check=True)
        return set(re.findall(r"(?m)^ +(?:-\w,)?(--[a-z0-9-]+)", said.stdout))

    @functools.cache
    def verbs(self):
        said = subprocess.run([self.attnlab, "--help"], text=True, capture_output=True, check=True)
        listed = said.stdout.split("Verbs:\n")[1].split("\n\n")[0]
        return set(re.findall(r"(?m)^  (\S+)", listed))

    @functools.cache
    def build_text(self):
        files = [ROOT / "CMakeLists.txt", *(ROOT / "tests").rglob("CMakeLists.txt")]
        return "\n".join(path.read_text() for path in files)

    def files_exist(self, words):
        for before, word in zip(["", *words], words):
            value = word.split("=", 1)[-1]
            if before in WRITES or not value.startswith(TREE) or PLACEHOLDER.search(value):
                continue
            if not any(self.root.glob(value)):
                yield f"there is no {value}"

    def flags_exist(self, words, known, owner):
        for word in words:
            flag = re.match(r"--[a-z0-9-]+", word)
            if flag and flag[0] not in known:
                yield f"{owner} has no {flag[0]}"

    def wrong_attnlab(self, words):
        verb = next((word for word in words if not word.startswith("-")), None)
        if verb is None:
            yield from self.flags_exist(words, self.flags(), "attnlab")
        elif PLACEHOLDER.fullmatch(verb):
            return
        elif verb not in self.verbs():
            yield f"attnlab has no verb {verb}"
        else:
            yield from self.flags_exist(words, self.flags(verb), f"attnlab {verb}")

    def wrong_script(self, script, words):
        path = self.root / script
        if not path.is_file():
            yield f"there is no {script}"
            return
        text = path.read_text()
        sourced = re.findall(r'source "\$\(dirname[^)]*\)/([\w.]+)"', text)
        text += "".join((path.parent / name).read_text() for name in sourced)
        if re.search(r"ARGUMENTS OF ctest", text):
            return
        known = set(re.findall(r"--[a-z0-9-]+", text))
        if re.search(r"ARGUMENTS OF\s+(?:# *)?attnlab", text):
            known |= self.flags("run")
        if re.search(r"ARGUMENTS OF gate", text):
            known |= self.flags("gate")
        yield from self.flags_exist(words, known, script)

    def wrong_command(self, words):
        """Yields what does not exist of a command, sentence by sentence."""
        yield from self.files_exist(words[1:])
        program = words[0].removeprefix("./")
        if re.match(r"\w+=", program):  # it sets a variable of the environment
            yield from self.wrong_command(words[1:])
        elif program in ("attnlab", "build/cpu/attnlab"):
            yield from self.wrong_attnlab(words[1:])
        elif program.startswith(("scripts/", "tests/")):
            yield from self.wrong_script(program, words[1:])
        elif program == "build/cpu/emulated":
            if words[1:] and not PLACEHOLDER.fullmatch(words[1]):
                yield from self.wrong_command(words[1:])
        elif program.startswith("build/cpu/") or program == "attnlab_mutants":
            name = program.removeprefix("build/cpu/")
            if not re.search(rf"\b{re.escape(name)}\b", self.build_text()):
                yield f"the build makes no {name}"
        elif program in ("python3", "/tmp/peer/bin/python"):
            if words[1:] and words[1].startswith(("scripts/", "./scripts/")):
                yield from self.wrong_script(words[1].removeprefix("./"), words[2:])
        elif program in ("cmake", "ctest"):
            presets = re.findall(r'"name": "([\w-]+)"', (ROOT / "CMakePresets.json").read_text())
            for before, word in zip(words, words[1:]):
                if before == "--preset" and word not in presets:
                    yield f"there is no preset {word}"
        elif program not in FOREIGN:
            yield f"there is no program {words[0]}"

    def quick_form(self, command, words):
        """Returns the arguments of attnlab by which the command only reads, or None."""
        if not command.is_block or words[0] not in ("attnlab", "./build/cpu/attnlab"):
            return None
        if re.search(r"[|<>;&~]", command.text) or PLACEHOLDER.search(command.text):
            return None
        if {"--help", "--version", "--dry-run"} & set(words) or words[1:] and words[1] in READING:
            return words[1:]
        # Commands with these flags are skipped: they need what an earlier run left.
        if words[1:] and words[1] == "run" and not {"--resume", "--input"} & set(words):
            return [*words[1:], "--dry-run"]
        return None

    def check_command(self, command):
        text = re.sub(r"\s#\s.*$", "", command.text)
        try:
            words = shlex.split(text if command.is_block else re.sub(r"[\[\]]", "", text))
        except ValueError as error:
            yield f"cannot be read: {error}"
            return
        if not words:
            return
        self.parsed += 1
        wrong = list(self.wrong_command(words))
        yield from wrong
        arguments = None if wrong else self.quick_form(command, words)
        if arguments is None:
            return
        try:
            done = self.run(*arguments)
        except subprocess.TimeoutExpired:
            yield f"takes longer than {self.limit_s} s"
            return
        self.ran += 1
        is_whole = arguments == words[1:]
        if done.returncode == 2 or is_whole and done.returncode != 0:
            yield f"ends with {done.returncode}: {done.stdout.strip().splitlines()[-1:]}"
        elif is_whole and command.output is not None:
            self.compared += 1
            difference = compare(command.output, done.stdout, exact=words[1] == "table")
            if difference:
                yield difference

    def check_paths(self, text):
        for line, words in spans(text):
            if PATH.fullmatch(words) and not PLACEHOLDER.search(words):
                if not any(self.root.glob(words)) and not any(self.root.glob(words + ".*")):
                    yield line, f"there is no {words}"

    def check_links(self, path, text):
        plain = re.sub(r"`[^`]*`", lambda span: re.sub(r"[^\n]", " ", span[0]), text)
        for link in re.finditer(r"\]\(([^)\s]+)\)", plain):
            target, _, anchor = link[1].partition("#")
            if re.match(r"\w+:", target):
                continue
            to = (path.parent / target).resolve() if target else path
            line = text.count("\n", 0, link.start()) + 1
            if not to.exists():
                yield line, f"the link to {target} leads nowhere"
            elif anchor and anchor not in headings(to.read_text()):
                yield line, f"{target or 'this page'} has no heading #{anchor}"

    def check_document(self, path):
        """Yields (line, what) for everything wrong."""
        text = path.read_text(encoding="utf-8")
        yield from self.check_links(path, text)
        yield from self.check_paths(text)
        for command in commands_of(text):
            for what in self.check_command(command):
                yield command.line, f"`{command.text[:60]}`: {what}"


# --- outputs --------------------------------------------------------------------------------------


def words_of(lines, exact):
    """Returns the words of an output; "..." where lines were left out."""
    text = "\n".join(line.rstrip() for line in lines)
    text = re.sub(r"(?m)^\.\.\.$", " \0 ", text)
    machine = r"(Device:|\bon)\s[^\0]{1,100}?\d+\s+threads,\s+[\d.]+\s+[KMG]iB"
    text = re.sub(machine, r"\1 MACHINE", text)
    text = re.sub(r"-{3,}", "---", text)
    if not exact:
        text = re.sub(r"\b[0-9a-f]{12}\b|\d[\d.]*(?:e[+-]?\d+)?", "#", text)
    return text.split()


def compare(pasted, printed, exact):
    """Returns the first difference between a pasted output and what is printed, or None."""
    want, got = words_of(pasted, exact), words_of(printed.splitlines(), exact)
    parts, begin = [[]], 0
    for word in want:
        if word == "\0":
            parts.append([])
        else:
            parts[-1].append(word)
    for index, part in enumerate(parts):
        if index == len(parts) - 1 and index > 0:
            begin = max(begin, len(got) - len(part))
        elif index > 0:
            begin = next((at for at in range(begin, len(got) - len(part) + 1)
                          if got[at:at + len(part)] == part), len(got))
        for offset, word in enumerate(part):
            now = got[begin + offset] if begin + offset < len(got) else "(the end)"
            if now != word:
                around = " ".join(part[max(0, offset - 3):offset + 3])
                return f"prints '{now}' where the page has '{word}' ({around})"
        begin += len(part)
    if begin < len(got):
        return f"prints more than the page has: '{' '.join(got[begin:begin + 6])}'"
    return None


# --- the whole tree, and the checker itself -------------------------------------------------------


def documents():
    """Returns all documents of the tree, also where it was unpacked without git."""
    yield from sorted(ROOT.glob("*.md"))
    for folder in TREE:
        yield from sorted((ROOT / folder).rglob("*.md"))


def check_tree(attnlab):
    checker = Checker(attnlab)
    wrong = 0
    for path in documents():
        for line, what in sorted(checker.check_document(path)):
            print(f"{path.relative_to(ROOT)}:{line}: {what}")
            wrong += 1
    print(f"documents: {checker.parsed} commands parsed, {checker.ran} run, "
          f"{checker.compared} outputs compared, {wrong} wrong")
    return 1 if wrong else 0


MODEL = "./build/cpu/attnlab model --seqlen 64"
DRY = "./build/cpu/attnlab run --kernel v2 --seqlen 64 --dry-run"
# DRY prints this on another machine, with its first lines left out.
OTHER_MACHINE = """...
1 case, 1 point, of which 1 can run on Another CPU @ 2.20GHz, avx2, 9 threads, 1.5 GiB. The largest
needs 1.0 MiB: v2 on fwd/f32/b1/hq8/hkv8/sq64/sk64/d64/none/p0/bshd. Nothing was run."""
TABLE = "./build/cpu/attnlab table results/cpu/quick.jsonl --where kernel=v2"
# Each fault is a document, and a part of what must be said of it; "" for nothing. {model} and
# {table} stand for what these commands print.
FAULTS = (
    ("```\n$ ./build/cpu/attnlab list\n```", ""),
    ("```\n./build/cpu/attnlab run sweeps/quick.json --kernel v2  # on a CPU\n```", ""),
    ("```\n./build/cpu/attnlab run sweeps/quick.json --kernal v2\n```", "run has no --kernal"),
    ("Ask `attnlab verify --kernal v2`.", "verify has no --kernal"),
    ("Ask `attnlab run FILE --dry-run`, `attnlab table FILE --rows seqlen`.", ""),
    ("```\n$ ./build/cpu/attnlab tabel results/cpu/quick.jsonl\n```", "no verb tabel"),
    ("```\n$ ./build/cpu/atnlab list\n```", "makes no atnlab"),
    ("```\n$ atnlab list\n```", "no program atnlab"),
    ("```\n./scripts/dem.sh\n```", "no scripts/dem.sh"),
    ("```\n./scripts/setup.sh --devel\n```", "setup.sh has no --devel"),
    ("```\n./scripts/demo.sh --kernel naive\n```", ""),
    ("```\n./scripts/demo.sh --kernal naive\n```", "has no --kernal"),
    ("```\nctest --preset gpu\n```", "no preset gpu"),
    ("```\n./build/cpu/attnlab run sweeps/lost.json\n```", "no sweeps/lost.json"),
    ("```\n$ ./build/cpu/attnlab table results/cpu/lost.jsonl\n```", "no results/cpu/lost.jsonl"),
    ("```\n./build/cpu/attnlab run sweeps/quick.json --out results/new.jsonl\n```", ""),
    ("```\n$ ./build/cpu/attnlab run --kernel v7 --dry-run\n```", "ends with 2"),
    ("```\n./build/cpu/attnlab run --backend cuda --mask casual\n```", "ends with 2"),
    (f"```\n$ {MODEL}\n{{model}}\n```", ""),
    (f"```\n$ {MODEL}\nfwd/f32\n...\n```", "where the page has 'fwd/f#'"),
    (f"```\n$ {MODEL}\n...\n```", ""),
    (f"```\n$ {MODEL}\n{{model}}\nand more\n```", "where the page has 'and'"),
    (f"```\n$ {TABLE}\n{{table}}\n```", ""),
    (f"```\n$ {TABLE}\n{{table:head_dim:headdim}}\n```", "where the page has 'headdim'"),
    (f"```\n$ {TABLE}\n{{table:2048:2049}}\n```", "where the page has '2049'"),
    (f"```\n$ {TABLE}\n{{table:rows:}}\n```", "where the page has"),
    ("[here](README.md#a-page)\n\n# A page", ""),
    ("See `kernels/api/config.h`, `kernels/api/config`, `kernels/v*/schedule.h`.", ""),
    ("See `kernels/api/lost.h`.", "no kernels/api/lost.h"),
    ("```\n$ ./build/cpu/attnlab list 'x\n```", "cannot be read"),
    (f"```\n$ {DRY}\n{OTHER_MACHINE}\n```", ""),
    (f"```\n$ {DRY}\n{OTHER_MACHINE} And more.\n```", "where the page has"),
    ("[here](lost.md)", "lost.md leads nowhere"),
    ("```\npython3 scripts/gate_series.py . equal=. -- --backend cpu\n```", ""),
    ("```\npython3 scripts/gate_series.py . equal=. -- --backends cpu\n```", "has no --backends"),
    ("[here](#lost)\n\n# A page", "no heading #lost"),
)


def filled(text, printed):
    """Fills a document with what commands print; {table:A:B} has B for the first A."""
    def output(place):
        lines = printed[place[1]]
        if place[2] == "rows":
            return "\n".join(line for number, line in enumerate(lines.split("\n")) if number != 8)
        return lines.replace(place[2], place[3], 1) if place[2] else lines
    return re.sub(r"\{(\w+)(?::(\w+):(\w*))?\}", output, text)


def self_test(attnlab):
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "README.md"
        checker = Checker(attnlab)
        printed = {name: checker.run(*command.split()[1:]).stdout.rstrip("\n")
                   for name, command in (("model", MODEL), ("table", TABLE))}
        cases = [(checker, *fault) for fault in FAULTS]
        cases.append((Checker(attnlab, limit_s=0.0001), FAULTS[0][0], "takes longer than"))
        for judge, text, want in cases:
            page.write_text(filled(text, printed), encoding="utf-8")
            said = "; ".join(what for _, what in judge.check_document(page))
            if bool(said) != bool(want) or want not in said:
                print(f"self-test: {text!r}: want '{want}', got '{said}'")
                wrong += 1
    print(f"documents self-test: {len(cases) - wrong} of {len(cases)} judged right")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attnlab", required=True, help="the program, as built")
    parser.add_argument("--self-test", action="store_true", help="check the checker")
    arguments = parser.parse_args()
    return (self_test if arguments.self_test else check_tree)(arguments.attnlab)


if __name__ == "__main__":
    sys.exit(main())
