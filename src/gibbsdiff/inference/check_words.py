"""What the check of the noise model says, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gibbsdiff.inference.model_check import Finding, channel_names
from gibbsdiff.noise.base import NoiseModel

LARGEST = 100  # ratio that is told
MOST = 3  # things that a verdict names


def sentence(wrong: Sequence[Finding], noise: NoiseModel) -> str:
    """The worst misfits, each kind once, and what may help. `wrong` has the worst first."""
    parts: list[str] = []
    kinds: list[str] = []
    for f in wrong:
        kind = f"band {_group(f)}" if f.kind == "band" else _family(f)
        if kind not in kinds and not _explained(f, kinds, wrong) and len(parts) < MOST:
            kinds.append(kind)
            parts.append(_said(f, wrong))
    said = "the noise model does NOT fit: " + "; ".join(parts)
    advice = _advice({k.split()[0] for k in kinds}, noise, alone=any(map(_is_alone, wrong)))
    return f"{said}: {advice}" if advice else said


def _explained(f: Finding, kinds: Sequence[str], wrong: Sequence[Finding]) -> bool:
    """Whether it follows from what is worse: a level that changes makes tails, and brightness and
    place go together in most pictures.
    """
    levels = {"brightness", "place"}
    if f.kind == "tails":
        changing = any(_family(g) in levels for g in wrong)
        return changing and not any(g.kind == "impulses" for g in wrong)
    return _family(f) in levels and bool(levels & set(kinds))


def uncertain(reason: str, blind: Sequence[int] = (), channels: int = 0) -> str:
    """Why it cannot be told."""
    if not reason:
        names = channel_names(channels)
        which = [names[c] for c in blind if names[c]]
        where = f" in {' and '.join(which)}" if 0 < len(which) < channels else ""
        reason = f"noise cannot be told from texture{where}"
    return f"cannot tell whether the noise model fits: {reason}"


def _family(f: Finding) -> str:
    return {"trend": "brightness", "impulses": "tails"}.get(f.kind, f.kind)


def _group(f: Finding) -> str:
    return "chroma" if "chroma" in f.channel else f.channel


def _said(f: Finding, wrong: Sequence[Finding]) -> str:
    """One misfit, with those of its kind."""
    times = _times(f.observed)
    by_kind: dict[str, Callable[[], str]] = {
        "band": lambda: _band(f, wrong),
        "brightness": lambda: _brightness(f, wrong),
        "place": lambda: f"the noise at {f.where} is {times} than elsewhere",
        "rows": lambda: f"whole rows have noise of their own, {times} than the model",
        "columns": lambda: f"whole columns have noise of their own, {times} than the model",
        "tails": lambda: _tails(f, wrong),
        "blocks": lambda: "the noise changes every 8 pixels, as JPEG's blocks do",
        "coherence": lambda: f"the noise of {f.channel} is correlated ({f.observed - 1:.2f})",
    }
    return by_kind[_family(f)]()


def _brightness(f: Finding, wrong: Sequence[Finding]) -> str:
    trend = next((g for g in wrong if g.kind == "trend"), None)
    if trend is None:
        return f"at {f.where} the noise is {_times(f.observed)} than elsewhere"
    way, by = ("grows", trend.observed) if trend.observed > 1 else ("falls", 1 / trend.observed)
    return f"the noise {way} with brightness, by {by:.1f} in power"


def _tails(f: Finding, wrong: Sequence[Finding]) -> str:
    impulses = next((g for g in wrong if g.kind == "impulses"), None)
    if impulses is not None:
        return f"impulses ({impulses.where} pixels stand out)"
    return f"the noise is not Gaussian (kurtosis {3 * f.observed:.1f} instead of 3)"


def _band(f: Finding, wrong: Sequence[Finding]) -> str:
    """Bands of the same group that are off in the same direction, as one range of |k|."""
    alike = [
        g
        for g in wrong
        if g.kind == "band" and _group(g) == _group(f) and (g.observed > 1) == (f.observed > 1)
    ]
    low, high = min(g.low or 0.0 for g in alike), max(g.high or 0.0 for g in alike)
    worst = max(alike, key=lambda g: max(g.observed, 1 / max(g.observed, 1e-6)))
    where = f"|k| > {low:.2g}" if high > 0.7 else f"{low:.2g} < |k| < {high:.2g}"
    if low == 0:
        where = "all scales" if high > 0.7 else f"|k| < {high:.2g}"
    less = worst.observed < 1
    amount = _amount(worst.observed)
    name = f"{_group(f)} at {where}" if _group(f) else f"at {where} the picture"
    return f"{name} has {amount} {'less' if less else 'more'} noise than the model"


def _amount(ratio: float) -> str:
    factor = max(ratio, 1 / max(ratio, 1e-6))
    if factor > LARGEST:
        return f"more than {LARGEST} times"
    if factor >= 2:
        return f"{factor:.0f} times" if factor > 9.5 else f"{factor:.1f} times"
    return f"{100 * abs(ratio - 1):.0f} %"


def _times(ratio: float) -> str:
    return f"{_amount(ratio)} {'stronger' if ratio > 1 else 'weaker'} (in power)"


def _is_alone(f: Finding) -> bool:
    return (f.kind, f.channel) == ("impulses", "single pixels")


def _advice(kinds: set[str], noise: NoiseModel, alone: bool) -> str:
    told = bool(getattr(noise, "level_names", ())) or getattr(noise, "spectra", 1) > 1
    if kinds & {"band", "brightness"} and not told:
        return "try --noise photo"
    if "tails" in kinds:  # not those of a level that changes
        words = "no noise model here has impulses"
        return f"{words}; --impulses takes out pixels that stand alone" if alone else words
    return ""
