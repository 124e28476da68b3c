"""Reads what `attnlab reproduce` wrote of one file of papers: its tables and claims."""
import json
import math
import pathlib
from typing import NamedTuple, Optional

SCHEMA = "attnlab.reproduction/1"
FINDINGS = {"R": "reproduced", "S": "in shape", "N": "not reproduced", "X": "not applicable",
            "U": "not run"}


class BadResult(Exception):
    """Says that a file is no result: the message says why."""


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
    records: str  # the name of the file beside it that they are in
    cut: str
    tables: list
    claims: list


def number_of(value):
    """Returns the number; None for words and null, which are not drawn."""
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
    if finding not in FINDINGS:
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
                      text_of(result, "device"), text_of(result, "records"),
                      text_of(result, "cut"),
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
