#!/usr/bin/env python3
"""Tests scripts/plot.py: counts marks in the SVG, feeds bad files. Skipped without matplotlib.

  tests/plot_test.py
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

PLOT = pathlib.Path(__file__).resolve().parent.parent / "scripts" / "plot.py"
SVG = "{http://www.w3.org/2000/svg}"


def python_with_matplotlib():
    """Returns a python3 that has it, None if none has: the first may be somebody's own."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            done = subprocess.run([python, "-c", "import matplotlib"], capture_output=True)
        except OSError:
            continue
        if done.returncode == 0:
            return python
    return None


PYTHON = python_with_matplotlib()


def table(table_id, units, columns, rows, trouble=()):
    """`rows`: {name: [(published, measured), ...]}, a pair a column."""
    cells = [{"row": row, "column": column, "published": published, "measured": measured,
              "interval_percent": None if measured is None else 1.5, "ratio": None,
              "trouble": dict(trouble).get((row, column), ""),
              "record": "" if measured is None else f"fwd/f16/b1/sq{column}/sk{column}/d64/v2"}
             for row, pairs in rows.items()
             for column, (published, measured) in zip(columns, pairs)]
    return {"id": table_id, "title": "A <table> & $more$", "units": units, "gpu": "A100",
            "source": {}, "notes": ["What a reader must know."], "cells": cells}


def claim(claim_id, finding, published, measured):
    return {"id": claim_id, "tables": [], "text": "", "source": "", "finding": finding,
            "published": published, "measured": measured, "reason": "no record"}


def result(name, tables, claims=()):
    return {"schema": "attnlab.reproduction/1", "name": name, "title": "Trial", "device": "A GPU",
            "records": "trial.jsonl", "cut": "batch 1", "tables": tables, "claims": list(claims)}


LINES = table("lines", "ms", ["128", "256", "512", "1024"], {
    "v1": [(0.1, 0.2), ("-", None), (0.4, 0.5), ("OOM", 1.5)],
    "v2": [(0.1, 0.1), (None, 0.2), (0.3, None), (0.5, 90)],
    "Reformer": [(1, None), (2, None), (True, None), (3, None)]},
    {("v1", "512"): "did not settle"}.items())
LINES_DOWN = table("lines-down", "TFLOP/s", ["batch", "Pytorch", "v2"], {
    "512": [(32, None), (29, 30), (178, 300)], "4k": [(4, None), ("OOM", None), (180, 320)],
    "16k": [(1, None), (20, 25), (190, 350)], "64k": [(9, None), (21, None), (195, None)]},
    {(row, "batch"): "of the setting: tokens fix it" for row in ("512", "4k", "16k")}.items() |
    {("64k", name): "takes too long" for name in ("batch", "Pytorch", "v2")}.items())
PANELS = table("panels", "GB, ms", ["hbm_accesses_GB", "fwd_runtime_ms"], {
    "64": [(6.58, 7), (8.6, 2)], "128": [(3.37, None), (4.7, None)], "dense": [(1, 1), ("-", 3)]})
BEGINNINGS = table("beginnings", "TFLOP/s", ["v2", "v3"], {
    "fwd, 512": [(1, 2), (3, None)], "fwd, 1024": [(1, 2), (3, None)],
    "bwd, 512": [(1, 2), (None, None)], "bwd, 1024": [(1, 2), (3, 4)]})
BARS = table("bars", "x", ["A", "B"], {
    "one": [(1, 2), ("-", 3)], "two": [(4, None), (5, None)], "three": [(None, None), ("x", None)]},
    {("one", "B"): "did not settle"}.items())
WORDS = table("words", "-", ["A"], {"one": [("2-4x", None)], "two": [(None, None)]})
CLAIMS = [claim("up", "R", 2.0, 3.0), claim("down", "N", 2.0, 0.5), claim("alone", "S", None, 0.5),
          claim("none", "U", 2.0, None), claim("zero", "X", 0, 1)]


def numbers(drawn, kind):
    return sum(isinstance(cell[kind], (int, float)) and not isinstance(cell[kind], bool)
               for cell in drawn["cells"] if cell["column"] != "batch")


def marks(svg, *kinds):
    """Points and bars of these kinds."""
    count = 0
    for group in svg.iter(f"{SVG}g"):
        name = group.get("id", "")
        if name.startswith(tuple(f"points-{kind}-" for kind in kinds)):
            count += len(list(group.iter(f"{SVG}use")))
        elif name.startswith(tuple(f"bar-{kind}-" for kind in kinds)):
            count += 1
    return count


class Plot(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def write(self, content, name="trial"):
        file = self.folder / f"{name}.result.json"
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return file

    def plot(self, *arguments, exit_code=0, **environment):
        done = subprocess.run([PYTHON, PLOT, *arguments], capture_output=True, text=True,
                              env=os.environ | environment)
        self.assertEqual(done.returncode, exit_code, done.stderr)
        return done

    def svg(self, *tables, claims=()):
        """Returns the trees of the pictures of these tables, or of the claims."""
        self.plot(self.write(result("trial", list(tables), claims)))
        return [ElementTree.parse(self.folder / f"{name}.svg").getroot()
                for name in [drawn["id"] for drawn in tables] + ["trial-claims"] * bool(claims)]

    def test_each_number_is_a_mark_and_words_are_none(self):
        tables = [LINES, LINES_DOWN, PANELS, BEGINNINGS, BARS]
        for drawn, svg in zip(tables, self.svg(*tables)):
            with self.subTest(drawn["id"]):
                self.assertEqual(marks(svg, "published"), numbers(drawn, "published"))
                self.assertEqual(marks(svg, "measured", "doubtful"), numbers(drawn, "measured"))
                self.assertEqual(marks(svg, "doubtful"), sum(
                    cell["trouble"] == "did not settle" for cell in drawn["cells"]))

    def test_a_line_breaks_where_a_value_is_missing(self):
        def parts(svg):  # of each line
            return {group.get("id"): group.find(f"{SVG}path").get("d").count("M")
                    for group in svg.iter(f"{SVG}g") if group.get("id", "").startswith("line-")}
        lines, down = map(parts, self.svg(LINES, LINES_DOWN))
        self.assertEqual(lines["line-published-0-0"], 2)  # 128; 512
        self.assertEqual(lines["line-measured-0-0"], 2)   # 128; 512 to 1024
        self.assertEqual(lines["line-measured-0-1"], 2)   # 128 to 256; 1024
        self.assertEqual(down["line-measured-0-0"], 2)    # 512; 16k, where 0 can be drawn
        self.assertEqual(down["line-measured-0-1"], 1)

    def test_texts(self):
        lines, down, panels, beginnings = self.svg(LINES, LINES_DOWN, PANELS, BEGINNINGS)
        told = ["".join(element.itertext()) for element in list(lines)[:2]]
        self.assertEqual([lines[0].tag, lines[1].tag], [f"{SVG}title", f"{SVG}desc"])
        self.assertEqual(told[0], "lines: A <table> & $more$")
        self.assertIn("v1: 2 values published, 0.1 to 0.4 ms.", told[1])
        self.assertIn("v2: 3 values measured, 0.1 to 90 ms.", told[1])
        texts = lambda svg: [text.text for text in svg.iter(f"{SVG}text")]
        for text in ("lines: A <table> & $more$", "ms", "seqlen", "v1", "measured: A GPU",
                     "published: A100", "published only", "Published only: (a)\u00a0Reformer.",
                     "\u2020 did not settle (v1: 512).", "Cut to: batch 1.",
                     "Note: What a reader must know."):
            self.assertEqual(texts(lines).count(text), 1, text)
        self.assertIn("16k", texts(down))
        self.assertNotIn("batch", texts(down))
        self.assertTrue({"GB", "ms", "dense"} <= set(texts(panels)), texts(panels))
        self.assertTrue({"fwd", "bwd"} <= set(texts(beginnings)), texts(beginnings))

    def test_memory_beside_a_ratio_has_an_axis_of_its_own(self):
        mixed = table("mixed", "x", ["128", "256"], {
            "times less": [(1, 2), (3, 4)], "v1 MiB": [(None, 90), (None, 200)],
            "eager MiB, its allocator": [(None, 900), (None, 4000)]})
        (svg,) = self.svg(mixed)
        texts = [text.text for text in svg.iter(f"{SVG}text")]
        self.assertEqual((texts.count("x"), texts.count("MiB")), (1, 1))

    def test_a_ratio_between_times_has_an_axis_of_its_own(self):
        times = table("times", "ms", ["fwd"], {
            "slow": [(0.8, 0.6)], "fast": [(0.2, 0.7)], "ratio of both": [(4, 0.9)]})
        (svg,) = self.svg(times)
        texts = [text.text for text in svg.iter(f"{SVG}text")]
        self.assertEqual((texts.count("ms"), texts.count("ratio")), (1, 1))
        self.assertEqual(marks(svg, "published", "measured"), 6)

    def test_letters_of_published_lines_lie_beside_one_another(self):
        grey = {name: [(1, None), (value, None)] for name, value in
                (("p", 5.0), ("q", 5.01), ("r", 5.02), ("far", 1.5))}
        (svg,) = self.svg(table("grey", "ms", ["128", "256"], {"v1": [(1, 1), (9, 9)]} | grey))
        places = {}
        for text in svg.iter(f"{SVG}text"):
            if text.text in ("a", "b", "c", "d"):
                places[text.text] = float(text.get("x"))
        self.assertEqual(len(places), 4, places)
        self.assertGreater(places["b"], places["a"] + 3)
        self.assertGreater(places["c"], places["b"] + 3)
        self.assertAlmostEqual(places["d"], places["a"], delta=0.5)

    def test_names_of_axes(self):
        # Records of one length alone, or that agree on no field, name none.
        single = table("single", "ms", ["64", "128"], {"v1": [(1, 2), (3, None)]})
        none = table("none", "ms", ["2", "4"], {"v1": [(1, 2), (3, 4)]})
        for cell in none["cells"]:
            cell["record"] = "fwd/f16/b3/sq512/sk512/d64/v1"
        given, *others = self.svg(LINES | {"column_title": "length"}, single, none)
        texts = lambda svg: {text.text for text in svg.iter(f"{SVG}text")}
        self.assertIn("length", texts(given))
        for svg in others:
            self.assertFalse(texts(svg) & {"seqlen", "head_dim", "batch"})

    def test_claims(self):
        (svg,) = self.svg(claims=CLAIMS)
        self.assertEqual(marks(svg, "claim"), 2)
        texts = [text.text for text in svg.iter(f"{SVG}text")]
        for text in ("up", "zero", "R", "N", "S", "U", "X", "3 against 2", "no record"):
            self.assertIn(text, texts)

    def records(self, *pairs, dtypes={}, **peaks):
        """Writes a record for each (kernel, FLOP a byte or None, seconds), and their result."""
        lines = [json.dumps({
            "key": f"{kernel}-{place}", "kernel": kernel, "status": "ok",
            "problem": {"dtype": dtypes.get(place, "f16")},
            "flops": {"useful": 4e12}, "time": {"median_s": seconds},
            "roof": {"dram_intensity_flop_per_byte": intensity, "intensity_flop_per_byte": 400,
                     "peaks": peaks or None}})
            for place, (kernel, intensity, seconds) in enumerate(pairs)]
        (self.folder / "trial.jsonl").write_text("\n".join(lines) + "\n")
        return self.write(result("trial", []))

    def roofline(self):
        return ElementTree.parse(self.folder / "trial-roofline.svg").getroot()

    def test_a_roofline_has_the_points_whose_bytes_were_counted(self):
        self.plot(self.records(("v1", 50, 0.02), ("v2", 400, 0.01), ("v2", None, 0.01),
                               ("v2", 300, None), ("v2", 500, 0.01),
                               compute="tensor_f16", memory="hbm_read",
                               flops_per_s=7e14, bytes_per_s=3.5e12))
        svg = self.roofline()
        self.assertEqual(marks(svg, "roof"), 2)
        roofs = [group for group in svg.iter(f"{SVG}g")
                 if group.get("id") == "line-roof-tensor_f16"]
        self.assertEqual(len(roofs), 1)
        self.assertEqual(roofs[0].find(f"{SVG}path").get("d").count("L"), 2, "it has a ridge")
        told = "".join(list(svg)[1].itertext())
        self.assertIn("v1: 1 points, 200 to 200 TFLOP/s.", told)
        self.assertIn("3 of 5 points have no time, or no bytes of DRAM", told)

    def test_a_roofline_tells_types_apart_and_has_no_ceiling_of_e4m3(self):
        peaks = {"compute": "fma_f32", "memory": "hbm_read", "flops_per_s": 6e13,
                 "bytes_per_s": 3.5e12}
        pairs = (("v3", 50, 0.02), ("v3", 400, 0.01))
        self.plot(self.records(*pairs, dtypes={0: "e4m3", 1: "e4m3"}, **peaks))
        told = "".join(list(self.roofline())[1].itertext())
        self.assertIn("v3: 2 points", told)
        self.assertIn("No ceilings", told)
        self.plot(self.records(*pairs, dtypes={0: "e4m3"}, **peaks))
        told = "".join(list(self.roofline())[1].itertext())
        self.assertIn("v3, e4m3: 1 points", told)
        self.assertIn("v3, f16: 1 points", told)
        self.assertNotIn("No ceilings", told)

    def test_a_roofline_without_ceilings_says_so_and_without_bytes_is_none(self):
        self.plot(self.records(("v1", 50, 0.02)))
        self.assertIn("No ceilings", "".join(list(self.roofline())[1].itertext()))
        (self.folder / "trial-roofline.svg").unlink()
        done = self.plot(self.records(("v1", None, 0.02)))
        self.assertIn("trial-roofline has no records", done.stderr)
        self.assertFalse((self.folder / "trial-roofline.svg").exists())

    def test_records_that_are_none_are_named(self):
        file = self.records(("v1", 50, 0.02))
        (self.folder / "trial.jsonl").write_text('{"key": 1}\n{\n')
        self.assertIn("trial.jsonl, line 2: is no record", self.plot(file, exit_code=2).stderr)

    def test_a_table_without_numbers_is_not_drawn(self):
        done = self.plot(self.write(result("trial", [WORDS])))
        self.assertEqual(done.stdout, "")
        self.assertIn("words has no numbers", done.stderr)

    def test_the_same_result_gives_the_same_bytes(self):
        file = self.write(result("trial", [LINES, PANELS, BARS], CLAIMS))
        folders = [self.folder / name for name in ("one", "two")]
        for folder in folders:
            self.plot("--out", folder, file.parent)
        one, two = ({path.name: path.read_bytes() for path in folder.iterdir()}
                    for folder in folders)
        self.assertEqual(len(one), 8)
        self.assertEqual(one, two)

    def test_damaged_files_are_named_and_nothing_is_drawn(self):
        good = result("trial", [LINES])
        self.write(good, "good")
        text = json.dumps(good)
        for damaged in (text[:-9], "[]", text.replace("/1", "/9"), text.replace('"units"', '"u"'),
                        text.replace('"row": "v1"', '"row": 1'),
                        json.dumps(result("trial", [], [claim("a", "Q", 1, 1)]))):
            file = self.write(damaged, "damaged")
            done = self.plot("--out", self.folder / "out", self.folder, exit_code=2)
            self.assertIn(f"error: {file}: ", done.stderr)
            self.assertFalse((self.folder / "out").exists())

    def test_bad_arguments(self):
        (self.folder / "empty").mkdir()
        self.plot(exit_code=2)
        self.assertIn("cannot be read", self.plot(self.folder / "none", exit_code=2).stderr)
        self.assertIn("holds no", self.plot(self.folder / "empty", exit_code=2).stderr)
        files = [self.write(result("trial", [LINES]), name) for name in ("a", "b")]
        self.assertIn("has lines too", self.plot(*files, exit_code=2).stderr)

    def test_without_matplotlib(self):
        (self.folder / "matplotlib.py").write_text("raise ImportError")
        done = self.plot("any", exit_code=3, PYTHONPATH=str(self.folder))
        self.assertIn("remedy: on Debian and Ubuntu apt-get install python3-matplotlib brings it",
                      done.stderr)


if __name__ == "__main__":
    if PYTHON is None:
        print("skipped: no python3 has matplotlib (apt-get install python3-matplotlib)")
        sys.exit(0)
    unittest.main()
