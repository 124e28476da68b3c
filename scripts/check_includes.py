#!/usr/bin/env python3
"""Checks who may include what: the rules that keep the folders apart (docs/architecture.md).

  scripts/check_includes.py                 check the tree
  scripts/check_includes.py --compiler g++  also compile every device header without std headers
  scripts/check_includes.py --self-test     require that wrong snippets are caught

Prints "file:line: what (rule)" for everything wrong and then exits with 1. The rules:

  1  kernels/shared, ptx, device, schedule.h and *.cuh compile without std headers (NVRTC has none)
     and include only one another. kernels/api includes std, api and shared.
  2  A generation includes api, shared, ptx, device, cuda, cpu and itself: no sibling, no harness,
     no reference. Only kernels/builtin.cpp includes generations.
  3  reference includes api, shared/philox.h and shared/convert.h, and calls none of the mask
     functions that come with api: an oracle that shares code with what it judges shares its bugs.
  4  harness includes kernels/api and reference. tensors/inputs also takes philox.h and convert.h:
     it draws numbers and rounds them, as the reference does.
  5  A room of the harness includes itself and the rooms below it, in the order of ROOMS; only tests
     include harness/testing. Nothing outside of tests includes one another in a circle, where a
     header and the source of its name count as one file. What reads records reads nothing else.
  6  libcuda, NVRTC, cuBLAS, CUPTI and NVML are known to kernels/cuda alone.
  7  Each package has one owner.

Tests beside the code (*_test.cpp, and test_*.h that they share) obey their folder's rule and may
use std, gtest, fmt, harness/testing, tests/paths.h and tests/test_folder.h on top; tests/ may
include everything. A pattern of this script that matches no file of the tree is an error, too: it
would guard nothing.
"""

import argparse
import fnmatch
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("kernels", "reference", "harness", "tests")
SUFFIXES = (".h", ".cuh", ".cpp", ".cu")
TEST_FILES = ("*_test.cpp", "*/test_*.h")
SUPPORT = ("api", "shared", "ptx", "device", "cuda", "cpu")  # of kernels/; the rest are generations


# The harness's rooms are listed from below.
ROOMS = ("base", "plan", "tensors", "record", "measure", "run", "report", "session", "verify", "cli")


class Package(NamedTuple):
    name: str
    headers: tuple  # patterns of the header's name
    owners: tuple  # patterns of the files that may include it
    rule: int = 7


PACKAGES = (
    Package("CLI11", ("CLI/*",), ("harness/cli/*",)),
    Package("nlohmann/json", ("nlohmann/*",), ("harness/*",)),
    Package("fmt", ("fmt/*",), ("harness/*", "*_test.cpp")),
    Package("Google Benchmark", ("benchmark/*",), ("harness/measure/bench.cpp",)),
    Package("Eigen", ("Eigen/*", "unsupported/Eigen/*"), ("reference/*",)),
    Package("Highway", ("hwy/*",), ("kernels/cpu/*",)),
    Package("GoogleTest", ("gtest/*", "gmock/*"), TEST_FILES),
    Package("valijson", ("valijson/*",), ("tests/*",)),
    Package("Boost.Context", ("boost/context/*",), ("tests/emulator/*",)),
    Package("CUPTI", ("cupti*",), ("kernels/cuda/*",), rule=6),
    Package("NVML", ("nvml.h",), ("kernels/cuda/nvml*",), rule=6),
    Package("NVTX", ("nvtx3/*", "nvToolsExt*"), ("kernels/cuda/nvtx*",)),
    Package(
        "CUDA", ("cuda*", "nvrtc.h", "cublas*", "vector_types.h"), ("kernels/cuda/*",), rule=6
    ),
    # The build makes these two.
    Package("the build's facts", ("build_info_values.h",), ("harness/base/build_info.cpp",)),
    Package("the records' schema", ("record_schema.h",), ("harness/record/record_values.cpp",)),
)

# These files make tables of records; they may include nothing that runs or measures.
RECORD_READERS = tuple(
    f"harness/report/{name}*"
    for name in (
        "comparison",
        "doubts",
        "evidence_report",
        "field",
        "pairing",
        "pivot",
        "table",
        "time_change",
        "tuning_report",
        "value_changes",
    )
)
RECORDS = ("harness/base/*", "harness/record/*", "harness/report/*", "harness/plan/builtin_axes.h")

# These functions reach reference through api headers and share the kernels' idea of a mask.
SHARED_MASK_LOGIC = re.compile(
    r"\b(make_mask|make_block_pattern|view_block_pattern|visible_blocks|visible_pairs|quantise)\s*\("
)


class Zone(NamedTuple):
    """Says what one kind of file may include besides packages, which their owners decide."""

    rule: int
    project: tuple  # patterns
    std: bool = True  # std headers, and names of std
    system: bool = True  # the operating system's and the compiler's headers


class Finding(NamedTuple):
    line: int
    what: str
    rule: str


def generation_of(path):
    """Returns 'v2' for kernels/v2/cpu.cpp; None for files of no generation."""
    parts = path.split("/")
    if len(parts) > 2 and parts[0] == "kernels" and parts[1] not in SUPPORT:
        return parts[1]
    return None


def kernels(*folders):
    return tuple(f"kernels/{folder}/*" for folder in folders)


def device_zone(path):
    """Returns the zone of code that NVRTC compiles, or None."""
    own = generation_of(path)
    if path.endswith("/schedule.h"):  # the CPU side uses it too: nothing of ptx
        return Zone(1, kernels("shared"), std=False, system=False)
    if path.endswith(".cuh") and own:
        project = kernels("shared", "ptx", "device")
        project += (f"kernels/{own}/*.cuh", f"kernels/{own}/schedule.h")
        return Zone(1, project, std=False, system=False)
    if path in ("reference/device_arguments.h", "reference/device_kernels.cuh"):
        project = ("kernels/shared/philox.h", "kernels/shared/convert.h")
        return Zone(3, project + ("reference/device_arguments.h",), std=False, system=False)
    for folder, visible in (
        ("shared", ("shared",)),
        ("ptx", ("shared", "ptx")),
        ("device", ("shared", "ptx", "device")),
    ):
        if path.startswith(f"kernels/{folder}/"):
            return Zone(1, kernels(*visible), std=False, system=False)
    return None


def room_of(path):
    """Returns 'plan' for harness/plan/sweep.h; None outside of the harness."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "harness" else None


def harness_zone(path):
    room = room_of(path)
    outside = ("reference/*", "kernels/api/*")
    if fnmatch.fnmatch(path, "harness/tensors/inputs*"):
        outside += ("kernels/shared/philox.h", "kernels/shared/convert.h")
    if path.endswith("_test.cpp"):
        outside += ("harness/testing/*",)
    if room == "testing":
        return Zone(5, outside + ("harness/*",))
    if room not in ROOMS:
        return Zone(5, ())
    if matches(path, RECORD_READERS) and not path.endswith("_test.cpp"):
        return Zone(5, RECORDS)
    below = ROOMS[: ROOMS.index(room) + 1]
    return Zone(5, outside + tuple(f"harness/{name}/*" for name in below))


def zone_of(path):
    if path.startswith("tests/"):
        return Zone(1, ("*",))
    if zone := device_zone(path):
        return zone._replace(std=True, system=True) if path.endswith("_test.cpp") else zone
    if own := generation_of(path):
        return Zone(2, kernels(*SUPPORT, own))
    if path.startswith("kernels/api/"):
        return Zone(1, kernels("api", "shared"), system=path.endswith("_test.cpp"))
    if path.startswith("kernels/cpu/"):
        return Zone(2, kernels("api", "shared", "cpu"))
    if path.startswith("kernels/cuda/"):
        return Zone(2, kernels("api", "shared", "cuda"))
    if path == "kernels/builtin.cpp":
        return Zone(2, ("kernels/*",))
    if path.startswith("kernels/"):
        return Zone(2, kernels(*SUPPORT))
    if path.startswith("reference/"):
        allowed = ("reference/*", "kernels/api/*", "kernels/shared/philox.h")
        return Zone(3, allowed + ("kernels/shared/convert.h",))
    return harness_zone(path)


def matches(name, patterns):
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def strip_comments(text):
    """Blanks comments and the insides of strings, and keeps the lines."""

    def blank(match):
        token = match.group(0)
        if token.startswith(('"', "'")):
            return token[0] + token[-1]
        return "\n" * token.count("\n")

    pattern = r'R"\(.*?\)"|//[^\n]*|/\*.*?\*/|'
    pattern += r'"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, blank, text, flags=re.DOTALL)


def include_problem(path, zone, header, quoted):
    """Says why this file may not include this header: (what, rule), or None."""
    for package in PACKAGES:
        if matches(header, package.headers):
            if path.startswith("tests/") or matches(path, package.owners):
                return None
            owners = ", ".join(package.owners)
            what = f"includes {package.name}'s {header}, which belongs to {owners}"
            return what, f"rule {package.rule}"
    if header in ("tests/paths.h", "tests/test_folder.h") and matches(path, TEST_FILES):
        return None
    if header.split("/")[0] in FOLDERS or quoted:
        if header.split("/")[0] not in FOLDERS and not matches(header, zone.project):
            return f'includes "{header}": write it from the project root', "includes"
        if matches(header, zone.project):
            return None
        other = generation_of(header)
        if other and generation_of(path):
            return f"includes {header} of the sibling generation {other}", "rule 2"
        if other:
            return f"includes {header}: only kernels/builtin.cpp includes generations", "rule 2"
        rule = 4 if path.startswith("harness/") and not header.startswith("harness/") else zone.rule
        return f"includes {header}: allowed are {', '.join(zone.project)}", f"rule {rule}"
    if re.fullmatch(r"[a-z_0-9]+", header):
        if not zone.std:
            return f"includes <{header}>: device code names nothing of std", "rule 1"
        return None
    if re.fullmatch(r"[a-z_0-9]+\.h|(sys|linux|asm|net)/[a-z_0-9]+\.h", header):
        return None if zone.system else (f"includes <{header}>: not a std header", "rule 1")
    return f"includes <{header}> of a package that has no owner yet", "rule 7"


def begins_well(path, code):
    first = next((line.strip() for line in code.splitlines() if line.strip()), "")
    if path.startswith("kernels/cpu/") and "HWY_TARGET_TOGGLE" in code:
        return True  # Highway includes such a header once for every instruction set
    return first == "#pragma once"


def check_text(path, text):
    """Returns all findings in one file, given its path from the project root."""
    findings = []
    zone = zone_of(path)
    code = strip_comments(text)
    if path.endswith((".h", ".cuh")) and not begins_well(path, code):
        findings.append(Finding(1, "does not start with #pragma once", "headers"))
    originals = text.splitlines()
    for number, line in enumerate(code.splitlines(), start=1):
        if re.match(r"\s*#\s*include\b", line):
            found = re.search(r'#\s*include\s*(?:<([^>]+)>|"([^"]+)")', originals[number - 1])
            if not found:
                continue
            header, quoted = found.group(1) or found.group(2), found.group(2) is not None
            if problem := include_problem(path, zone, header, quoted):
                findings.append(Finding(number, *problem))
        elif not zone.std and re.search(r"\bstd\s*::|\bnamespace\s+std\b", line):
            findings.append(Finding(number, "names std in device code", "rule 1"))
        elif zone.rule == 3 and not path.endswith("_test.cpp"):
            if used := SHARED_MASK_LOGIC.search(line):
                what = f"calls {used.group(1)}() of kernels/api"
                findings.append(Finding(number, what, "rule 3"))
    return findings


def tree_files():
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in SUFFIXES and file.is_file():
                yield file.relative_to(ROOT).as_posix()


def compiles_alone(compiler, path):
    """Compiles a header alone as plain C++20 without system headers; returns the error or None."""
    command = [compiler, "-x", "c++", "-std=c++20", "-ffreestanding", "-nostdinc", "-nostdinc++"]
    command += ["-fsyntax-only", "-I", str(ROOT), "-include", str(ROOT / path), "/dev/null"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode == 0:
        return None
    complaint = result.stderr.strip().splitlines() or ["no message"]
    return next((line for line in complaint if "error" in line), complaint[0])


def host_device_headers(files):
    """Yields headers for plain C++, too: kernels/ptx and *.cuh may hold what only a GPU knows."""
    gpu_only = ("kernels/ptx/", "kernels/device/")
    for path in files:
        if device_zone(path) and path.endswith(".h") and not path.startswith(gpu_only):
            yield path


def includes_of(text):
    """Yields the headers of the tree that it includes, in order."""
    code = strip_comments(text).splitlines()
    for line, original in zip(code, text.splitlines()):
        if re.match(r"\s*#\s*include\b", line):
            if found := re.search(r'#\s*include\s*"([^"]+)"', original):
                yield found.group(1)


def unit_of(path):
    """Returns the unit that header and source of one name make: 'harness/run/run'."""
    return path[: path.rindex(".")]


def circles(units):
    """Finds units that include one another in a circle, each once; {unit: included units}."""
    found, state = [], {}  # of a unit: None before, "open" on the way, "done"

    def visit(unit, way):
        state[unit] = "open"
        for other in sorted(units.get(unit, ())):
            if state.get(other) == "open":
                found.append(way[way.index(other) :] + [other])
            elif other not in state:
                visit(other, way + [other])
        state[unit] = "done"

    for unit in sorted(units):
        if unit not in state:
            visit(unit, [unit])
    return found


def check_circles(texts):
    units = {}
    for path, text in texts.items():
        if not path.startswith("tests/") and not path.endswith("_test.cpp"):
            others = {unit_of(header) for header in includes_of(text) if header in texts}
            units.setdefault(unit_of(path), set()).update(others - {unit_of(path)})
    return [f"a circle of includes: {' -> '.join(circle)} (rule 5)" for circle in circles(units)]


def check_names(paths):
    """Checks that no room has the name of a file in another, and that ROOMS lacks none."""
    findings = []
    for path in paths:
        room, name = room_of(path), unit_of(path.split("/")[-1])
        if path.startswith("harness/") and room not in ROOMS + ("testing",):
            findings.append(f"{path}: lies in none of the rooms {', '.join(ROOMS)} (rule 5)")
        elif room and name in ROOMS and name != room:
            findings.append(f"{path}: has the name of the room harness/{name} (rule 5)")
    return findings


def check_patterns(paths):
    """Checks that each pattern of this script matches a file."""
    patterns = set(RECORD_READERS) | set(RECORDS)
    for package in PACKAGES:
        patterns.update(package.owners)
    for path in paths:
        patterns.update(zone_of(path).project)
    return [
        f"scripts/check_includes.py: the pattern '{pattern}' matches no file"
        for pattern in sorted(patterns)
        if not any(fnmatch.fnmatch(path, pattern) for path in paths)
    ]


def check_tree(compiler):
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in tree_files()}
    findings = [
        f"{path}:{finding.line}: {finding.what} ({finding.rule})"
        for path, text in texts.items()
        for finding in check_text(path, text)
    ]
    findings += check_circles(texts) + check_names(texts) + check_patterns(texts)
    compiled = list(host_device_headers(texts)) if compiler else []
    for path in compiled:
        if complaint := compiles_alone(compiler, path):
            findings.append(f"{path}:1: does not compile without std headers: {complaint} (rule 1)")
    print(*findings, sep="\n", end="\n" if findings else "")
    what = f"{len(texts)} files"
    if compiler:
        what += f", {len(compiled)} headers compiled without std"
    print(f"include rules: {what}, {len(findings)} findings")
    return 1 if findings or not texts else 0


ONCE = "#pragma once\n"

# path, text, what must be said ("" for a file that is fine)
SNIPPETS = (
    ("kernels/shared/a.h", ONCE + '#include "kernels/shared/base.h"\n', ""),
    ("kernels/shared/a.h", ONCE + "// std::min is spelt out\nint x;\n", ""),
    ("kernels/shared/a.h", ONCE + "#include <cstdint>\n", "names nothing of std"),
    ("kernels/shared/a.h", ONCE + "int x = std::min(1, 2);\n", "names std"),
    ("kernels/shared/a.h", ONCE + "using namespace std;\n", "names std"),
    ("kernels/shared/a.h", ONCE + "#include <math.h>\n", "not a std header"),
    ("kernels/shared/a.h", ONCE + '#include "kernels/api/problem.h"\n', "(rule 1)"),
    ("kernels/shared/a.h", ONCE + '#include "kernels/ptx/mma.h"\n', "(rule 1)"),
    ("kernels/shared/a.h", '#include "kernels/shared/base.h"\n#pragma once\n', "#pragma once"),
    ("kernels/shared/a.h", "/* why */\n// more\n#pragma once\n", ""),
    ("kernels/shared/a_test.cpp", "#include <gtest/gtest.h>\n#include <vector>\n", ""),
    ("kernels/shared/a_test.cpp", '#include "kernels/api/problem.h"\n', "(rule 1)"),
    ("kernels/ptx/a.h", ONCE + '#include "kernels/device/load.h"\n', "(rule 1)"),
    ("kernels/device/a.h", ONCE + '#include "kernels/ptx/mma.h"\n', ""),
    ("kernels/device/a.h", ONCE + "#include <cuda_fp16.h>\n", "CUDA's"),
    ("kernels/v2/schedule.h", ONCE + '#include "kernels/shared/layout.h"\n', ""),
    ("kernels/v2/schedule.h", ONCE + '#include "kernels/cpu/tile.h"\n', "(rule 1)"),
    ("kernels/v2/schedule.h", ONCE + "#include <algorithm>\n", "names nothing of std"),
    ("kernels/v2/schedule.h", ONCE + '#include "kernels/v1/schedule.h"\n', "sibling"),
    ("kernels/v2/forward.cuh", ONCE + '#include "kernels/v2/schedule.h"\n', ""),
    ("kernels/v2/forward.cuh", ONCE + '#include "kernels/cuda/jit.h"\n', "(rule 1)"),
    ("kernels/v2/cpu.cpp", '#include "kernels/cpu/tile.h"\n#include <vector>\n', ""),
    ("kernels/v2/cpu.cpp", '#include "kernels/naive/cpu.h"\n', "sibling"),
    ("kernels/v2/cpu.cpp", '#  include   "kernels/naive/cpu.h"\n', "sibling"),
    ("kernels/v2/cpu.cpp", '/* #include "kernels/naive/cpu.h" */\n', ""),
    ("kernels/v2/cpu.cpp", '#include "harness/run/run.h"\n', "(rule 2)"),
    ("kernels/v2/cpu.cpp", '#include "schedule.h"\n', "project root"),
    ("kernels/v2/cpu.cpp", '#include "hwy/highway.h"\n', "Highway"),
    ("kernels/v2/cpu.cpp", "#include <gtest/gtest.h>\n", "GoogleTest"),
    ("harness/plan/sweep.cpp", "#include <valijson/schema.hpp>\n", "valijson"),
    ("tests/emulator/machine.cpp", "#include <boost/context/fiber.hpp>\n", ""),
    ("kernels/cpu/roles.cpp", "#include <boost/context/fiber.hpp>\n", "Boost.Context"),
    ("kernels/v2/cpu_test.cpp", '#include "reference/oracle.h"\n', "(rule 2)"),
    ("kernels/v2/cpu_test.cpp", '#include "tests/paths.h"\n', ""),
    ("harness/testing/test_records.h", '#pragma once\n#include "tests/paths.h"\n', ""),
    ("harness/testing/fake.h", '#pragma once\n#include "tests/paths.h"\n', "(rule 4)"),
    ("kernels/v2/cpu.cpp", '#include "tests/paths.h"\n', "(rule 2)"),
    ("kernels/cpu/tile.cpp", '#include "hwy/highway.h"\n#include <sched.h>\n', ""),
    ("kernels/cpu/tile.cpp", '#include "kernels/v2/schedule.h"\n', "only kernels/builtin.cpp"),
    ("kernels/cpu/tile.cpp", "#include <Eigen/Core>\n", "Eigen"),
    ("kernels/cpu/tile-inl.h", "#if defined(A) == defined(HWY_TARGET_TOGGLE)\n#endif\n", ""),
    ("kernels/cuda/jit.cpp", "#include <nvrtc.h>\n#include <dlfcn.h>\n", ""),
    ("kernels/cuda/jit.cpp", "#include <nvml.h>\n", "NVML"),
    ("kernels/cuda/nvtx.cpp", "#include <nvtx3/nvToolsExt.h>\n", ""),
    ("harness/run/run.cpp", "#include <nvtx3/nvToolsExt.h>\n", "NVTX"),
    ("kernels/cuda/jit.cpp", 'auto unit = R"(\n#include "kernels/ptx/tma.cuh"\n)";\n', ""),
    ("kernels/cuda/jit.cpp", 'R"(\n)"\n#include "kernels/ptx/tma.cuh"\n', "(rule 2)"),
    ("kernels/api/problem.h", ONCE + "#include <string>\n", ""),
    ("kernels/api/problem.h", ONCE + "#include <unistd.h>\n", "not a std header"),
    ("kernels/api/problem.h", ONCE + '#include "kernels/cpu/tile.h"\n', "(rule 1)"),
    ("kernels/api/problem.cpp", "#include <fmt/format.h>\n", "fmt"),
    ("kernels/builtin.cpp", '#include "kernels/v2/v2.h"\n', ""),
    ("kernels/devices.cpp", '#include "kernels/cuda/runtime.h"\n', ""),
    ("kernels/devices.cpp", '#include "kernels/naive/cuda.h"\n', "only kernels/builtin.cpp"),
    ("kernels/other.cpp", '#include "kernels/v2/v2.h"\n', "only kernels/builtin.cpp"),
    ("kernels/builtin.cpp", '#include "harness/run/run.h"\n', "(rule 2)"),
    ("reference/oracle.h", ONCE + '#include <Eigen/Core>\n#include "kernels/api/problem.h"\n', ""),
    ("reference/oracle.cpp", '#include "kernels/shared/philox.h"\n', ""),
    ("reference/oracle.cpp", '#include "kernels/shared/mask.h"\n', "(rule 3)"),
    ("reference/oracle.cpp", '#include "kernels/shared/dropout.h"\n', "(rule 3)"),
    ("reference/oracle.cpp", '#include "harness/tensors/inputs.h"\n', "(rule 3)"),
    ("reference/oracle.cpp", "const Mask m = make_mask(problem, b, {});\n", "make_mask"),
    ("reference/oracle_test.cpp", '#include "kernels/v2/v2.h"\n', "only kernels/builtin.cpp"),
    ("harness/run/run.cpp", '#include "kernels/api/registry.h"\n#include "reference/oracle.h"\n', ""),
    ("harness/run/run.cpp", '#include "kernels/cpu/tile.h"\n', "(rule 4)"),
    ("harness/run/run.cpp", '#include "kernels/shared/mask.h"\n', "(rule 4)"),
    ("harness/run/run.cpp", '#include "kernels/v2/v2.h"\n', "only kernels/builtin.cpp"),
    ("harness/run/run.cpp", "#include <CLI/CLI.hpp>\n", "CLI11"),
    ("harness/run/run.cpp", "#include <benchmark/benchmark.h>\n", "Google Benchmark"),
    ("harness/run/run.cpp", "#include <Eigen/Core>\n", "Eigen"),
    ("harness/run/run.cpp", "#include <boost/any.hpp>\n", "no owner"),
    ("harness/cli/run_verb.cpp", "#include <CLI/CLI.hpp>\n", ""),
    ("harness/measure/bench.cpp", "#include <benchmark/benchmark.h>\n#include <sys/resource.h>\n", ""),
    ("harness/base/build_info.cpp", '#include "build_info_values.h"\n', ""),
    ("harness/cli/man_verb.cpp", '#include "build_info_values.h"\n', "(rule 7)"),
    ("harness/report/table.cpp", '#include "harness/record/record.h"\n#include <fmt/format.h>\n', ""),
    ("harness/report/table.cpp", '#include "harness/run/run.h"\n', "(rule 5)"),
    ("harness/report/model_json.cpp", '#include "harness/run/run.h"\n', ""),
    ("harness/run/run.cpp", '#include "harness/testing/fake_kernels.h"\n', "(rule 5)"),
    ("harness/run/run_test.cpp", '#include "harness/testing/fake_kernels.h"\n', ""),
    ("harness/new_room/a.cpp", '#include "harness/base/errors.h"\n', "(rule 5)"),
    ("harness/a.cpp", '#include "harness/base/errors.h"\n', "(rule 5)"),
    ("harness/report/table.cpp", '#include "kernels/api/registry.h"\n', "(rule 4)"),
    ("tests/all_test.cpp", '#include "kernels/v2/v2.h"\n#include <Eigen/Core>\n', ""),
)


# Each is an include from a room into one above it.
UPWARD = tuple(
    (f"harness/{room}/a{suffix}", f'#include "harness/{above}/b.h"\n', "(rule 5)")
    for i, room in enumerate(ROOMS)
    for above in ROOMS[i + 1 :]
    for suffix in (".cpp", "_test.cpp")
)

# path -> text, and the circle that it has
CIRCLES = (
    ({"harness/run/a.h": '#include "harness/run/b.h"\n', "harness/run/b.h": ""}, ""),
    (
        {"harness/run/a.h": "", "harness/run/a.cpp": '#include "harness/run/b.h"\n',
         "harness/run/b.h": '#include "harness/run/a.h"\n'},
        "harness/run/a -> harness/run/b -> harness/run/a",
    ),
    (
        {"harness/run/a.h": '#include "harness/run/b.h"\n',
         "harness/run/b.cpp": '#include "harness/run/c.h"\n', "harness/run/b.h": "",
         "harness/run/c.h": '#include "harness/run/a.h"\n'},
        "harness/run/a -> harness/run/b -> harness/run/c -> harness/run/a",
    ),
)


def self_test():
    """Checks that every wrong snippet is caught for its reason, and every good one passes."""
    wrong = 0
    for path, text, want in SNIPPETS + UPWARD:
        said = "; ".join(f"{f.what} ({f.rule})" for f in check_text(path, text))
        if bool(said) != bool(want) or want not in said:
            print(f"self-test: {path}: {text!r}: want '{want}', got '{said}'")
            wrong += 1
    for texts, want in CIRCLES:
        said = "; ".join(check_circles(texts))
        if bool(said) != bool(want) or want not in said:
            print(f"self-test: {texts}: want '{want}', got '{said}'")
            wrong += 1
    others = (
        (check_names, ("harness/verify/plan.h",), "harness/plan"),
        (check_names, ("harness/plan/plan.h", "harness/verify/checks.h"), ""),
        (check_names, ("harness/grid.h",), "none of the rooms"),
        (check_patterns, ("harness/measure/clocks.cpp",), "'harness/measure/bench.cpp'"),
    )
    for check, paths, want in others:
        said = "; ".join(check(paths))
        if bool(said) != bool(want) or want not in said:
            print(f"self-test: {check.__name__} of {paths}: want '{want}', got '{said}'")
            wrong += 1
    total = len(SNIPPETS) + len(UPWARD) + len(CIRCLES) + len(others)
    print(f"include rules self-test: {total - wrong} of {total} snippets judged right")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--compiler", metavar="CXX", help="compile the device headers with this")
    parser.add_argument("--self-test", action="store_true", help="check the checker")
    arguments = parser.parse_args()
    return self_test() if arguments.self_test else check_tree(arguments.compiler)


if __name__ == "__main__":
    sys.exit(main())
