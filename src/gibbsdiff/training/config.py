"""A training run's settings, from a TOML file."""

from __future__ import annotations

import dataclasses
import tomllib
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from gibbsdiff.data.images import Folder, Symmetry
from gibbsdiff.data.loader import Crops
from gibbsdiff.data.maps import Blocks
from gibbsdiff.diffusion.signal import NATURAL, PowerLawSignal
from gibbsdiff.errors import InputError
from gibbsdiff.networks.precision import Precision
from gibbsdiff.registry import names
from gibbsdiff.training.noise import NoiseLaw
from gibbsdiff.training.optimizer import Schedule

#: The group of entry points that `[model] kind` names one of.
OBJECTIVES = "gibbsdiff.objectives"


@dataclass(frozen=True)
class DataConfig:
    """Folders, relative to the data directory; images also kept resized to `also_at`.

    A part `zoom` of the crops is enlarged by a factor on `zoom_by`, a part `dark` darkened, a part
    `grey` made grey. Crops are random, or the centre of the paper's protocol. Images are held in
    memory, or read by `workers` processes (0: by the training process itself) as they are needed.

    `maps` names a file of periodic maps instead of folders (for `[model] kind` "dust" or an
    ε-network, under the CMB or white noise), to be `halved` so many times; its `blocks` of
    snapshots have the roles.
    """

    folders: tuple[Folder, ...] = ()
    also_at: tuple[int, ...] = ()
    grey: float = 0.08
    zoom: float = 0.0
    zoom_by: tuple[float, float] = (1.2, 3.2)
    dark: float = 0.0
    crops: Crops = "random"
    symmetries: Symmetry = "all"
    loading: Literal["memory", "workers"] = "memory"
    workers: int = 0
    maps: str = ""
    halved: int = 0
    blocks: Blocks = field(default_factory=Blocks)


@dataclass(frozen=True)
class ModelConfig:
    """What is trained: an objective registered by name.

    The package has the denoiser of eq. (4) for photographs, "spectral", and for maps of dust,
    "dust", and the paper's ε-networks, "original" and "resunet". The rest is for these two:
    channels of the first level (each next one has twice as many), levels ("resunet"), whether the
    network also takes Fourier features of its input ("resunet"), steps of the chain ("original"), β
    of eq. (1), and the family of their noise: power laws on pictures, the CMB on maps, or white.
    """

    kind: str = "spectral"
    width: int = 64
    levels: int = 3
    steps: int = 5000
    beta_min: float = 0.1
    beta_max: float = 20.0
    family: Literal["power-law", "cmb", "white"] = "power-law"
    fourier: bool = True


@dataclass(frozen=True)
class NetworkConfig:
    """Arguments of the U-Net of eq. (4); the paper's take their channels from here.

    `told` is how many spectra the network is told, 1 or one for each channel; with a `level_plane`
    it is told the level of the noise in every place, eq. (15).
    """

    channels: int = 3
    widths: tuple[int, ...] = (48, 96, 192, 192)
    blocks: tuple[int, ...] = (2, 2, 2, 2)
    embedding: int = 128
    told: int = 1
    level_plane: bool = False
    padding: Literal["zeros", "circular"] = "zeros"


@dataclass(frozen=True)
class StepConfig:
    """What a step does: crops of `crop`², of `later_crop`² from the fraction `later_from` of
    the budget on, in batches of as many pixels; loss (6) + whitened · loss (6) in units of the
    noise + pixel · … + spectral · ….
    """

    batch: int = 16
    crop: int = 96
    later_crop: int = 128
    later_from: float = 0.6
    whitened: float = 0.0
    pixel: float = 0.1
    spectral: float = 0.1
    clip: float = 1.0
    average: float = 0.999

    def size(self, done: float) -> tuple[int, int]:
        """Images per batch, and their side."""
        if done < self.later_from:
            return self.batch, self.crop
        return max(1, round(self.batch * self.crop**2 / self.later_crop**2)), self.later_crop


@dataclass(frozen=True)
class EvaluationConfig:
    """Cells σ × φ, side of the images, and how often, in minutes of training.

    For maps under the CMB the cells are σ × cosmologies (H0, ω_b), the fiducial one unless others
    are named; white noise has cells σ alone.
    """

    sigma: tuple[float, ...] = (0.06, 0.1, 0.2)
    phi: tuple[float, ...] = (-1.0, 0.0, 1.0)
    side: int = 256
    batch: int = 5
    every: float = 12.0
    cosmologies: tuple[tuple[float, ...], ...] = ((67.4, 0.0224),)


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that makes a run, but for its data directory and its budget.

    `precision` is that of the network's products: "auto" is bfloat16 where the processor has it.
    """

    seed: int = 0
    threads: int = 1
    precision: Precision = "float32"
    checkpoint_every: float = 4.0
    optimizer: Literal["muon", "adamw"] = "muon"
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    signal: PowerLawSignal = NATURAL
    noise: NoiseLaw = field(default_factory=NoiseLaw)
    step: StepConfig = field(default_factory=StepConfig)
    schedule: Schedule = field(default_factory=Schedule)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)


def read_config(path: str | Path) -> TrainingConfig:
    """The settings of a TOML file; unknown keys and wrong types are refused by name."""
    try:
        with open(path, "rb") as file:
            values = tomllib.load(file)
    except OSError as trouble:
        raise InputError(f"{path}: {trouble.strerror}") from None
    except tomllib.TOMLDecodeError as trouble:
        raise InputError(f"{path}: not TOML ({trouble})") from None
    config: TrainingConfig = _build(TrainingConfig, values, str(path))
    if config.model.kind not in (known := names(OBJECTIVES)):
        raise InputError(
            f"{path}: model: kind: {config.model.kind!r} is not one of {', '.join(known)}"
        )
    return config


def _build(kind: Any, values: Any, where: str) -> Any:
    """A dataclass from a table."""
    if not isinstance(values, dict):
        raise InputError(f"{where}: needs a table, not {values!r}")
    hints = typing.get_type_hints(kind)
    names = [f.name for f in dataclasses.fields(kind)]
    for key in values:
        if key not in names:
            raise InputError(f"{where}: unknown key {key!r} (there are {', '.join(names)})")
    made = {key: _value(hints[key], value, f"{where}: {key}") for key, value in values.items()}
    try:
        return kind(**made)
    except TypeError as trouble:
        raise InputError(f"{where}: {trouble}") from None


def _value(hint: Any, value: Any, where: str) -> Any:
    """A setting of the annotated type; integers pass for floats, lists for tuples."""
    if dataclasses.is_dataclass(hint):
        return _build(hint, value, where)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple and isinstance(value, list):
        return tuple(_value(arguments[0], item, where) for item in value)
    if origin is Literal and value in arguments:
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint in (bool, int, float, str) and type(value) is hint:
        return value
    raise InputError(f"{where}: {value!r} is not of type {getattr(hint, '__name__', hint)}")
