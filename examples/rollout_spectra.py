"""Roll models out on Navier-Stokes and see which eddies they lose: energy spectra beside the truth's.

Takes the runs of `meshop bench --suite rollouts`. The vorticity of the last frame becomes a velocity, and its kinetic
energy is summed over shells of wave numbers (CANO, equations 17 to 19) and over three bands of them.
"""

from pathlib import Path

from jsonargparse import auto_cli
from torch_geometric.loader import DataLoader

from meshop.datasets import NavierStokes
from meshop.metrics import energy_spectrum, spectrum_error, velocity_from_vorticity
from meshop.render import spectra
from meshop.train import Surrogate


def main(
    runs: str = "runs/bench/navier_stokes",
    root: str = "data/navier_stokes",
    out: str = "runs/bench",
    viscosity: float = 1e-5,
    steps: int = 10,
) -> dict[str, list[float]]:
    """Draw the spectra of the last frame and print the relative error of the energy in each band.

    Args:
        runs: directory of the runs, MODEL-viscosity=VALUE/0 each.
        root: directory of the data set.
        out: directory of the picture.
        viscosity: of the flows and the runs.
        steps: frames of the rollouts.

    Returns:
        The mean error of the low, middle and high wave numbers of each model.
    """
    data = NavierStokes(root, viscosity, T_out=steps)
    ending = f"-viscosity={viscosity:g}"
    test = data.split("test")
    batch, count, shape = next(iter(DataLoader(test, batch_size=len(test)))), len(test), test[0].shape
    truth = velocity_from_vorticity(batch.y[:, -1], shape, count)
    energies, errors = {"truth": energy_spectrum(truth, shape, count)}, {}
    for run in sorted(Path(runs).glob(f"*{ending}")):
        surrogate = Surrogate.load(run / "0" / "checkpoints" / "last.ckpt")
        for frame in surrogate.rollout(batch, steps):
            last = frame["vorticity"]
        velocity = velocity_from_vorticity(last, shape, count)
        name = run.name.removesuffix(ending)
        energies[name] = energy_spectrum(velocity, shape, count)
        errors[name] = spectrum_error(velocity, truth, shape, count).mean(0).tolist()
    print(f"{'error of the energy':<20}" + "".join(f"{band:>10}" for band in ("low", "middle", "high")))
    for name, bands in errors.items():
        print(f"{name:<20}" + "".join(f"{band:>10.3f}" for band in bands))
    title = f"navier_stokes, viscosity {viscosity:g}, frame {steps} of the rollout"
    spectra(energies, Path(out, f"navier_stokes{ending}_spectra.png"), title=title)
    return errors


if __name__ == "__main__":
    auto_cli(main)
