"""Says what is drawn where: the cells of a table as lines or bars, in panels."""
import re
from typing import NamedTuple, Optional

from .result import Cell

LOG_AXIS = 8  # from this factor on, logarithmic


class Point(NamedTuple):
    """Holds a cell and its place. `at`: a number's name on the axis of lines, the group of bars."""

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
    """Reads 4096 from "4096" and "4k", 12.5 from "12.5 %"; returns None if it is no number."""
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
    """Returns whether rows are numbers with something before them, several for each of it."""
    numbers = {}
    for row in rows:
        before, _, last = row.rpartition(", ")
        numbers.setdefault(before, set()).add(axis_number(last))
    return all(before and None not in own and len(own) > 1 for before, own in numbers.items())


def units_in(units):
    return re.split(r", ?| and ", units)


def named_units(names, units):
    """Returns {name: the unit that stands in it, as ms does in "fwd_ms", or None}."""
    def stands_in(name, part):
        unit = re.sub(r"[^a-z%]", "", part.lower())
        words = re.split(r"[^a-z%]+", name.lower())
        return unit in words or unit + "s" in words or (unit == "x" and "speedup" in words)
    return {name: next((part for part in units_in(units) if stands_in(name, part)), None)
            for name in names}


def axis_units(names, units):
    """{name: what its axis is called}: where there are several units, the one in the name; names
    without have the only one left, or an axis each. What is measured besides may be in MiB, in
    percent, or a ratio to the twin."""
    if len(units_in(units)) == 1:
        beside = {"MiB": "MiB", "MiB,": "MiB", "%": "%", "twin": "times the twin's"}
        return {name: next((beside[word] for word in name.split() if word in beside), units)
                for name in names}
    found = named_units(names, units)
    rest = [part for part in units_in(units) if part not in found.values()]
    return {name: part or (rest[0] if len(rest) == 1 else f"{name} ({units})")
            for name, part in found.items()}


def transposed(point):
    return point._replace(series=point.at, at=point.series)


def points_of(table, cells):
    """Returns (whether lines, the title of the axis, the points in the order of the table)."""
    points = [Point("", cell.row, cell.column, cell) for cell in cells]
    rows, columns = unique(point.series for point in points), unique(point.at for point in points)
    if axis_places(columns):
        return True, table.column_title, points
    if axis_places(rows):
        return True, table.row_title, [transposed(point) for point in points]
    if ends_in_numbers(rows):
        first_title, _, last_title = table.row_title.rpartition(", ")

        def place(cell):
            before, _, last = cell.row.rpartition(", ")
            if before in ("false", "true"):
                before = f"{first_title}: {before}"
            return Point(before, cell.column, last, cell) if len(columns) > 1 else Point(
                "", before, last, cell)
        return True, last_title, [place(cell) for cell in cells]
    in_rows, in_columns = (sum(map(bool, named_units(names, table.units).values()))
                           for names in (rows, columns))
    if len(units_in(table.units)) > 1 and in_rows > in_columns:
        return False, table.column_title, points
    return False, table.row_title, [transposed(point) for point in points]


def recorded_axis(points):
    """Returns the field of the records' keys ("sq4096", "block_m=64") that is the point's number,
    or "". Of a single number that could be chance."""
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
    """Returns a to z, then a1 and so on."""
    return chr(ord("a") + index % 26) + (str(index // 26) if index > 25 else "")


def chart_of(table):
    """Makes the chart; returns None where there is no number."""
    # Some of a setting's cells may have the trouble of their row in its place.
    settings = {cell.column for cell in table.cells if cell.trouble.startswith("of the setting")}
    cells = [cell for cell in table.cells if cell.column not in settings]
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
        is_ratio = not is_lines and "ratio" in point.at.split()  # a row between rows of times
        unit = "ratio" if is_ratio else units[point.series]
        panels.setdefault((point.panel, unit), []).append(point)
    panels = [Panel(title, unit, members) for (title, unit), members in panels.items()
              if any(not point.cell.is_empty for point in members)]
    colourful = [name for name in names if name not in grey]
    return Chart(axis_title, places, is_log, panels,
                 {name: index for index, name in enumerate(colourful)},
                 {name: letter_of(index) for index, name in enumerate(grey)}, grey_groups)


def values_of(points, kind):
    return [getattr(point.cell, kind) for point in points if getattr(point.cell, kind) is not None]


def by_series(points):
    series = {}
    for point in points:
        series.setdefault(point.series, []).append(point)
    return series
