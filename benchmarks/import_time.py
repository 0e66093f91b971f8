"""How long `import gibbsdiff; gibbsdiff.denoise` takes, as a ratio to `import torch`.

Each import is a process of its own. The two take turns, so that other load on the machine
meets both alike; the first round fills the disk cache and is left out. Exits with 1 if the
ratio of the medians is above the bar.
"""

import argparse
import statistics
import subprocess
import sys

BAR = 1.3
KINDS = ("import torch", "import gibbsdiff; gibbsdiff.denoise")
TIMED = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"
HEAVY = "arviz astropy h5py matplotlib pandas scipy.interpolate scipy.stats skimage tifffile xarray"


def seconds(kind: str) -> float:
    """Of one import, as the process itself measures it."""
    code = TIMED.format(kind)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def loaded(kind: str) -> list[str]:
    """Packages that are there after the import, though they are needed only later."""
    code = f"{kind}; import sys; print([m for m in {HEAVY.split()} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [name.strip("'") for name in done.stdout.strip()[1:-1].split(", ") if name]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for i in range(rounds + 1):
        for kind in KINDS:
            took = seconds(kind)
            if i:
                times[kind].append(took)
    medians = {kind: statistics.median(values) for kind, values in times.items()}
    print("| import | median, s | least, s | ratio of medians | also loaded |")
    print("| --- | --- | --- | --- | --- |")
    for kind, median in medians.items():
        extra = ", ".join(loaded(kind)) or "-"
        ratio = median / medians[KINDS[0]]
        print(f"| `{kind}` | {median:.3f} | {min(times[kind]):.3f} | {ratio:.2f} | {extra} |")
    worst = max(medians.values()) / medians[KINDS[0]]
    print(f"bar: {BAR:g}; {'kept' if worst <= BAR else 'NOT kept'} over {rounds} rounds")
    return int(worst > BAR)


if __name__ == "__main__":
    sys.exit(main())
