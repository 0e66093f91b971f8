"""What one draw of x costs: the paper's U-Net and DDPM sampler, our network with as many steps, and
our kernel. Processor seconds of one thread; the first two are extrapolated from a few calls.

    python benchmarks/sampler_cost.py --timed 20 --accuracy 4
"""

import argparse

import torch
from skimage import data

from gibbsdiff import load_model
from gibbsdiff.evidence.benchmark.paper import SIGMA
from gibbsdiff.evidence.benchmark.sampler_cost import accuracies, costs, markdown


def photographs(side):
    pictures = (data.astronaut(), data.coffee(), data.chelsea(), data.rocket())
    crops = [torch.from_numpy(p[:side, :side].copy()).permute(2, 0, 1) / 255 for p in pictures]
    return torch.stack(crops)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--timed", type=int, default=3, help="calls to time of each network")
    parser.add_argument("--accuracy", type=int, default=0, help="images, at most 4")
    given = parser.parse_args()
    torch.set_num_threads(1)
    ours, x = load_model("natural"), photographs(given.side)
    found = costs(ours, x[:1], SIGMA, timed=given.timed)
    found_phi = accuracies(ours, x[: given.accuracy], SIGMA) if given.accuracy else ()
    print(markdown(found, found_phi))


if __name__ == "__main__":
    main()
