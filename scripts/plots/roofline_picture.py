"""Draws the roofline of an experiment: its records' speed over how much work a byte of DRAM gets."""
import json
from typing import NamedTuple

from matplotlib import ticker

from .marks import COLOURS, MARKERS
from .result import BadResult, number_of
from .sheet import MARGIN, PALE, WIDTH, Sheet, plain

IN_CACHES = 1.1  # times the FLOP a byte of tensors that are moved once each


class Point(NamedTuple):
    """`intensity`: useful FLOP for each byte of DRAM that was counted; `speed`: TFLOP/s."""

    kernel: str
    dtype: str
    intensity: float
    speed: float


class Ceiling(NamedTuple):
    """What the device does at the most, measured: products of a type, and DRAM."""

    name: str
    flops_per_s: float
    bytes_per_s: float


def records_of(path):
    """Returns the last record of each point."""
    records = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            record = json.loads(line)
            records[record["key"]] = record
        except (ValueError, TypeError, KeyError) as error:
            raise BadResult(f"{path}, line {number}: is no record") from error
    return list(records.values())


def point_of(record):
    """Returns None where bytes or the time were not measured, and where tensors came from caches:
    DRAM had less to do than to move each tensor once."""
    roof, flops, time = (record.get(key) or {} for key in ("roof", "flops", "time"))
    intensity = number_of(roof.get("dram_intensity_flop_per_byte"))
    of_tensors = number_of(roof.get("intensity_flop_per_byte"))
    useful, seconds = number_of(flops.get("useful")), number_of(time.get("median_s"))
    if record.get("status") != "ok" or not intensity or not useful or not seconds:
        return None
    if of_tensors and intensity > IN_CACHES * of_tensors:
        return None
    dtype = str((record.get("problem") or {}).get("dtype", ""))
    return Point(record["kernel"], dtype, intensity, 1e-12 * useful / seconds)


def ceilings_of(records):
    """Returns each ceiling that some record was held to, once, the highest last. It leaves out what
    records of e4m3 name: older ones name the ceiling of fp32, which says nothing of them."""
    peaks = [(record.get("roof") or {}).get("peaks") or {} for record in records
             if (record.get("problem") or {}).get("dtype") != "e4m3"]
    ceilings = {Ceiling(peak["compute"], peak["flops_per_s"], peak["bytes_per_s"])
                for peak in peaks if number_of(peak.get("flops_per_s"))
                and number_of(peak.get("bytes_per_s"))}
    return sorted(ceilings, key=lambda ceiling: ceiling.flops_per_s)


def draw_ceiling(axes, ceiling, left, right):
    """Draws the roof: DRAM's rate times intensity, up to what the products reach."""
    peak, rate = 1e-12 * ceiling.flops_per_s, 1e-12 * ceiling.bytes_per_s
    ridge = peak / rate
    corners = [left] + [ridge] * (left < ridge < right) + [right]
    axes.plot(corners, [min(peak, rate * x) for x in corners], color="#333333", linewidth=1.2,
              zorder=1, gid=f"line-roof-{ceiling.name}")
    # The label stands where the roof becomes flat: the fastest points lie at its other end.
    axes.annotate(f"{ceiling.name}: {peak:.3g} TFLOP/s", (max(left, min(ridge, right)), peak),
                  (3, 3), fontsize=7, textcoords="offset points", color="#333333")


def notes_of(result, records, points, ceilings):
    notes = [f"Useful FLOP, by time and by byte of DRAM that was counted. Measured: {result.device}."]
    if len(points) < len(records):
        notes.append(f"{len(records) - len(points)} of {len(records)} points have no time, or no "
                     "bytes of DRAM: their tensors stay in caches, or nothing counted them.")
    notes.append("Lines: what attnlab peak measured on the device in a steady state, of products "
                 "and of DRAM; in bursts a rested GPU may lie above." if ceilings else
                 "No ceilings of this device and driver were known: attnlab peak measures them.")
    return notes + ([f"Cut to: {result.cut}."] if result.cut else [])


def draw_kernels(axes, points):
    """Draws the points of each kernel, and of each type where there are several. Returns a sentence
    about each."""
    told = []
    has_types = len({point.dtype for point in points}) > 1
    names = [f"{point.kernel}, {point.dtype}" if has_types else point.kernel for point in points]
    for place, kernel in enumerate(sorted(set(names))):
        own = [point for point, name in zip(points, names) if name == kernel]
        speeds = [point.speed for point in own]
        axes.plot([point.intensity for point in own], speeds, linestyle="none", markersize=4,
                  marker=MARKERS[place % len(MARKERS)], color=COLOURS[place % len(COLOURS)],
                  alpha=0.7, zorder=3, label=kernel, gid=f"points-roof-{place}")
        told.append(f"{kernel}: {len(own)} points, {min(speeds):.3g} to {max(speeds):.3g} TFLOP/s.")
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0),
                borderaxespad=0)
    return told


def name_axes(axes):
    """Makes both axes logarithmic. Call it when all is drawn: labels follow from the limits."""
    axes.set_yscale("log")
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,)))
        axis.set_major_formatter(plain)
        axis.set_minor_formatter(ticker.NullFormatter())
    axes.grid(color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("useful FLOP for each byte of DRAM", fontsize=9)
    axes.set_ylabel("TFLOP/s, useful", fontsize=9)


def draw_roofline(result, stem):
    """Returns False where no record has bytes that were counted: then nothing is drawn."""
    path = result.path.with_name(result.records)
    records = records_of(path) if path.is_file() else []
    points = [point for point in map(point_of, records) if point]
    if not points:
        return False
    ceilings = ceilings_of(records)
    title = f"{result.name}: roofline of \"{result.title}\""
    notes = notes_of(result, records, points, ceilings)
    height = 3.6
    sheet = Sheet(title, height + 0.5, [], notes)
    axes = sheet.axes(MARGIN + 0.6, 0.1, WIDTH - 2 * MARGIN - 1.6, height)
    intensities = [point.intensity for point in points]
    ridges = [ceiling.flops_per_s / ceiling.bytes_per_s for ceiling in ceilings]
    left, right = min(intensities) / 1.5, max(intensities + ridges) * 1.5
    axes.set_xscale("log")
    axes.set_xlim(left, right)
    for ceiling in ceilings:
        draw_ceiling(axes, ceiling, left, right)
    told = draw_kernels(axes, points)
    name_axes(axes)
    sheet.save(stem, title, "\n".join(notes + told))
    return True
