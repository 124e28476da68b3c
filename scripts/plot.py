#!/usr/bin/env python3
"""Draws what `attnlab reproduce` wrote: each table, and the claims, as SVG and PNG.

  scripts/plot.py [--out DIR] RESULT.json|DIR...

For example:

  attnlab reproduce fa2-forward --out results/paper
  scripts/plot.py --out pictures results/paper

A folder stands for every NAME.result.json in it. Pictures lie beside their result, or in DIR:
TABLE.svg and TABLE.png, NAME-claims.svg and NAME-claims.png. The same result gives the same bytes.
The file of each picture is printed.

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
breaks there. Cells that only repeat the setting (their trouble begins with "of the setting") are
left out. An axis is named by row_title or column_title of the table, if it has them, else by the
field in which the keys of its records differ.

Claims are a strip: the verdict, and measured over published where there are both.

Exit: 0 drawn, 2 bad arguments or a file that is no result (then nothing is drawn), 3 matplotlib is
missing.
"""
import argparse
import io
import json
import math
import pathlib
import re
import sys
import textwrap
from typing import NamedTuple, Optional
from xml.sax.saxutils import escape

try:
    import matplotlib
    from matplotlib import ticker
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
except ImportError:
    print(f"error: {sys.executable} has no matplotlib; remedy: on Debian and Ubuntu apt-get "
          "install python3-matplotlib brings it for /usr/bin/python3: /usr/bin/python3 "
          f"{' '.join(sys.argv)}", file=sys.stderr)
    sys.exit(3)

SCHEMA = "attnlab.reproduction/1"
LOG_AXIS, LOG_VALUES = 8, 20  # from these factors on, logarithmic
# Okabe and Ito's, without the yellow, which paper swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
MARKERS = "osD^vPX<>ph"  # as many of them as have no common factor with the colours
HATCHES = ("", "////", "\\\\\\\\", "xxxx", "....", "----", "||||", "++++")
GREY, PALE = "#8A8A8A", "#D8D8D8"
DAGGER = "\u2020"
VERDICTS = {"R": ("reproduced", "#009E73"), "S": ("in shape", "#0072B2"),
            "N": ("not reproduced", "#D55E00"), "X": ("not applicable", GREY),
            "U": ("not run", GREY)}
WIDTH, MARGIN = 7.4, 0.15  # inches
NOTE_COLUMNS, TITLE_COLUMNS = 135, 86


class BadResult(Exception):
    """The file is no result: the message says why."""


class Cell(NamedTuple):
    row: str
    column: str
    published: Optional[float]
    measured: Optional[float]
    interval_percent: Optional[float]
    trouble: str
    record: str

    @property
    def is_empty(self):
        return self.published is None and self.measured is None

    @property
    def is_doubtful(self):
        return self.measured is not None and self.trouble != ""


class Table(NamedTuple):
    id: str
    title: str
    units: str
    gpu: str
    notes: list
    cells: list
    row_title: str
    column_title: str


class Claim(NamedTuple):
    id: str
    finding: str
    published: Optional[float]
    measured: Optional[float]
    reason: str

    @property
    def ratio(self):
        if not self.published or self.measured is None or self.measured / self.published <= 0:
            return None
        return self.measured / self.published


class Result(NamedTuple):
    path: pathlib.Path
    name: str
    title: str
    device: str
    cut: str
    tables: list
    claims: list


# --- reading -------------------------------------------------------------------------------------

def number_of(value):
    """The number; None for words and null, which are not drawn."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def text_of(json_object, key):
    value = json_object[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} is no text")
    return value


def read_table(table):
    cells = [Cell(text_of(cell, "row"), text_of(cell, "column"), number_of(cell["published"]),
                  number_of(cell["measured"]), number_of(cell["interval_percent"]),
                  text_of(cell, "trouble"), text_of(cell, "record")) for cell in table["cells"]]
    return Table(text_of(table, "id"), text_of(table, "title"), text_of(table, "units"),
                 text_of(table, "gpu"), [str(note) for note in table["notes"]], cells,
                 str(table.get("row_title", "")), str(table.get("column_title", "")))


def read_claim(claim):
    finding = text_of(claim, "finding")
    if finding not in VERDICTS:
        raise ValueError(f"finding '{finding}' is unknown")
    return Claim(text_of(claim, "id"), finding, number_of(claim["published"]),
                 number_of(claim["measured"]), text_of(claim, "reason"))


def read_result(path):
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadResult(f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BadResult(f"is no JSON: {error}") from error
    if not isinstance(result, dict) or result.get("schema") != SCHEMA:
        raise BadResult(f"has no schema '{SCHEMA}': attnlab reproduce --out writes such files")
    try:
        return Result(path, text_of(result, "name"), text_of(result, "title"),
                      text_of(result, "device"), text_of(result, "cut"),
                      [read_table(table) for table in result["tables"]],
                      [read_claim(claim) for claim in result["claims"]])
    except KeyError as error:
        raise BadResult(f"lacks the key {error}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise BadResult(f"is damaged: {error}") from error


def files_of(paths):
    files = []
    for path in paths:
        found = sorted(path.glob("*.result.json")) if path.is_dir() else [path]
        if not found:
            raise BadResult(f"{path}: holds no NAME.result.json")
        files += found
    return files


# --- what is drawn where -------------------------------------------------------------------------

class Point(NamedTuple):
    """A cell and its place. `at`: a number's name on the axis of lines, the group of bars."""

    panel: str
    series: str
    at: str
    cell: Cell


class Panel(NamedTuple):
    title: str
    units: str
    points: list


class Chart(NamedTuple):
    axis_title: str
    places: Optional[dict]  # {name: place} on the axis of lines; None: bars
    is_log: bool            # that axis
    panels: list
    styles: dict            # {series: which colour and marker}, in the order of the legend
    grey: dict              # {series that is published and nowhere measured: its letter}
    grey_groups: set        # the same of groups of bars

    @property
    def is_lines(self):
        return self.places is not None

    @property
    def points(self):
        return [point for panel in self.panels for point in panel.points]


def axis_number(name):
    """4096 of "4096" and "4k", 12.5 of "12.5 %"; None if it is no number."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kK]?)%?", name)
    return float(match[1]) * (1024 if match[2] else 1) if match else None


def unique(values):
    return list(dict.fromkeys(values))


def axis_places(names):
    """({name: its place on an axis of numbers}, whether it is log2), or None where names are no
    numbers. A single word among several numbers ("dense") stands beyond the last."""
    places = {name: axis_number(name) for name in names}
    numbers = sorted({place for place in places.values() if place is not None})
    words = [name for name, place in places.items() if place is None]
    if len(numbers) < 2 or len(words) > (len(numbers) > 2):
        return None
    is_log = numbers[0] > 0 and numbers[-1] >= LOG_AXIS * numbers[0]
    beyond = numbers[-1] ** 2 / numbers[-2] if is_log else 2 * numbers[-1] - numbers[-2]
    return places | dict.fromkeys(words, beyond), is_log


def ends_in_numbers(rows):
    """Whether rows are numbers with something before them, several for each of it."""
    numbers = {}
    for row in rows:
        before, _, last = row.rpartition(", ")
        numbers.setdefault(before, set()).add(axis_number(last))
    return all(before and None not in own and len(own) > 1 for before, own in numbers.items())


def units_in(units):
    return re.split(r", ?| and ", units)


def named_units(names, units):
    """{name: the unit that stands in it, as ms does in "fwd_ms", or None}."""
    def stands_in(name, part):
        unit = re.sub(r"[^a-z%]", "", part.lower())
        words = re.split(r"[^a-z%]+", name.lower())
        return unit in words or unit + "s" in words or (unit == "x" and "speedup" in words)
    return {name: next((part for part in units_in(units) if stands_in(name, part)), None)
            for name in names}


def axis_units(names, units):
    """{name: what its axis is called}: where there are several units, the one in the name; names
    without have the only one left, or an axis each."""
    if len(units_in(units)) == 1:
        return dict.fromkeys(names, units)
    found = named_units(names, units)
    rest = [part for part in units_in(units) if part not in found.values()]
    return {name: part or (rest[0] if len(rest) == 1 else f"{name} ({units})")
            for name, part in found.items()}


def transposed(point):
    return point._replace(series=point.at, at=point.series)


def points_of(table, cells):
    """(Whether lines, the title of the axis, the points in the order of the table)."""
    points = [Point("", cell.row, cell.column, cell) for cell in cells]
    rows, columns = unique(point.series for point in points), unique(point.at for point in points)
    if axis_places(columns):
        return True, table.column_title, points
    if axis_places(rows):
        return True, table.row_title, [transposed(point) for point in points]
    if ends_in_numbers(rows):
        def place(cell):
            before, _, last = cell.row.rpartition(", ")
            return Point(before, cell.column, last, cell) if len(columns) > 1 else Point(
                "", before, last, cell)
        return True, table.row_title.rpartition(", ")[2], [place(cell) for cell in cells]
    in_rows, in_columns = (sum(map(bool, named_units(names, table.units).values()))
                           for names in (rows, columns))
    if len(units_in(table.units)) > 1 and in_rows > in_columns:
        return False, table.column_title, points
    return False, table.row_title, [transposed(point) for point in points]


def recorded_axis(points):
    """The field of the records' keys ("sq4096", "block_m=64") that is the point's number, or "".
    Of a single number that could be chance."""
    names = {"sq": "seqlen", "d": "head_dim", "b": "batch", "hq": "heads"}
    recorded = [point for point in points if point.cell.record]
    candidates = None
    for point in recorded:
        fields = re.findall(r"(?<![^/,])([a-z_]+)=?(\d+)(?![^/,])", point.cell.record)
        same = [name for name, value in fields if float(value) == axis_number(point.at)]
        candidates = [name for name in same if candidates is None or name in candidates]
    if not candidates or len({point.at for point in recorded}) < 2:
        return ""
    return names.get(candidates[0], candidates[0])


def letter_of(index):
    """a to z, then a1 and so on."""
    return chr(ord("a") + index % 26) + (str(index // 26) if index > 25 else "")


def chart_of(table):
    """None where there is no number."""
    cells = [cell for cell in table.cells
             if cell.measured is not None or not cell.trouble.startswith("of the setting")]
    if all(cell.is_empty for cell in cells):
        return None
    is_lines, axis_title, points = points_of(table, cells)
    places, is_log = None, False
    if is_lines:
        places, is_log = axis_places(unique(point.at for point in points))
        axis_title = axis_title or recorded_axis(points)
    some = {(side, getattr(point, side)) for point in points for side in ("series", "at")
            if not point.cell.is_empty}
    points = [point for point in points
              if ("series", point.series) in some and (is_lines or ("at", point.at) in some)]
    names = unique(point.series for point in points)
    measured = [point for point in points if point.cell.measured is not None]
    grey, grey_groups = [], set()
    if measured:  # else all of it is published only, and needs no grey
        grey = [name for name in names if name not in {point.series for point in measured}]
        if not is_lines:
            grey_groups = {point.at for point in points} - {point.at for point in measured}
    units = axis_units(names, table.units)
    panels = {}
    for point in points:
        panels.setdefault((point.panel, units[point.series]), []).append(point)
    panels = [Panel(title, unit, members) for (title, unit), members in panels.items()
              if any(not point.cell.is_empty for point in members)]
    colourful = [name for name in names if name not in grey]
    return Chart(axis_title, places, is_log, panels,
                 {name: index for index, name in enumerate(colourful)},
                 {name: letter_of(index) for index, name in enumerate(grey)}, grey_groups)


# --- drawing -------------------------------------------------------------------------------------

class Sheet:
    """A figure laid out in inches from its top: the title, the body, legends, notes."""

    def __init__(self, title, body_height, legends, notes):
        titles = textwrap.wrap(title, TITLE_COLUMNS)
        lines = [line for note in notes for line in textwrap.wrap(
            note, NOTE_COLUMNS, subsequent_indent="  ", break_long_words=False)]
        legends = [(handles, self.legend_columns(handles)) for handles in legends if handles]
        heights = [0.17 * math.ceil(len(handles) / columns) + 0.06 for handles, columns in legends]
        self.body_top = MARGIN + 0.21 * len(titles) + 0.06
        self.height = self.body_top + body_height + sum(heights) + 0.14 * len(lines) + 2 * MARGIN
        self.figure = Figure(figsize=(WIDTH, self.height), facecolor="white")
        self.text(MARGIN, MARGIN, "\n".join(titles), 10, weight="bold")
        top = self.body_top + body_height + MARGIN / 2
        for (handles, columns), height in zip(legends, heights):
            self.figure.legend(
                handles=handles, ncol=columns, fontsize=8, frameon=False, loc="upper left",
                borderpad=0, borderaxespad=0, labelspacing=0.4, handlelength=2.8,
                bbox_to_anchor=(MARGIN / WIDTH, 1 - top / self.height))
            top += height
        self.text(MARGIN, top + 0.05, "\n".join(lines), 7, color="#444444", linespacing=1.4)

    @staticmethod
    def legend_columns(handles):
        widest = max(len(handle.get_label()) for handle in handles)
        return max(1, min(len(handles), int((WIDTH - 2 * MARGIN) / (0.65 + 0.066 * widest))))

    def text(self, left, top, text, size, **style):
        self.figure.text(left / WIDTH, 1 - top / self.height, text, fontsize=size,
                         verticalalignment="top", **style)

    def axes(self, left, top, width, height):
        """`top`: below that of the body."""
        bottom = self.height - self.body_top - top - height
        axes = self.figure.add_axes((left / WIDTH, bottom / self.height, width / WIDTH,
                                     height / self.height))
        axes.tick_params(labelsize=8)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        return axes

    def save(self, stem, title, description):
        """Writes both files. A reader without eyes is told `title` and `description`."""
        svg = io.StringIO()
        self.figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        told = f"<title>{escape(title)}</title>\n <desc>{escape(description)}</desc>"
        text = re.sub(r"(<svg [^>]*)>", lambda match: f'{match[1]} role="img">\n {told}',
                      svg.getvalue(), count=1)
        stem.with_name(stem.name + ".svg").write_text(text, encoding="utf-8")
        self.figure.savefig(stem.with_name(stem.name + ".png"), dpi=160,
                            metadata={"Software": None})


def plain(value, _=None):
    return f"{value:.10g}"


def set_values(axes, side, values, room, is_narrow=False):
    """Makes `side` ("x" of bars, "y" of lines) the axis of values; `room`: the share of it that
    stays free beyond the largest."""
    axis = getattr(axes, f"{side}axis")
    limits = getattr(axes, f"set_{side}lim")
    low, high = min(values), max(values)
    if low > 0 and high > LOG_VALUES * low:
        getattr(axes, f"set_{side}scale")("log")
        # Bars begin at the power of ten below all of them.
        bottom = 10 ** (math.ceil(math.log10(low)) - 1) if side == "x" else low / 1.4
        top = high * (high / bottom) ** room
        limits(bottom, top)
        is_short = math.log10(top / bottom) < 3
        axis.set_major_locator(ticker.LogLocator(
            subs=(1, 2, 5) if is_short and not is_narrow else (1,)))
        axis.set_minor_formatter(ticker.NullFormatter())
    else:
        limits(min(0, low * (1 + room)), max(0, high * (1 + room)) or 1)
        axis.set_major_locator(ticker.MaxNLocator(4 if is_narrow else 7, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(plain)
    axes.grid(axis=side, color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)


def values_of(points, kind):
    return [getattr(point.cell, kind) for point in points if getattr(point.cell, kind) is not None]


def values_on(chart, units):
    """All values of the panels that have these units, and so the same axis."""
    return [value for panel in chart.panels if panel.units == units
            for kind in ("published", "measured") for value in values_of(panel.points, kind)]


def colour_of(chart, name):
    return GREY if name in chart.grey else COLOURS[chart.styles[name] % len(COLOURS)]


def marker_of(chart, name):
    return "o" if name in chart.grey else MARKERS[chart.styles[name] % len(MARKERS)]


def by_series(points):
    series = {}
    for point in points:
        series.setdefault(point.series, []).append(point)
    return series


def draw_line(axes, chart, name, points, kind, key):
    """One series, `kind` of it; its parts have ids that end in `key`."""
    points = sorted(points, key=lambda point: chart.places[point.at])
    place = [chart.places[point.at] for point in points]
    value = [getattr(point.cell, kind) for point in points]
    is_measured, is_grey = kind == "measured", name in chart.grey
    colour, layer = colour_of(chart, name), 2 + is_measured + (not is_grey)
    axes.plot(place, [math.nan if v is None or axis_number(point.at) is None else v
                      for v, point in zip(value, points)],
              linestyle="-" if is_measured else (0, (4, 2)), color=colour,
              linewidth=0.7 if is_grey else 1.5 if is_measured else 1.1, zorder=layer,
              gid=f"line-{kind}-{key}")
    for is_doubtful in (False, True):
        shown = [(x, v, point) for x, v, point in zip(place, value, points)
                 if v is not None and (is_measured and point.cell.is_doubtful) == is_doubtful]
        if not shown:
            continue
        is_hollow = not is_measured or is_doubtful
        axes.plot([x for x, _, _ in shown], [v for _, v, _ in shown], linestyle="none",
                  marker=marker_of(chart, name), color=colour, markersize=2.5 if is_grey else 5,
                  markerfacecolor="white" if is_hollow else colour, zorder=layer + 0.5,
                  markeredgewidth=0.6 if is_grey else 1,
                  gid=f"points-{'doubtful' if is_doubtful else kind}-{key}")
        if is_grey:
            letter = chart.grey[name]
            axes.annotate(letter, shown[-1][:2], (3 + 5 * (ord(letter[0]) % 2), 0),
                          textcoords="offset points", fontsize=6.5, color="#444444",
                          verticalalignment="center", zorder=9)
        for x, v, point in shown:
            if is_doubtful:
                axes.annotate(DAGGER, (x, v), (4, 2), textcoords="offset points", fontsize=9)
            half = point.cell.interval_percent
            if is_measured and half:
                axes.vlines(x, v * (1 - half / 100), v * (1 + half / 100), color=colour,
                            linewidth=1, zorder=layer)


def draw_lines(axes, chart, panel, number, is_narrow):
    for index, (name, points) in enumerate(by_series(panel.points).items()):
        for kind in ("published", "measured"):
            if values_of(points, kind):
                draw_line(axes, chart, name, points, kind, f"{number}-{index}")
    set_values(axes, "y", values_on(chart, panel.units), 0.06)
    if chart.is_log:
        axes.set_xscale("log", base=2)
    ticks = {chart.places[point.at]: point.at for point in panel.points if not point.cell.is_empty}
    axes.set_xticks(list(ticks), list(ticks.values()), rotation=60 if is_narrow else 0)
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.set_xlabel(chart.axis_title, fontsize=9)
    axes.set_ylabel("" if panel.units == "-" else panel.units, fontsize=9)


def label_of(group):
    """The lines of its label."""
    return textwrap.wrap(group, 30, break_on_hyphens=False) or [""]


def bars_of(panel):
    """The (series, kind) that a group has a bar for, from the top."""
    return [(name, kind) for name, points in by_series(panel.points).items()
            for kind in ("published", "measured") if values_of(points, kind)]


def bar_style(chart, point, kind):
    is_grey = point.series in chart.grey or point.at in chart.grey_groups
    colour = GREY if is_grey else colour_of(chart, point.series)
    hatch = "" if is_grey else HATCHES[chart.styles[point.series] % len(HATCHES)]
    if kind == "published":
        return {"facecolor": "white", "edgecolor": colour, "hatch": hatch,
                "linestyle": (0, (4, 2)), "linewidth": 0.6 if is_grey else 1}
    if point.cell.is_doubtful:
        return {"facecolor": "white", "edgecolor": colour, "linewidth": 1.6}
    # The hatch has the colour of the edge: white upon the fill.
    return {"facecolor": colour, "edgecolor": "white" if hatch else colour, "hatch": hatch,
            "linewidth": 0 if hatch else 1}


def draw_bars(axes, chart, panel, number, groups, is_narrow):
    bars = bars_of(panel)
    thickness = 0.86 / len(bars)
    set_values(axes, "x", values_on(chart, panel.units), 0.3 if is_narrow else 0.12, is_narrow)
    for point in panel.points:
        for kind in ("published", "measured"):
            value = getattr(point.cell, kind)
            if value is None:
                continue
            slot = bars.index((point.series, kind))
            place = groups.index(point.at) - 0.43 + (slot + 0.5) * thickness
            name = "doubtful" if kind == "measured" and point.cell.is_doubtful else kind
            axes.barh(place, value, 0.88 * thickness, gid=f"bar-{name}-{number}",
                      **bar_style(chart, point, kind))
            mark = DAGGER if name == "doubtful" else chart.grey.get(point.series, "")
            axes.annotate(f"{value:.4g} {mark}".rstrip(), (max(value, 0), place), (3, 0),
                          textcoords="offset points", fontsize=6, verticalalignment="center")
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_yticks(range(len(groups)), ["\n".join(label_of(group)) for group in groups])
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("" if panel.units == "-" else panel.units, fontsize=9)


# --- legends, notes and descriptions -------------------------------------------------------------

def series_legend(chart):
    """None of a single series: the title says what it is."""
    points = chart.points
    if len(by_series(points)) < 2:
        return []
    handles = []
    for name, own in by_series(points).items():
        if name in chart.grey:
            continue
        is_measured, colour = bool(values_of(own, "measured")), colour_of(chart, name)
        if chart.is_lines:
            handles.append(Line2D([], [], color=colour, marker=marker_of(chart, name),
                                  linestyle="-" if is_measured else (0, (4, 2)), markersize=5,
                                  markerfacecolor=colour if is_measured else "white", label=name))
        else:
            sample = next(point for point in own if not point.cell.is_empty)._replace(at="")
            sample = sample._replace(cell=sample.cell._replace(trouble=""))
            handles.append(Patch(label=name, **bar_style(
                chart, sample, "measured" if is_measured else "published")))
    return handles


def kinds_legend(chart, table, device):
    points = chart.points
    dark = "#333333"
    kinds = []
    if any(point.cell.measured is not None and not point.cell.is_doubtful for point in points):
        kinds.append((f"measured: {device}", "-", dark, dark))
    if values_of(points, "published"):
        kinds.append((f"published: {table.gpu or 'no GPU named'}", (0, (4, 2)), dark, "white"))
    if chart.grey or chart.grey_groups:
        kinds.append(("published only", (0, (4, 2)), GREY, "white"))
    if any(point.cell.is_doubtful for point in points):
        kinds.append((f"{DAGGER} measured, doubtful", "-", dark, "white"))
    if not chart.is_lines:
        return [Patch(label=label, linestyle=line, edgecolor=edge, facecolor=face)
                for label, line, edge, face in kinds]
    return [Line2D([], [], label=label, linestyle=line, color=edge, marker="o",
                   markersize=2.5 if edge == GREY else 5, linewidth=0.7 if edge == GREY else 1.3,
                   markerfacecolor=face) for label, line, edge, face in kinds]


def notes_of(chart, table, cut):
    points = chart.points
    notes = []
    if chart.grey:
        notes.append("Published only: " + ", ".join(
            f"({letter})\u00a0{name}" for name, letter in chart.grey.items()) + ".")
    doubtful = {}
    for point in points:
        if point.cell.is_doubtful:
            doubtful.setdefault(point.cell.trouble, {}).setdefault(point.cell.row, []).append(
                point.cell.column)
    for trouble, cells in doubtful.items():
        which = "; ".join(f"{row}: {', '.join(columns)}" for row, columns in cells.items())
        notes.append(f"{DAGGER} {trouble} ({which}).")
    if chart.is_lines and any(point.cell.interval_percent for point in points):
        notes.append("Strokes through points: the 95 % interval of the median.")
    if cut:
        notes.append(f"Cut to: {cut}.")
    return notes + [f"Note: {note}" for note in table.notes]


def description_of(chart, table, device):
    """For those who cannot see: what is drawn, with ranges."""
    shape = "Lines" + (f" over {chart.axis_title}" if chart.axis_title else "")
    text = [f"{shape if chart.is_lines else 'Bars'}. Published: {table.gpu or 'no GPU named'}. "
            f"Measured: {device or 'nothing'}."]
    for panel in chart.panels:
        units = "" if panel.units == "-" else f" {panel.units}"
        for name, points in by_series(panel.points).items():
            for kind in ("published", "measured"):
                values = values_of(points, kind)
                if values:
                    head = f"{panel.title}, {name}" if panel.title else name
                    numbers = "1 value" if len(values) == 1 else f"{len(values)} values"
                    text.append(f"{head}: {numbers} {kind}, {min(values):.4g} to "
                                f"{max(values):.4g}{units}.")
    return "\n".join(text)


# --- pictures ------------------------------------------------------------------------------------

def draw_table(table, result, stem):
    """False where the table has no number."""
    chart = chart_of(table)
    if chart is None:
        return False
    count = len(chart.panels)
    across = 1 if count == 1 else 2 if count in (2, 4) else 3
    groups = unique(point.at for point in chart.points)
    titled = 0.22 if any(panel.title for panel in chart.panels) else 0.05
    if chart.is_lines:
        left, gap, high, below = (
            0.78, 0.72, 3.5 if count == 1 else 2.4, 0.5 if chart.axis_title else 0.32)
        is_narrow = across * max(map(len, groups)) * len(groups) > 90
        below += 0.25 if is_narrow else 0
    else:
        widest = max(len(line) for group in groups for line in label_of(group))
        left, gap, below = MARGIN + 0.1 + 0.067 * widest, 0.2, 0.5
        high = max(0.12 * max(len(bars_of(panel)) for panel in chart.panels) + 0.1,
                   0.15 * max(len(label_of(group)) for group in groups) + 0.06)
        high, is_narrow = max(0.6, high * len(groups)), across > 1
    wide = (WIDTH - MARGIN - left - gap * (across - 1)) / across
    title = f"{table.id}: {table.title}"
    sheet = Sheet(title, math.ceil(count / across) * (titled + high + below),
                  [series_legend(chart), kinds_legend(chart, table, result.device)],
                  notes_of(chart, table, result.cut))
    for number, panel in enumerate(chart.panels):
        line, place = divmod(number, across)
        axes = sheet.axes(left + place * (wide + gap), titled + line * (titled + high + below),
                          wide, high)
        if panel.title:
            axes.set_title(panel.title, fontsize=9, loc="left")
        if chart.is_lines:
            draw_lines(axes, chart, panel, number, is_narrow)
        else:
            draw_bars(axes, chart, panel, number, groups, is_narrow)
            if place > 0:
                axes.set_yticklabels([])
    sheet.save(stem, title, description_of(chart, table, result.device))
    return True


def draw_claims(result, stem):
    """A line a claim: its id, its verdict, and how measured stands to published."""
    claims = result.claims
    counts = {letter: sum(claim.finding == letter for claim in claims) for letter in VERDICTS}
    told = ", ".join(f"{count} {VERDICTS[letter][0]} ({letter})"
                     for letter, count in counts.items() if count)
    title = f"{result.name}: claims of \"{result.title}\""
    notes = [f"{told}. Measured over published, where both are numbers; 1 is as published. "
             f"Measured: {result.device or 'nothing'}."]
    notes += [f"Cut to: {result.cut}."] if result.cut else []
    row, right = 0.2, 1.75
    left = min(3.2, 0.062 * max(len(claim.id) for claim in claims) + 0.5)
    sheet = Sheet(title, row * len(claims) + 0.5, [], notes)
    axes = sheet.axes(MARGIN + left, 0.05, WIDTH - 2 * MARGIN - left - right, row * len(claims))
    axes.set_ylim(len(claims) - 0.5, -0.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    ratios = [claim.ratio for claim in claims if claim.ratio]
    reach = 1.25 * max([2.0] + [max(ratio, 1 / ratio) for ratio in ratios])
    axes.set_xscale("log")
    axes.set_xlim(1 / reach, reach)
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if reach < 40 else (1,)))
    axes.xaxis.set_major_formatter(plain)
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    axes.axvline(1, color="#333333", linewidth=1, zorder=1)
    axes.grid(axis="x", color=PALE, linewidth=0.6)
    axes.set_xlabel("measured / published", fontsize=9)
    beside = axes.get_yaxis_transform()  # x in shares of the axes
    for place, claim in enumerate(claims):
        draw_claim(axes, beside, place, claim)
    told = [f"{claim.id}: {VERDICTS[claim.finding][0]}"
            + (f", {claim.ratio:.3g} of the published" if claim.ratio else "") + "."
            for claim in claims]
    sheet.save(stem, title, "\n".join(notes + told))


def draw_claim(axes, beside, place, claim):
    colour = VERDICTS[claim.finding][1]
    inch = 1 / (axes.get_position().width * WIDTH)
    if place % 2:
        axes.axhspan(place - 0.5, place + 0.5, color="#F4F4F4", zorder=0)
    axes.text(-0.42 * inch, place, claim.id, fontsize=7.5, transform=beside, clip_on=False,
              horizontalalignment="right", verticalalignment="center")
    axes.text(-0.22 * inch, place, claim.finding, fontsize=8, transform=beside, weight="bold",
              horizontalalignment="center", verticalalignment="center", color="white",
              bbox={"facecolor": colour, "edgecolor": "none", "boxstyle": "round,pad=0.18"})
    if claim.ratio:
        axes.plot([1, claim.ratio], [place, place], color=colour, linewidth=1.2, zorder=2)
        axes.plot([claim.ratio], [place], linestyle="none", marker="o", markersize=6, color=colour,
                  zorder=3, gid=f"points-claim-{place}")
        text = f"{claim.measured:.4g} against {claim.published:.4g}"
    elif claim.measured is not None:
        text = f"{claim.measured:.4g}"
    else:
        text = textwrap.shorten(claim.reason, 34, placeholder="...")
    axes.text(1 + 0.1 * inch, place, text, fontsize=7, transform=beside, clip_on=False,
              verticalalignment="center", color="#444444")


def pictures_of(result, folder):
    """[(the file without its ending, what draws it)]"""
    def stem(name):
        return folder / re.sub(r"[^\w.-]", "-", name)
    pictures = [(stem(table.id), lambda stem, table=table: draw_table(table, result, stem))
                for table in result.tables]
    if result.claims:
        pictures.append((stem(f"{result.name}-claims"),
                         lambda stem: draw_claims(result, stem) or True))
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
        for stem, draw in pictures_of(result, options.out or file.parent):
            if stem in pictures:
                raise BadResult(f"{file}: {pictures[stem][0]} has {stem.name} too: draw them into "
                                "folders of their own")
            pictures[stem] = file, draw
    matplotlib.rcdefaults()
    matplotlib.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "attnlab", "font.family": "DejaVu Sans",
        "text.parse_math": False, "hatch.linewidth": 0.6, "axes.linewidth": 0.8})
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    for stem, (file, draw) in pictures.items():
        if draw(stem):
            print(f"{stem}.svg\n{stem}.png")
        else:
            print(f"{file}: {stem.name} has no numbers: not drawn", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except (BadResult, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
