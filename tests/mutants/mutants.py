#!/usr/bin/env python3
"""Says whether the verifier catches wrong kernels.

mutants.json lists faults: a name, the kernel, what is wrong, and for each backend the edits that
make it so (in `file` the text `find`, which must be there exactly once, becomes `replace`; a list
stands for lines). On a CPU the build makes of each a program of its own: the verifier, and a
library in which that kernel is wrong. On a GPU one program serves all: it hands the compiler a copy
of the kernels' texts with the edit. One that is a `race` may come to nothing on a real GPU, which
is in time; the emulated one (tests/emulator) must catch it. Some are judged by a test of gpu_test in
the verifier's place: those of `device_reference`, which are wrong judges themselves, those of
`v3_claims`, which leave results right, those of `v3_turns`, which mostly do, those of `v3_e4m3`,
for which the verifier would compile all that v3 has, and those of `quantiser`, which makes inputs.
`run` lets every one be judged and prints who was caught by what.

  mutants.py plan                       the CMake calls that build the programs
  mutants.py apply NAME --output DIR    the mutant's sources, under DIR; with --backend cuda a tree
                                        for attnlab's --kernel-sources
  mutants.py check [...]                whether the edits fit, and compile for a GPU; needs none
  mutants.py run --build DIR [...]      the kill table; build/.../attnlab_mutants calls this

Exit: 0 all are caught, 1 a mutant survived or the unmutated kernels fail, 2 wrong usage or edits,
3 there is no GPU (run) or no NVRTC (check) here.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KERNELS = ("naive", "minimal", "v1", "v2", "v3")

# The reference on a device is no kernel that the verifier judges: the oracle does, in a test of its
# own, which takes a text of this file in place of the one that is built in.
DEVICE_REFERENCE = "device_reference"
DEVICE_REFERENCE_FILE = "reference/device_kernels.cuh"


@dataclasses.dataclass(frozen=True)
class Test:
    """Names a test of gpu_test, in the verifier's place."""

    filter: str
    step: str  # what it judges
    kernel: str = DEVICE_REFERENCE  # whose texts the mutants change
    emulated: bool = False  # a real GPU does not say what it asks


TESTS = {
    DEVICE_REFERENCE: Test("*DeviceReferenceTest.*", "agreement with the oracle"),
    "v3_claims": Test("*V3Claims.*", "moments of claims", kernel="v3", emulated=True),
    "v3_turns": Test("*V3Turns.*", "right sums and the same bits", kernel="v3"),
    "v3_e4m3": Test("*E4m3Forward.*", "agreement with the twin", kernel="v3"),
    "quantiser": Test("*QuantisedOnGpu.*", "agreement with the CPU", kernel="device"),
}
JUDGED = (*KERNELS, *TESTS)
BACKENDS = ("cpu", "cuda")

# The oracle includes these headers: with a fault in one of them it would agree with the kernel.
SHARED_WITH_ORACLE = ("kernels/shared/philox.h", "kernels/shared/convert.h", "kernels/api/")


class Wrong(Exception):
    """Says what a user can mend: a fault in the list, an unknown name, a program not built."""


class Unavailable(Exception):
    """Says why nothing can be said on this machine."""


# The functions below read the list.


@dataclasses.dataclass
class Edit:
    file: str
    find: str
    replace: str


@dataclasses.dataclass
class Mutant:
    name: str
    kernel: str
    what: str
    edits: dict  # backend: [Edit]
    race: bool = False
    first: tuple = ()  # a step of judge.cpp (of a GPU: timed), and a pattern or nothing


def texts_of(judged):
    """Returns the kernel whose texts its mutants change."""
    return TESTS[judged].kernel if judged in TESTS else judged


def lines(text):
    return "\n".join(text) if isinstance(text, list) else text


def load():
    mutants = []
    for entry in json.loads((HERE / "mutants.json").read_text(encoding="utf-8")):
        name = entry.get("name", "?")
        race, first = entry.pop("race", False), entry.pop("first", [])
        if (
            set(entry) != {"name", "kernel", "what", "edits"}
            or not isinstance(race, bool)
            or not (isinstance(first, list) and len(first) <= 2)
        ):
            keys = "name, kernel, what, edits and race, true or false, and first, [step, pattern]"
            raise Wrong(f"mutant {name}: has {sorted(entry)}, not {keys}")
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name == "control":
            raise Wrong(f"mutant {name}: a name is made of small letters, digits and _")
        if name in (other.name for other in mutants):
            raise Wrong(f"mutant {name}: there are two of this name")
        if entry["kernel"] not in JUDGED:
            raise Wrong(f"mutant {name}: no kernel '{entry['kernel']}'")
        edits = {}
        for backend, changes in entry["edits"].items():
            if backend not in BACKENDS:
                raise Wrong(f"mutant {name}: no backend '{backend}'")
            edits[backend] = [
                Edit(change["file"], lines(change["find"]), lines(change["replace"]))
                for change in changes
            ]
        mutants.append(Mutant(name, entry["kernel"], entry["what"], edits, race, tuple(first)))
    return mutants


def of_backend(backend):
    mutants = [mutant for mutant in load() if backend in mutant.edits]
    if not mutants:
        raise Wrong(f"no mutant has edits for {backend} yet")
    return mutants


def find(mutants, name):
    for mutant in mutants:
        if mutant.name == name:
            return mutant
    raise Wrong(f"no mutant '{name}'; attnlab_mutants --list names them")


# The functions below edit sources.


def edited_files(mutant, backend):
    return list(dict.fromkeys(edit.file for edit in mutant.edits[backend]))


def included_headers(path, seen):
    """Returns all headers of the tree that a file includes, directly or not."""
    text = (ROOT / path).read_text(encoding="utf-8")
    for header in re.findall(r'^#include "(kernels/[^"]+)"', text, flags=re.MULTILINE):
        if header not in seen:
            seen.add(header)
            included_headers(header, seen)
    return seen


def units_of(mutant):
    """Returns the sources that see the edits: of the kernel and of what all kernels share."""
    edited = edited_files(mutant, "cpu")
    for file in edited:
        if file.endswith(".h") and file.startswith(SHARED_WITH_ORACLE):
            raise Wrong(f"mutant {mutant.name}: the oracle includes {file}, too")
    units = [file for file in edited if file.endswith(".cpp")]
    for folder in ("kernels/cpu", f"kernels/{mutant.kernel}"):
        for source in sorted((ROOT / folder).glob("*.cpp")):
            path = source.relative_to(ROOT).as_posix()
            if path.endswith("_test.cpp") or path in units:
                continue
            if not included_headers(path, set()).isdisjoint(edited):
                units.append(path)
    return units


def check_compiler_sees(mutant):
    """NVRTC gets what the kernel's .cuh files include, and nothing else."""
    kernel = texts_of(mutant.kernel)
    if kernel == DEVICE_REFERENCE:
        if edited_files(mutant, "cuda") != [DEVICE_REFERENCE_FILE]:
            raise Wrong(f"mutant {mutant.name}: edits more than {DEVICE_REFERENCE_FILE}")
        return
    device_code = (ROOT / "kernels" / kernel).glob("*.cuh")
    seen = {path.relative_to(ROOT).as_posix() for path in device_code}
    for path in sorted(seen):
        included_headers(path, seen)
    for file in edited_files(mutant, "cuda"):
        if file not in seen:
            raise Wrong(f"mutant {mutant.name}: no CUDA kernel of {kernel} includes {file}")


def plan():
    for mutant in load():
        if "cpu" in mutant.edits:
            files, units = " ".join(edited_files(mutant, "cpu")), " ".join(units_of(mutant))
            print(f"attnlab_mutant({mutant.name} EDITED {files} UNITS {units})")


def apply(mutant, backend, output):
    """Writes the files that the mutant changes."""
    texts = {}
    for edit in mutant.edits[backend]:
        text = texts.get(edit.file) or (ROOT / edit.file).read_text(encoding="utf-8")
        count = text.count(edit.find)
        if count != 1:
            raise Wrong(
                f"mutant {mutant.name}: {edit.file} has the text below {count} times, not once; "
                f"mend its 'find' in tests/mutants/mutants.json\n{edit.find}"
            )
        texts[edit.file] = text.replace(edit.find, edit.replace)
    for file, text in texts.items():
        copy = output / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        line = f'#line 1 "{file} (mutant {mutant.name})"\n'
        copy.write_text(line + text, encoding="utf-8")


def copy_kernels(output):
    """Copies all texts that NVRTC may ask for."""
    without_sources = shutil.ignore_patterns("*.cpp")
    shutil.copytree(ROOT / "kernels", output / "kernels", ignore=without_sources)


def write(mutant, backend, output):
    """Writes the mutant: for a CPU its own files, for a GPU a tree for --kernel-sources."""
    if backend == "cuda":
        check_compiler_sees(mutant)
        if texts_of(mutant.kernel) != DEVICE_REFERENCE:
            copy_kernels(output)
    apply(mutant, backend, output)


# The functions below check the list, without a GPU.

# Every mutant is compiled for these, and for the passes and types whose units see its edits.
COMPILED = ("--arch", "sm_90a", "--head-dim", "64")
PASSES = {"forward": "fwd", "backward": "bwd", "dq_": "bwd"}  # by how a file's name begins


def flags_for_edits(mutant):
    """Returns the flags of `attnlab compile` for units that see the mutant's edits."""
    names = [pathlib.Path(edit.file).name for edit in mutant.edits["cuda"]]
    passes = {
        next((PASSES[start] for start in PASSES if name.startswith(start)), None) for name in names
    }
    flags = ["--dtype", "e4m3" if mutant.kernel == "v3_e4m3" else "f32,f16"]
    return flags + (["--pass", *passes] if len(passes) == 1 and None not in passes else [])


def check_compiles(mutant, kernels, attnlab, cache):
    command = [attnlab, "compile", "--kernel", texts_of(mutant.kernel)]
    command += ["--kernel-sources", kernels, *COMPILED, *flags_for_edits(mutant)]
    command += ["--cache-dir", cache, "--no-progress", "--format", "json"]
    compiled = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if compiled.returncode == 3:
        raise Unavailable(compiled.stderr.strip().removeprefix("attnlab: "))
    if compiled.returncode != 0:
        errors = [entry["error"] for entry in json.loads(compiled.stdout or "[]")]
        said = "\n".join(dict.fromkeys(errors)) or compiled.stderr
        raise Wrong(f"mutant {mutant.name} does not compile, which proves nothing\n{said}")
    units = {entry["unit"] for entry in json.loads(compiled.stdout)}
    if not units:
        raise Wrong(f"mutant {mutant.name}: {mutant.kernel} has nothing to compile")
    return len(units)


def check(arguments):
    mutants = of_backend(arguments.backend)
    with tempfile.TemporaryDirectory() as folder:
        outputs = {mutant.name: pathlib.Path(folder) / mutant.name for mutant in mutants}
        for mutant in mutants:  # all of them before the first is compiled, which takes long
            write(mutant, arguments.backend, outputs[mutant.name])
        if arguments.backend == "cuda" and arguments.attnlab:
            # Mutants of the reference are compiled where they are judged: no verb compiles them.
            mutants = [mutant for mutant in mutants if texts_of(mutant.kernel) in KERNELS]

            def compiled(mutant):
                cache = arguments.cache or folder
                return check_compiles(mutant, outputs[mutant.name], arguments.attnlab, cache)

            with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
                for mutant, units in zip(mutants, pool.map(compiled, mutants)):
                    print(f"{mutant.name:<32} {mutant.kernel:<16} {units} units compile")
    print(f"{len(outputs)} mutants: every edit fits its source")
    return 0


# The functions below run programs, which say when a check begins and ends (judge.cpp).


@dataclasses.dataclass
class Caught:
    step: str = ""
    check: str = ""  # its name
    by: str = ""  # what in it: "oracle: dq", "guards", ..., "crash", "hang"
    message: str = ""


@dataclasses.dataclass
class Judged:
    caught: list  # of Caught, one a step
    passed: int = 0
    skipped: int = 0
    seconds: float = 0.0


# A deadlocked program takes no processor time, one that goes in circles no end of it.
IDLE_LIMIT_S, IDLE_CPU_S = 8.0, 0.05
CHECK_LIMIT_S = 120.0


def cpu_seconds(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:  # it has just ended
        return 0.0
    fields = stat.rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Watch:
    """Kills a program that hangs."""

    def __init__(self, process):
        self.process, self.why = process, ""
        self.begin()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def begin(self):
        """A check begins."""
        self.began, self.busy = time.monotonic(), (time.monotonic(), 0.0)

    def run(self):
        while not self.ended.wait(0.25):
            now, used = time.monotonic(), cpu_seconds(self.process.pid)
            if used > self.busy[1] + IDLE_CPU_S:
                self.busy = (now, used)
            if now - self.busy[0] > IDLE_LIMIT_S:
                self.why = f"nothing moves for {IDLE_LIMIT_S:.0f} s"
            elif now - self.began > CHECK_LIMIT_S:
                self.why = f"one check takes more than {CHECK_LIMIT_S:.0f} s"
            if self.why:
                self.process.kill()
                return

    def end(self):
        self.ended.set()
        self.thread.join()


def how_it_died(process, stderr):
    """Returns the signal and the program's last words."""
    name = signal.Signals(-process.returncode).name if process.returncode < 0 else "exit"
    said = [line.strip().removeprefix("what():").strip() for line in stderr.splitlines() if line]
    return f"{name}: {said[-1]}" if said else name


def judge(program, kernel, backend, every_step, first=(), environment=None):
    """Runs one program, which begins with the step `first` where it need not make all of them."""
    if not program.is_file():
        raise Wrong(f"{program} is not built: build the target mutant_{program.name}, or all")
    command = [program, kernel, backend]
    if every_step:
        command += ["all"]
    elif first:
        command += ["first", *first]
    judged, under_way, start = Judged([]), None, time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    watch = Watch(process)
    stderr = []
    reader = threading.Thread(target=lambda: stderr.append(process.stderr.read()))
    reader.start()
    for line in process.stdout:
        kind, step, name, *rest = line.rstrip("\n").split("\t")
        if kind == "begin":
            under_way = Caught(step, name)
            watch.begin()
            continue
        under_way = None
        outcome, by, _, message = rest
        if outcome == "failed":
            judged.caught.append(Caught(step, name, by, message))
        judged.passed += outcome == "passed"
        judged.skipped += outcome == "skipped"
    process.wait()
    watch.end()
    reader.join()
    judged.seconds = time.monotonic() - start
    if process.returncode == 3:
        raise Unavailable(stderr[0].strip().removeprefix("judge: "))
    if process.returncode != 0 and (under_way or not judged.caught):  # caught, it may hang
        if under_way is None:
            how = how_it_died(process, stderr[0])
            raise Wrong(f"{program.name} ended outside of a check: {how}")
        under_way.by = "hang" if watch.why else "crash"
        under_way.message = watch.why or how_it_died(process, stderr[0])
        judged.caught.append(under_way)
    return judged


# A test of GoogleTest says this of an expectation that it found wrong.
EXPECTATION = re.compile(
    r": Failure\n(?:The difference between |Expected equality of these values:\s+|Expected: \("
    r"|Value of: )"
    r"\*?(?:\w+(?:\[i\])?\.)?(?P<what>\w+).*?(?=\n\n|: Failure\n|\Z)",
    flags=re.DOTALL,
)

# The emulated GPU ends a launch so that has a race, or in which all wait for ever.
FAILED_LAUNCH = re.compile(r"CUDA_ERROR_LAUNCH_FAILED \(719\)[^\"\n]*")


def judge_by(test, program, environment):
    """Runs a test of gpu_test."""
    if not program.is_file():
        raise Wrong(f"{program} is not built: build the target gpu_test, or all")
    command = [program, f"--gtest_filter={test.filter}", "--gtest_fail_fast"]
    judged, start = Judged([]), time.monotonic()
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    judged.seconds = time.monotonic() - start
    judged.passed = done.stdout.count("[       OK ]")
    if done.returncode == 0:
        skipped = re.search(r": Skipped\n(.+)", done.stdout)
        if skipped:
            raise Unavailable(skipped[1])
        return judged
    # Only a comparison that came out wrong catches, or a launch that failed: not a text that does
    # not compile.
    case = re.search(r"^\[  FAILED  \] \S+/(\w+)", done.stdout, flags=re.MULTILINE)
    wrong, lost = EXPECTATION.search(done.stdout), FAILED_LAUNCH.search(done.stdout)
    if case is None or (wrong is None and lost is None):
        raise Wrong(f"the test {test.filter} compared nothing\n{done.stdout[-3000:]}")
    if wrong is None:
        judged.caught.append(Caught(test.step, case[1], "device lost", lost[0]))
        return judged
    traced = re.search(r"Google Test trace:\n[^\n]*: (\w+)$", wrong[0], flags=re.MULTILINE)
    by = f"{wrong['what']} of {traced[1]}" if traced else wrong["what"]
    judged.caught.append(Caught(test.step, case[1], by, wrong[0]))
    return judged


# The functions below print.

COLUMNS = "{:<32} {:<16} {:>5}  {}"


def print_indented(sentence):
    print(textwrap.fill(sentence, 100, initial_indent="    ", subsequent_indent="    "))


def print_row(*cells):
    row = COLUMNS.format(*cells)
    print(textwrap.fill(row, 100, subsequent_indent="    ", break_on_hyphens=False))


def print_head():
    print_row("mutant", "kernel", "s", "caught by, in which check first")


def text(caught, kernel):
    if caught is None:
        return "NOT CAUGHT"
    return f"{caught.by} in {caught.check.removeprefix(kernel + '/')}"


def print_mutant(mutant, backend, judged):
    seconds = f"{judged.seconds:.1f}"
    files = ", ".join(edited_files(mutant, backend))
    first, *others = judged.caught or [None]
    print_row(mutant.name, mutant.kernel, seconds, text(first, mutant.kernel))
    print_indented(f"{files}: {mutant.what}")
    if first and first.by in ("crash", "hang", "device lost"):
        print_indented(first.message)
    for other in others:
        print(f"    in {other.step}: {text(other, mutant.kernel)}")
    sys.stdout.flush()


def print_control(kernel, judged):
    what = f"{judged.passed} checks pass"
    if judged.caught:
        what = f"FAILS: {text(judged.caught[0], kernel)}"
    print_row("(control: no fault)", kernel, f"{judged.seconds:.1f}", what)
    for caught in judged.caught:
        print_indented(caught.message)
    sys.stdout.flush()


def print_summary(results, mutants, backend, every_step):
    """Returns who should have been caught and was not."""
    steps = {}
    for judged in results.values():
        for caught in judged.caught:
            steps.setdefault(caught.step, []).append(caught.by)
    survivors = [mutant for mutant, judged in results.items() if not judged.caught]
    killed = len(results) - len(survivors)
    share = 100.0 * killed / len(results)
    print(f"\n{killed} of {len(results)} mutants are caught ({share:.0f} %)")
    for step, by in steps.items():
        kinds = ", ".join(f"{kind} {by.count(kind)}" for kind in sorted(set(by)))
        head = f"  {'caught' if every_step else 'first caught'} in {step}: "
        print(textwrap.fill(f"{head}{len(by)} ({kinds})", 100, subsequent_indent="    "))
    may_survive = backend == "cuda" and "ATTNLAB_EMULATED" not in os.environ
    wrongly = []
    for name in survivors:
        only = f"attnlab_mutants --backend {backend} --only {name}"
        if may_survive and find(mutants, name).race:
            print(f"RACE: {name}: this GPU wins it; the emulated one must not: emulated {only}")
        else:
            print(f"SURVIVED: {name}: the verifier lacks a check. {only}")
            wrongly.append(name)
    return wrongly


def judge_mutant(mutant, kernel, arguments, folder):
    """Judges the kernel without a fault where the mutant is None."""
    programs = pathlib.Path(arguments.build) / "programs"
    name = mutant.name if mutant else "control"
    if arguments.backend == "cpu":
        first = mutant.first if mutant else ()
        return judge(programs / name, kernel, "cpu", arguments.every_step, first)
    kernels = pathlib.Path(folder) / f"{kernel}-{name}"
    if mutant:
        write(mutant, "cuda", kernels)
    elif texts_of(kernel) != DEVICE_REFERENCE:
        copy_kernels(kernels)
    if texts_of(kernel) == DEVICE_REFERENCE:
        texts = {"ATTNLAB_TEST_DEVICE_REFERENCE": str(kernels / DEVICE_REFERENCE_FILE)}
    else:
        texts = {"ATTNLAB_KERNEL_SOURCES": str(kernels)}
    if kernel in TESTS:
        return judge_by(
            TESTS[kernel], pathlib.Path(arguments.gpu_test), os.environ | (texts if mutant else {})
        )
    cache = {"XDG_CACHE_HOME": str(pathlib.Path(arguments.build).resolve() / "cache")}
    environment = os.environ | texts | cache
    first = mutant.first if mutant and mutant.first[:1] == ("timed",) else ()
    judged = judge(programs / "control", kernel, "cuda", arguments.every_step, first, environment)
    for caught in judged.caught:
        if mutant and "does not compile" in caught.message:
            raise Wrong(f"mutant {name}: {caught.message}")
    return judged


def run(arguments):
    mutants = of_backend(arguments.backend)
    if arguments.only:
        mutants = [find(mutants, arguments.only)]
    if arguments.kernel:
        mutants = [mutant for mutant in mutants if mutant.kernel == arguments.kernel]
    if arguments.list:
        for mutant in mutants:
            print(f"{mutant.name:<32} {mutant.kernel:<16} {mutant.what}")
        return 0
    if arguments.backend == "cuda" and "ATTNLAB_EMULATED" not in os.environ:
        mutants = [m for m in mutants if m.kernel not in TESTS or not TESTS[m.kernel].emulated]
        if not mutants:
            raise Unavailable("only the emulated GPU (build/cpu/emulated) can judge them")

    print_head()
    results, controls_fail = {}, False
    with (
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool,
    ):

        def judged(mutant, kernel):
            return judge_mutant(mutant, kernel, arguments, folder)

        kernels = [kernel for kernel in JUDGED if any(m.kernel == kernel for m in mutants)]
        controls = pool.map(lambda kernel: judged(None, kernel), kernels)
        judgements = pool.map(lambda mutant: judged(mutant, mutant.kernel), mutants)
        for kernel, result in zip(kernels, controls):
            print_control(kernel, result)
            controls_fail |= bool(result.caught) or result.passed == 0
        if controls_fail:
            pool.shutdown(cancel_futures=True)
            print("\nThe kernels fail without a fault: nothing can be said of mutants.")
            return 1
        for mutant, result in zip(mutants, judgements):
            print_mutant(mutant, arguments.backend, result)
            results[mutant.name] = result
    wrongly = print_summary(results, mutants, arguments.backend, arguments.every_step)
    return 1 if wrongly else 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("plan", help="print the CMake calls that build the programs")
    applying = verbs.add_parser("apply", help="write a mutant's sources")
    applying.add_argument("name")
    applying.add_argument("--output", metavar="DIR", required=True)
    checking = verbs.add_parser("check", help="whether the edits fit the sources, and compile")
    checking.add_argument("--attnlab", metavar="FILE", help="compile those of cuda with this")
    checking.add_argument("--cache", metavar="DIR", help="where compiled kernels stay")
    running = verbs.add_parser(
        "run",
        prog="attnlab_mutants",
        help="print the kill table",
        description="Runs the verifier on every wrong kernel and prints which check caught it.",
        epilog="examples:\n"
        "  attnlab_mutants                           the kill table\n"
        "  attnlab_mutants --list\n"
        "  attnlab_mutants --backend cuda            on a GPU\n"
        "  attnlab_mutants --only mask_off_by_one --every-step",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    running.add_argument("--build", metavar="DIR", required=True, help=argparse.SUPPRESS)
    running.add_argument("--gpu-test", metavar="FILE", required=True, help=argparse.SUPPRESS)
    running.add_argument("--list", action="store_true", help="name the mutants and run none")
    running.add_argument("--only", metavar="NAME", help="this mutant alone")
    running.add_argument("--kernel", choices=JUDGED, help="those of this kernel alone")
    running.add_argument(
        "--every-step",
        action="store_true",
        help="do not stop at the first failure: make every step (short shapes, random problems, "
        "properties, repeats, long and far shapes, timed points), each to its own first failure",
    )
    for verb in (checking, running):
        verb.add_argument(
            "--jobs",
            metavar="N",
            type=int,
            default=min(8, max(2, (os.cpu_count() or 1) * 3 // 8)),  # each has four threads
            help="programs side by side (default: %(default)s)",
        )
    for verb in (applying, checking, running):
        verb.add_argument("--backend", choices=BACKENDS, default="cpu", help="(default: cpu)")
    arguments = parser.parse_args()
    try:
        if arguments.verb == "plan":
            plan()
            return 0
        if arguments.verb == "apply":
            mutant = find(of_backend(arguments.backend), arguments.name)
            write(mutant, arguments.backend, pathlib.Path(arguments.output))
            return 0
        return check(arguments) if arguments.verb == "check" else run(arguments)
    except Wrong as wrong:
        print(f"mutants: {wrong}", file=sys.stderr)
        return 2
    except Unavailable as unavailable:
        print(f"skipped: {unavailable}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
