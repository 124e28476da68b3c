"""Draws the marks of a chart: lines with points, and bars."""
import math
import textwrap

from matplotlib import ticker

from .chart import axis_number, by_series, values_of
from .sheet import GREY, set_values

# These are Okabe and Ito's colours and a violet, without the yellow, which paper swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00", "#6A3D9A")
MARKERS = "osD^vPX<>ph"  # as many of them as have no common factor with the colours
HATCHES = ("", "////", "\\\\\\\\", "xxxx", "....", "----", "||||", "++++")
DASHED = (0, (4, 2))
DAGGER = "\u2020"


def values_on(chart, units):
    """Returns all values of the panels that have these units, and so the same axis."""
    return [value for panel in chart.panels if panel.units == units
            for kind in ("published", "measured") for value in values_of(panel.points, kind)]


def colour_of(chart, name):
    return GREY if name in chart.grey else COLOURS[chart.styles[name] % len(COLOURS)]


def marker_of(chart, name):
    return "o" if name in chart.grey else MARKERS[chart.styles[name] % len(MARKERS)]


def draw_line(axes, chart, name, points, kind, key):
    """Draws one series, `kind` of it; its parts have ids that end in `key`."""
    points = sorted(points, key=lambda point: chart.places[point.at])
    place = [chart.places[point.at] for point in points]
    value = [getattr(point.cell, kind) for point in points]
    is_measured, is_grey = kind == "measured", name in chart.grey
    colour, layer = colour_of(chart, name), 2 + is_measured + (not is_grey)
    axes.plot(place, [math.nan if v is None or axis_number(point.at) is None else v
                      for v, point in zip(value, points)],
              linestyle="-" if is_measured else DASHED, color=colour,
              linewidth=0.7 if is_grey else 1.5 if is_measured else 1.1, zorder=layer,
              gid=f"line-{kind}-{key}")
    for is_doubtful in (False, True):
        shown = [(x, v, point) for x, v, point in zip(place, value, points)
                 if v is not None and (is_measured and point.cell.is_doubtful) == is_doubtful]
        if not shown:
            continue
        is_hollow = not is_measured or is_doubtful
        # Published ones are larger, so that a ring stays around a measured one of the same value.
        axes.plot([x for x, _, _ in shown], [v for _, v, _ in shown], linestyle="none",
                  marker=marker_of(chart, name), color=colour,
                  markersize=2.5 if is_grey else 6 if is_measured else 8,
                  markerfacecolor="white" if is_hollow else colour, zorder=layer + 0.5,
                  markeredgecolor=colour if is_hollow else "white",
                  markeredgewidth=1 if is_hollow and not is_grey else 0.5,
                  gid=f"points-{'doubtful' if is_doubtful else kind}-{key}")
        for x, v, point in shown:
            if is_doubtful:
                axes.annotate(DAGGER, (x, v), (4, 2), textcoords="offset points", fontsize=9)
            half = point.cell.interval_percent
            if is_measured and half:
                axes.vlines(x, v * (1 - half / 100), v * (1 + half / 100), color=colour,
                            linewidth=1, zorder=layer)


def name_grey(axes, chart, panel):
    """Writes letters behind the last points of what is published only, beside one another where
    they would overlap. Call it when both axes are what they will be."""
    taken = []  # places on the picture
    for name, points in by_series(panel.points).items():
        shown = [(chart.places[point.at], point.cell.published) for point in points
                 if point.cell.published is not None]
        if name not in chart.grey or not shown:
            continue
        last = max(shown)
        x, y = axes.transData.transform(last)
        beside = sum(abs(x - other[0]) < 12 and abs(y - other[1]) < 12 for other in taken)
        taken.append((x, y))
        axes.annotate(chart.grey[name], last, (3 + 6 * beside, 0), textcoords="offset points",
                      fontsize=6.5, color="#444444", verticalalignment="center", zorder=9,
                      bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.3})


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
    name_grey(axes, chart, panel)
    axes.set_xlabel(chart.axis_title, fontsize=9)
    axes.set_ylabel("" if panel.units == "-" else panel.units, fontsize=9)


def label_of(group):
    """Returns the lines of its label."""
    return textwrap.wrap(group, 30, break_on_hyphens=False) or [""]


def bars_of(panel):
    """Returns the (series, kind) that a group has a bar for, from the top."""
    return [(name, kind) for name, points in by_series(panel.points).items()
            for kind in ("published", "measured") if values_of(points, kind)]


def bar_style(chart, point, kind):
    is_grey = point.series in chart.grey or point.at in chart.grey_groups
    colour = GREY if is_grey else colour_of(chart, point.series)
    hatch = "" if is_grey else HATCHES[chart.styles[point.series] % len(HATCHES)]
    if kind == "published":
        return {"facecolor": "white", "edgecolor": colour, "hatch": hatch,
                "linestyle": DASHED, "linewidth": 0.6 if is_grey else 1}
    if point.cell.is_doubtful:
        return {"facecolor": "white", "edgecolor": colour, "linewidth": 1.6}
    # The hatch takes the colour of the edge: it is white upon the fill.
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
