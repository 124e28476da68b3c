"""Draws the picture of a table."""
import math
import textwrap

from .chart import chart_of, unique
from .marks import bars_of, draw_bars, draw_lines, label_of
from .sheet import MARGIN, WIDTH, Sheet
from .words import description_of, kinds_legend, notes_of, series_legend

TITLE_CHARACTER = 0.075  # the width of one in a panel's title, inches


def draw_table(table, result, stem):
    """Draws a table; returns False where it has no number."""
    chart = chart_of(table)
    if chart is None:
        return False
    count = len(chart.panels)
    across = 1 if count == 1 else 2 if count in (2, 4) else 3
    groups = unique(point.at for point in chart.points)
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
    titles = [textwrap.fill(panel.title, int(wide / TITLE_CHARACTER)) for panel in chart.panels]
    titled = 0.05 + 0.17 * max(len(panel_title.splitlines()) for panel_title in titles)
    title = f"{table.id}: {table.title}"
    sheet = Sheet(title, math.ceil(count / across) * (titled + high + below),
                  [series_legend(chart), kinds_legend(chart, table, result.device)],
                  notes_of(chart, table, result.cut))
    for number, panel in enumerate(chart.panels):
        line, place = divmod(number, across)
        axes = sheet.axes(left + place * (wide + gap), titled + line * (titled + high + below),
                          wide, high)
        axes.set_title(titles[number], fontsize=9, loc="left")
        if chart.is_lines:
            draw_lines(axes, chart, panel, number, is_narrow)
        else:
            draw_bars(axes, chart, panel, number, groups, is_narrow)
            if place > 0:
                axes.set_yticklabels([])
    sheet.save(stem, title, description_of(chart, table, result.device))
    return True
