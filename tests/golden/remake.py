"""Write the golden values of networks anew, after a change that is meant to move them:

    python tests/golden/remake.py

Values of the exact Gaussian signal are kept: nothing may move these. The changelog says what moved.
"""

import numpy as np
import pytest
import test_golden as golden
import torch

import gibbsdiff


def remade():
    """Name → value, of every case with a network."""
    values = {}

    def keep(name, posterior, modes, scale=1.0):
        found = {"draws": posterior.phi.numpy().copy(), "calls": np.array(posterior.calls)}
        found["mean"] = golden.blocks(posterior.mean).astype(np.float32)
        by = np.array([scale] + [1.0] * (posterior.phi.shape[-1] - 1))
        found["draws"] = found["draws"] / by
        if modes:
            found["phi_hat"] = modes[0].phi[0].numpy()
            found["covariance"] = modes[0].covariance[0].numpy()
            found["model_error"] = posterior.model_error.numpy() / by[:, None] / by
        values.update({f"{name}/{key}": value for key, value in found.items()})

    seen, find = [], golden.pipeline.model_error
    golden.pipeline.model_error = lambda marginal, mode: (
        seen.append(mode),
        find(marginal, mode),
    )[1]
    golden.same = keep
    natural = gibbsdiff.load_model("natural-fast")
    for name in ("astronaut", "coffee", "chelsea"):
        for how in golden.HOW:
            seen.clear()
            golden.test_photographs(natural, seen, name, how)
    seen.clear()
    golden.test_known_noise(natural, seen)
    for method in ("marginal", "gibbs"):
        seen.clear()
        golden.test_dust(seen, method)
    seen.clear()
    large = golden.large()
    posterior = gibbsdiff.denoise(large, model=natural, seed=golden.SEED)
    values["rocket-windows/noise_level"] = np.array(posterior.level)
    keep("rocket-windows", posterior, seen, posterior.level / float(seen[0].phi[0, 0]))
    return values


if __name__ == "__main__":
    torch.set_num_threads(1)
    with np.load(golden.VALUES) as file:
        kept = {key: file[key] for key in file.files if key.startswith("gaussian")}
    np.savez_compressed(golden.VALUES, **kept, **remade())
    raise SystemExit(pytest.main(["-q", str(golden.VALUES.parent)]))
