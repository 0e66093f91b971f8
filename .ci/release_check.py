"""What a release needs, in one command (`make release-check`); exits with 1 at the first trouble.

Version, changelog and citation agree; an sdist is built, and from it the wheel, which holds all
weights in less than 95 MB; it installs into an empty environment from a folder of wheels, without
an index, and `gibbsdiff denoise` finds the noise that is in the picture of the package.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "build" / "release"  # wheels that were fetched once are kept
LARGEST = 95e6  # bytes of the wheel
SMOKE = """
import sys
import torch
import gibbsdiff
from gibbsdiff.data.example import PICTURE, TRUTH
from gibbsdiff.evidence.demo import observe

assert gibbsdiff.__file__.startswith(sys.prefix), gibbsdiff.__file__
assert gibbsdiff.__version__ == sys.argv[1], gibbsdiff.__version__
posterior = gibbsdiff.Posterior.load("clean/example.posterior.nc")
sigma, phi = (row.mean for row in posterior.rows)
assert abs(sigma / TRUTH[0] - 1) < 0.06 and abs(phi - TRUTH[1]) < 0.15, (sigma, phi)
x, y = observe("astronaut", *TRUTH, 128, 0)
gain = float(gibbsdiff.psnr(posterior.mean, x) - gibbsdiff.psnr(y, x))
assert gain > 8, gain
print(f"σ = {sigma:.4f} (truth {TRUTH[0]}), φ = {phi:.2f} ({TRUTH[1]}), {gain:.1f} dB better")
"""


def run(*command: object, env: dict[str, str] | None = None, cwd: Path = ROOT) -> str:
    """What a command printed; its own words if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env, cwd=cwd)
    if done.returncode:
        sys.exit(f"release-check: {' '.join(words[:6])} …\n{done.stdout}{done.stderr}")
    return done.stdout


def check(holds: bool, trouble: str) -> None:
    """Stop with one line unless it holds."""
    if not holds:
        sys.exit(f"release-check: {trouble}")


def agreed_version() -> str:
    """The version, which the changelog dates below "Unreleased", and the citation names."""
    text = (ROOT / "src" / "gibbsdiff" / "__init__.py").read_text()
    version = re.search(r'^__version__ = "(.+)"$', text, re.M)[1]
    titles = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    check(titles[0] == "Unreleased", 'CHANGELOG.md does not begin with "Unreleased"')
    dated = re.fullmatch(rf"{re.escape(version)} \((\d{{4}}-\d\d-\d\d)\)", [*titles, ""][1])
    check(dated is not None, f"CHANGELOG.md: no dated {version} below Unreleased")
    citation = (ROOT / "CITATION.cff").read_text()
    for line in (f"version: {version}", f"date-released: {dated[1]}"):
        check(f"\n{line}\n" in citation, f"CITATION.cff: no line {line!r}")
    return version


def built(version: str) -> Path:
    """The wheel, made from the sdist; both hold what they must."""
    folder = PLACE / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder)
    wheel = folder / f"gibbsdiff-{version}-py3-none-any.whl"
    with tarfile.open(folder / f"gibbsdiff-{version}.tar.gz") as sdist:
        packed = {name.partition("/")[2] for name in sdist.getnames()}
    for name in ("pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "tests/conftest.py"):
        check(name in packed, f"the sdist lacks {name}")
    inside = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    tracked = run("git", "ls-files", "src").split()
    lost = [name for name in tracked if name.removeprefix("src/") not in inside]
    check(not lost, f"the wheel lacks {', '.join(lost)}")
    more = [name for name in inside if ".dist-info/" not in name and not (source / name).exists()]
    check(not more, f"the wheel holds {', '.join(more)}, which src/ does not")
    size = wheel.stat().st_size
    check(size < LARGEST, f"the wheel has {size / 1e6:.1f} MB, more than {LARGEST / 1e6:.0f}")
    print(f"built: {wheel.name}, {size / 1e6:.1f} MB, {len(inside)} files")
    return wheel


def installed(wheel: Path) -> Path:
    """An environment with nothing in it but what the folder of wheels gave, without an index."""
    wheels, empty = PLACE / "wheels", PLACE / "empty"
    wheels.mkdir(parents=True, exist_ok=True)
    for old in wheels.glob("gibbsdiff-*.whl"):
        old.unlink()
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run(*pip, "download", "-c", "constraints.txt", "--prefer-binary", "-d", wheels, wheel)
    shutil.rmtree(empty, ignore_errors=True)
    run(sys.executable, "-m", "venv", empty)
    alone = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON"))}
    alone |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}
    offline = ["-m", "pip", "--quiet", "install", "--no-index", "--find-links", wheels]
    run(empty / "bin" / "python", *offline, "gibbsdiff", env=alone)
    run(empty / "bin" / "python", "-m", "pip", "check", env=alone)
    size = sum(file.stat().st_size for file in wheels.iterdir()) / 1e6
    print(f"installed from {len(list(wheels.iterdir()))} wheels, {size:.0f} MB, without an index")
    return empty / "bin"


def smoke(commands: Path, version: str) -> None:
    """`gibbsdiff denoise` of the packaged picture by the installed command, away from src/."""
    folder = PLACE / "smoke"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    alone = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    where = "from gibbsdiff.data.example import PICTURE; print(PICTURE)"
    picture = run(commands / "python", "-c", where, env=alone, cwd=folder).strip()
    said = run(commands / "gibbsdiff", "--version", env=alone, cwd=folder).strip()
    check(said == f"gibbsdiff {version}", f"the command says {said!r}")
    options = ["--noise", "power-law", "-o", "clean/"]
    run(commands / "gibbsdiff", "denoise", picture, *options, env=alone, cwd=folder)
    names = sorted(file.name for file in (folder / "clean").iterdir())
    print(run(commands / "python", "-c", SMOKE, version, env=alone, cwd=folder).strip())
    print(f"written: {', '.join(names)}")


if __name__ == "__main__":
    version = agreed_version()
    print(f"version {version}: changelog and citation agree")
    smoke(installed(built(version)), version)
    print("release-check: all is well")
