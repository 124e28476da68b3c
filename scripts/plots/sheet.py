"""Makes a figure with its title, legends and notes, and its axes of values."""
import io
import math
import re
import textwrap
from xml.sax.saxutils import escape

from matplotlib import ticker
from matplotlib.figure import Figure

LOG_VALUES = 20  # from this factor on, logarithmic
GREY, PALE = "#8A8A8A", "#D8D8D8"
WIDTH, MARGIN = 7.4, 0.15  # inches
NOTE_COLUMNS, TITLE_COLUMNS = 135, 86


class Sheet:
    """Lays out a figure in inches from its top: the title, the body, legends, notes."""

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
        """Adds axes; `top` is counted from the top of the body."""
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
