#!/usr/bin/env python3
"""Makes five tables a second time, from their records by a few lines each, beside what `attnlab
reproduce --records` makes of them: every cell must agree to the last digit.

    tests/recompute_test.py ATTNLAB

The records are those of a CPU, in tests/data/paper. Exit: 0 all agree, 1 some do not.
"""
import decimal
import json
import pathlib
import subprocess
import sys

RECORDS = pathlib.Path(__file__).resolve().parent / "data" / "paper"
MIB = 2**20
GB_OF_MIB = 0.001048576


def records_of(name):
    with open(RECORDS / f"{name}.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def ms(record):
    """The decimal point of the seconds moves, so no digit changes."""
    return float(decimal.Decimal(repr(record["time"]["median_s"])).scaleb(3))


def peak(record):
    return record["memory"]["peak_bytes"] / MIB


def asked_gb(record):
    traffic = record["traffic"]
    return (traffic["requested_read_bytes"] + traffic["requested_write_bytes"]) / MIB * GB_OF_MIB


def visible(record):
    share = record["problem"]["blocks"]["visible_fraction"]
    return float(decimal.Decimal(repr(share)).scaleb(2))


def table21():
    rows = {"PyTorch Attention": ("naive", "none"), "FlashAttention": ("v1", "none"),
            "Block-Sparse FlashAttention": ("v1", "blocks:butterfly:64x64")}
    return {(row, str(r["problem"]["seqlen_q"])): peak(r)
            for row, (kernel, mask) in rows.items() for r in records_of("fa1-memory")
            if (r["kernel"], r["problem"]["mask"]) == (kernel, mask)}


def seed004_memory():
    return {(row.replace(" Attention", ""), seqlen): value
            for (row, seqlen), value in table21().items()
            if not row.startswith("Block") and seqlen == "1024"}


def fig_mem():
    peaks = {(r["kernel"], r["problem"]["seqlen_q"]): peak(r) for r in records_of("fa1-fig-mem")}
    cells = {}
    for kernel, n in peaks:
        cells[str(n), f"{kernel} MiB"] = peaks[kernel, n]
        cells[str(n), "times_less_memory"] = peaks["naive", n] / peaks["v1", n]
    return cells


def fig2_left():
    columns = {"naive": "Standard", "v1": "FlashAttention", "v2": "v2"}
    cells = {}
    for r in records_of("fa1-fig2-left"):
        column, is_plain = columns[r["kernel"]], r["problem"]["mask"] == "none"
        head = "no mask, no dropout: " if is_plain else ""
        cells[head + ("ms" if is_plain else "Runtime (ms)"), column] = ms(r)
        cells[head + "asked for, GB", column] = asked_gb(r)
    return cells


def fig2_right():
    rows = {"none": "dense", "blocks:random:5:256x256": "10", "blocks:random:50:256x256": "50"}
    cells = {}
    for r in records_of("fa1-fig2-right"):
        row = rows[r["problem"]["mask"]]
        cells[row, "ms" if r["kernel"] == "v1" else "v2 ms"] = ms(r)
        if r["kernel"] == "v1" and row != "dense":
            cells[row, "visible %"] = visible(r)
    return cells


TABLES = {"fa1-table21": table21, "seed004-memory": seed004_memory, "fa1-fig-mem": fig_mem,
          "fa1-fig2-left": fig2_left, "fa1-fig2-right": fig2_right}


def reproduced(attnlab, table):
    """(the measured values by row and column, the ratios that do not follow from them)."""
    command = [attnlab, "reproduce", table, "--records", str(RECORDS), "--format", "json"]
    result = json.loads(subprocess.run(command, check=True, text=True,
                                       stdout=subprocess.PIPE).stdout)
    cells = [cell for cell in result["tables"][0]["cells"] if cell["measured"] is not None]
    ratios = [cell for cell in cells if cell["ratio"] is not None
              and cell["ratio"] != cell["measured"] / cell["published"]]
    return {(cell["row"], cell["column"]): cell["measured"] for cell in cells}, ratios


def main():
    wrong = 0
    for table, compute in TABLES.items():
        wanted = compute()
        got, ratios = reproduced(sys.argv[1], table)
        differ = [key for key in sorted(wanted.keys() | got.keys())
                  if wanted.get(key) != got.get(key)]
        for key in differ:
            print(f"{table}: {key}: recomputed {wanted.get(key)}, reproduced {got.get(key)}")
        for cell in ratios:
            print(f"{table}: {cell['row']}, {cell['column']}: the ratio is not of its numbers")
        print(f"{table}: {len(got) - len(differ)} of {len(wanted)} cells agree")
        wrong += len(differ) + len(ratios)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
