"""What our differences from the paper are worth: measures rows of the table of differences.

    python benchmarks/differences.py               its rows that have no figures yet
    python benchmarks/differences.py climb leak    these rows, again
    python benchmarks/differences.py --page        write docs/differences.md from what is there

Every row is written as soon as it is measured, so that a stopped run goes on. Seeds are fixed.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import torch

import differences_chains
import differences_exact
from gibbsdiff.evidence.differences import markdown, read_differences, write_differences
from gibbsdiff.io.atomic import write_atomically

PAGE = Path(__file__).parents[1] / "docs" / "differences.md"
MEASURES = {**differences_exact.MEASURES, **differences_chains.MEASURES}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("rows", nargs="*", help=f"of {', '.join(MEASURES)}")
    parser.add_argument("--page", action="store_true", help="write the page, measure nothing")
    given = parser.parse_args()
    torch.set_num_threads(1)
    unknown = set(given.rows) - set(MEASURES)
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    if not given.page:
        missing = [r.key for r in read_differences() if r.measured is None and r.key in MEASURES]
        for key in given.rows or missing:
            start = time.process_time()
            figures = MEASURES[key]()
            rows = read_differences()  # anew: others may have written meanwhile
            rows = [replace(r, measured=figures) if r.key == key else r for r in rows]
            write_differences(rows)
            worth = next(r.worth for r in rows if r.key == key)
            print(f"{key} ({time.process_time() - start:.0f} s): {worth}", flush=True)
    write_atomically(PAGE, markdown(read_differences()))


if __name__ == "__main__":
    main()
