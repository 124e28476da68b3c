"""Writes legends, notes and descriptions of a chart."""
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from .chart import by_series, values_of
from .marks import DAGGER, DASHED, bar_style, colour_of, marker_of
from .sheet import GREY


def series_legend(chart):
    """Makes the legend, empty for a single series: the title says what it is."""
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
                                  linestyle="-" if is_measured else DASHED, markersize=5,
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
        kinds.append((f"published: {table.gpu or 'no GPU named'}", DASHED, dark, "white"))
    if chart.grey or chart.grey_groups:
        kinds.append(("published only", DASHED, GREY, "white"))
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
    """Says for those who cannot see what is drawn, with ranges."""
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
