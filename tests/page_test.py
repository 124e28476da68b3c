#!/usr/bin/env python3
"""Looks at the page of `attnlab report` as a browser does: headless Chromium, with no network.

    tests/page_test.py ATTNLAB

Counts what stands in the page's DOM against the result and the picture that it was made of. Skipped
with words where there is no Chromium (Debian's package chromium, Ubuntu's snap), or none that can
show a page of one line.

Exit: 0 all is there (or skipped), 1 something is not.
"""
import html.parser
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

SVG = """<?xml version="1.0"?>
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><title>Two points</title>
<desc>a picture</desc><defs><circle id="m" r="1"/></defs><g clip-path="url(#c)"><clipPath id="c">
<rect width="10" height="10"/></clipPath><use href="#m" x="2"/><use href="#m" x="4"/></g></svg>
"""


def cell(row, measured, record):
    return {"row": row, "column": "128", "published": 4.0, "measured": measured,
            "interval_percent": 1.0, "ratio": None, "trouble": "", "record": record}


RESULT = {
    "schema": "attnlab.reproduction/1", "name": "some", "title": "Some <experiment>",
    "device": "a device", "records": "some.jsonl", "cut": "", "environment": {"commit": "abc"},
    "tables": [{"id": "t", "title": "Times", "units": "ms", "gpu": "A100", "source": {},
                "notes": ["one", "two"],
                "cells": [cell("a", 1.0, "k1"), cell("b", 2.0, "k2"), cell("c", None, "")]}],
    "claims": [{"id": "c1", "tables": ["t"], "text": "It is fast.", "source": "p. 1",
                "finding": "N", "published": 2, "measured": 1, "reason": "is 1"}]}


class Marks(html.parser.HTMLParser):
    """Counts elements and gathers the targets of links."""

    def __init__(self):
        super().__init__()
        self.count = {}
        self.ids = []
        self.targets = []

    def handle_starttag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name == "href" and value.startswith("#"):
                self.targets.append(value[1:])


def dom_of(browser, page):
    answer = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu",
         "--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom", page.as_uri()],
        check=True, capture_output=True, text=True, timeout=120)
    marks = Marks()
    marks.feed(answer.stdout)
    return marks


def why_not_shown(browser, folder):
    """Returns why this browser shows no page at all, "" if it does."""
    page = folder / "line.html"
    page.write_text("<!DOCTYPE html><title>A line</title><p>A line</p>\n")
    try:
        return "" if dom_of(browser, page).count.get("p") == 1 else "its DOM lacks what it was given"
    except subprocess.TimeoutExpired:
        return "it did not answer in time"
    except subprocess.CalledProcessError as error:
        return f"it ended with {error.returncode}: {error.stderr.strip()[-300:]}"


def main():
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        print("skipped: there is no Chromium; on Debian: ./scripts/setup.sh --dev")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        reason = why_not_shown(browser, folder)
        if reason:
            print(f"skipped: {browser} shows no page here: {reason}")
            return 0
        for number in (1, 2):  # two pictures with the same ids share a page
            result = json.loads(json.dumps(RESULT))
            result["name"] = f"some{number}"
            result["tables"][0]["id"] = f"t{number}"
            (folder / f"some{number}.result.json").write_text(json.dumps(result))
            (folder / f"t{number}.svg").write_text(SVG)
        page = folder / "report.html"
        subprocess.run([sys.argv[1], "report", str(folder), "--html", str(page)], check=True,
                       stdout=subprocess.DEVNULL)
        marks = dom_of(browser, page)
    expected = {"h1": 1, "h2": 2, "svg": 2, "use": 4, "figure": 2, "script": 0, "link": 0, "img": 0,
                # It has the overview, and for each result a table of two cells and one of a claim.
                "table": 5, "tr": 5 + 2 + 2 * (2 + 1)}
    wrong = [f"{tag}: {marks.count.get(tag, 0)} instead of {count}"
             for tag, count in expected.items() if marks.count.get(tag, 0) != count]
    twice = {own for own in marks.ids if marks.ids.count(own) > 1}
    lost = set(marks.targets) - set(marks.ids)
    if twice:
        wrong.append(f"ids that are there twice: {', '.join(sorted(twice))}")
    if lost:
        wrong.append(f"links to nothing: {', '.join(sorted(lost))}")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


sys.exit(main())
