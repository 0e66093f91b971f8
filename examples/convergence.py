"""How fast Gibbs chains converge, to what, and when there is nothing to converge to.

First the problem of `theorem_2_3.py`: the law ρ_M of σ after M iterations from the upper wall of
the prior, by the exact transition kernel on a grid. TV(ρ_M, p) tends to TV(π, p), which √(KL/2)
bounds. Then exact chains with a prior on all σ > 0, for which the paper's compatibility integral
is finite or not.

    python examples/convergence.py [figure.png]
"""

import sys

import torch
from matplotlib.figure import Figure
from theorem_2_3 import CASES, SHAPE, SIGMA, TRUE

from gibbsdiff import GaussianDenoiser, Streams, WhiteNoise
from gibbsdiff.evidence.calibration.compatibility import ScaleProblem, finite_above
from gibbsdiff.evidence.calibration.convergence import Convergence, converge, transition
from gibbsdiff.evidence.calibration.stationary import Conditional, exact
from gibbsdiff.inference.summary import load_arviz
from gibbsdiff.plots.pages import save
from gibbsdiff.plots.style import BLUE, GREY, NORMAL, SMALL, VERMILION, tidy

LAW_CASES = {
    **{name: q for name, q in CASES.items() if name != "mean off by 0.05"},
    "V × 1.5": Conditional(TRUE, width=1.5),
}
SHOWN, LAST = (0, 1, 2, 4, 8, 16), 20
PRIORS = {-1: "uniform in σ", 0: "uniform in log σ", 1: "∝ 1/σ²"}
AFTER, LONG = (10, 100, 1000), (1000, 10000)


def laws() -> dict[str, tuple[Convergence, float]]:
    """For every q: what becomes of ρ_M, and the σ from which on the integral is finite."""
    noise = WhiteNoise((0.2, 0.8))
    x = GaussianDenoiser(TRUE).prior(SHAPE, Streams(3, [(0,)]))
    y = x + noise.draw(SHAPE, (SIGMA,), Streams(3, [(1,)]))
    p = exact(y, noise, TRUE)
    top = torch.zeros_like(p.density)
    top[-1] = 1.0
    found = {}
    for name, q in LAW_CASES.items():
        kernel = transition(y, q, p.sigma)
        found[name] = (converge(kernel, p, top, range(LAST + 1)), finite_above(y, p, q))
    return found


def law_table(found: dict[str, tuple[Convergence, float]]) -> list[str]:
    """TV(ρ_M, p) for some M, its limit, the bound, the rate, and where the integral is finite."""
    heads = ["q(x given y, σ)", *(f"M = {M}" for M in SHOWN), "TV(π, p)", "√(KL/2)", "rate"]
    lines = ["| " + " | ".join([*heads, "I(σ) finite"]) + " |", "| --- " * (len(heads) + 1) + "|"]
    for name, (law, edge) in found.items():
        values = [*(law.to_posterior[M] for M in SHOWN), law.limit, law.bound, law.rate]
        where = "all σ" if edge == float(law.stationary.sigma[0]) else f"σ ≥ {edge:.3f}"
        lines.append("| " + " | ".join([name, *(f"{v:.4f}" for v in values), where]) + " |")
    return lines


def chain_table() -> list[str]:
    """Median σ of 1,000 chains after M iterations, and R-hat of 16, for priors on all σ > 0."""
    heads = ["prior", "κ", "I(σ)", "drift of log σ", *(f"median σ, M = {M}" for M in AFTER)]
    heads += [f"R-hat, M = {M}" for M in LONG]
    lines = ["| " + " | ".join(heads) + " |", "| --- " * len(heads) + "|"]
    for kappa, name in PRIORS.items():
        problem = ScaleProblem(pixels=16, energy=20.0, S=1.0, kappa=kappa)
        draws = problem.chains(0.5, iterations=max(AFTER))
        finite = "finite" if problem.log_integral(torch.ones(1)).isfinite() else "infinite"
        medians = [f"{float(draws[:, M].median().exp()):.2g}" for M in AFTER]
        few = problem.chains(0.5, chains=16, iterations=max(LONG)).numpy()
        rhats = [f"{float(load_arviz().rhat(few[:, M // 5 : M])):.2f}" for M in LONG]
        row = [name, str(kappa), finite, f"{problem.drift:+.4f}", *medians, *rhats]
        lines.append("| " + " | ".join(row) + " |")
    return lines


def draw(found: dict[str, tuple[Convergence, float]]) -> Figure:
    """TV by M on a logarithmic axis, a panel for every q."""
    page = Figure(figsize=(9.5, 4.6), layout="constrained")
    axes = page.subplots(2, 3, sharex=True, sharey=True)
    for axis, (name, (law, _)) in zip(axes.flat, found.items(), strict=True):
        axis.semilogy(law.iterations, law.to_posterior, color=BLUE, label="TV(ρ_M, p)")
        axis.semilogy(law.iterations, law.to_stationary, color=GREY, ls="--", label="TV(ρ_M, π)")
        if law.bound > 1e-6:
            axis.axhline(law.bound, color=VERMILION, lw=0.9, label="√(KL/2)")
        axis.set_title(name, fontsize=NORMAL)
        tidy(axis)
    axes[0, 0].set(ylim=(1e-5, 1.5), xlim=(0, LAST), xticks=range(0, LAST + 1, 5))
    axes[0, 1].legend(fontsize=SMALL, frameon=False)
    for axis in axes[1]:
        axis.set_xlabel("M, Gibbs iterations", fontsize=SMALL)
    return page


def main() -> None:
    """Print both tables, and draw the figure if a path is given."""
    torch.set_num_threads(1)
    found = laws()
    print("\n".join([*law_table(found), "", *chain_table()]))
    if len(sys.argv) > 1:
        save(draw(found), sys.argv[1])


if __name__ == "__main__":
    main()
