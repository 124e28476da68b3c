"""Draws the picture of claims: a strip with the verdict, and measured over published."""
import textwrap

from matplotlib import ticker

from .result import FINDINGS
from .sheet import GREY, MARGIN, PALE, WIDTH, Sheet, plain

COLOURS = {"R": "#009E73", "S": "#0072B2", "N": "#D55E00", "X": GREY, "U": GREY}


def draw_claims(result, stem):
    """Draws a line a claim: its id, its verdict, and how measured stands to published."""
    claims = result.claims
    counts = {letter: sum(claim.finding == letter for claim in claims) for letter in FINDINGS}
    told = ", ".join(f"{count} {FINDINGS[letter]} ({letter})"
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
    told = [f"{claim.id}: {FINDINGS[claim.finding]}"
            + (f", {claim.ratio:.3g} of the published" if claim.ratio else "") + "."
            for claim in claims]
    sheet.save(stem, title, "\n".join(notes + told))


def draw_claim(axes, beside, place, claim):
    colour = COLOURS[claim.finding]
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
