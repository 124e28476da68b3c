#!/usr/bin/env python3
"""Draws what `attnlab reproduce` wrote: each table, the claims, and a roofline, as SVG and PNG.

  scripts/plot.py [--out DIR] RESULT.json|DIR...

For example:

  attnlab reproduce fa2-forward --out results/paper
  scripts/plot.py --out pictures results/paper

A folder stands for every NAME.result.json in it. Pictures lie beside their result, or in DIR:
TABLE.svg and TABLE.png, NAME-claims and NAME-roofline likewise. The same result and records give
the same bytes. The file of each picture is printed.

How a table is drawn follows from its cells and units:

  - Where columns are numbers (sequence lengths, percentages): a line for each row, over that axis,
    which is log2 if it spans a factor of 8. One word among the numbers stands beyond the last.
  - Where rows are numbers: a line for each column. Where rows end in one ("fwd, 4096"): a panel for
    each beginning, or a line if there is one column.
  - Else bars, grouped by row.
  - Where there are several units ("GB, ms"), each has a panel.
  - The axis of values is logarithmic if they span more than a factor of 20, else it begins at 0.

Measured is solid and filled, published dashed and hollow, in the same colour. What is published and
nowhere measured is thin and grey; a note explains its letter. A measured value with trouble is
hollow, with a dagger and a note. What is no number ("-", "OOM", null) is not drawn, and a line
breaks there. A column that only repeats the setting (the trouble of a cell begins with "of the
setting") is left out. An axis is named by row_title or column_title of the table, if it has them,
else by the field in which the keys of its records differ.

Claims are a strip: the verdict, and measured over published where there are both.

The roofline, NAME-roofline, is of the records beside the result, those whose bytes of DRAM were
counted: speed over useful FLOP for each of these bytes, below what attnlab peak measured.

Exit: 0 drawn, 2 bad arguments or a file that is no result (then nothing is drawn), 3 matplotlib is
missing.
"""
import argparse
import pathlib
import re
import sys

try:
    import matplotlib
except ImportError:
    print(f"error: {sys.executable} has no matplotlib; remedy: on Debian and Ubuntu apt-get "
          "install python3-matplotlib brings it for /usr/bin/python3: /usr/bin/python3 "
          f"{' '.join(sys.argv)}", file=sys.stderr)
    sys.exit(3)

from plots.claims_picture import draw_claims
from plots.result import BadResult, files_of, read_result
from plots.roofline_picture import draw_roofline
from plots.table_picture import draw_table


def pictures_of(result, folder):
    """Returns [(the file without its ending, what draws it, what it says if there is nothing)]."""
    def stem(name):
        return folder / re.sub(r"[^\w.-]", "-", name)
    pictures = [(stem(table.id), lambda stem, table=table: draw_table(table, result, stem),
                 "has no numbers") for table in result.tables]
    if result.claims:
        pictures.append((stem(f"{result.name}-claims"),
                         lambda stem: draw_claims(result, stem) or True, ""))
    pictures.append((stem(f"{result.name}-roofline"), lambda stem: draw_roofline(result, stem),
                     "has no records beside the result whose bytes of DRAM were counted"))
    return pictures


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=pathlib.Path, metavar="RESULT.json|DIR")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR",
                        help="the folder of the pictures (default: that of each result)")
    options = parser.parse_args()
    pictures = {}
    for file in files_of(options.paths):
        try:
            result = read_result(file)
        except BadResult as error:
            raise BadResult(f"{file}: {error}") from error
        for stem, draw, nothing in pictures_of(result, options.out or file.parent):
            if stem in pictures:
                raise BadResult(f"{file}: {pictures[stem][0]} has {stem.name} too: draw them into "
                                "folders of their own")
            pictures[stem] = file, draw, nothing
    matplotlib.rcdefaults()
    matplotlib.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "attnlab", "font.family": "DejaVu Sans",
        "text.parse_math": False, "hatch.linewidth": 0.6, "axes.linewidth": 0.8})
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    for stem, (file, draw, nothing) in pictures.items():
        if draw(stem):
            print(f"{stem}.svg\n{stem}.png")
        else:
            print(f"{file}: {stem.name} {nothing}: not drawn", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except (BadResult, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
