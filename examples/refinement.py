"""Train on meshes of one size, predict on finer, coarser and otherwise graded ones: what `measure` is for.

CANO learns -1/10 Laplace(u) = 1 around a hole that moves (`datasets/holed_poisson`, 1,352 nodes), with and without the
measure of the nodes. Beside the position it sees the distance to the boundary, a function of the place: the file's flag
`boundary` marks a layer as wide as the cells. It trains on the file's meshes and on three other kinds of grids with as
many nodes, so that the density of the nodes says nothing about the domain.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import skfem
import torch
from jsonargparse import auto_cli
from skfem.models.poisson import laplace, unit_load

from meshop.data import Field, FieldSpec, MeshData
from meshop.datasets import HoledPoisson
from meshop.metrics import relative_l2
from meshop.models import CANO
from meshop.train import Recipe, Surrogate, fit
from meshop.transforms import NodeMeasure

SIDE = 0.3  # of the hole
MIDDLE = np.array([[0.35, SIDE, 0.35]] * 2)  # before, along and behind a hole in the middle, in x and y


def grid(corner: np.ndarray, num_nodes: float, kind: str) -> skfem.MeshTri:
    """Mesh a domain: ``even`` cells, ``moved`` with the hole (about as in the file), or ``graded`` towards the hole."""
    lengths = np.stack([corner, np.full(2, SIDE), 1 - SIDE - corner], axis=1)  # [2, 3]
    counts = np.rint((MIDDLE if kind == "moved" else lengths) / np.geomspace(0.3, 0.003, 500)[:, None, None]).clip(1)
    nodes = (counts.sum(2) + 1).prod(1) - (counts[:, :, 1] - 1).prod(1)  # [500]
    power = 1.5 if kind == "graded" else 1.0
    axes = []
    for start, count in zip(corner, counts[np.abs(nodes - num_nodes).argmin()].astype(int), strict=True):
        before, along, behind = (np.linspace(0, 1, n + 1) for n in count)
        along = 1 + np.sign(2 * along - 1) * (1 - (1 - np.abs(2 * along - 1)) ** power)  # 0 to 2
        hole = start + SIDE * along / 2
        axes.append(np.r_[start * (1 - before[:0:-1] ** power), hole, hole[-1] + (1 - hole[-1]) * behind[1:] ** power])
    mesh = skfem.MeshTri.init_tensor(*axes)
    centre = mesh.p[:, mesh.t].mean(1) - corner[:, None]  # [2, C]
    return mesh.remove_elements(np.flatnonzero(((centre > 0) & (centre < SIDE)).all(0)))


def distance(points: np.ndarray, corner: np.ndarray) -> np.ndarray:
    """Distance [P] of points [P, 2] of a domain to its border or hole, whichever is nearer."""
    outside = np.maximum(np.abs(points - corner - SIDE / 2) - SIDE / 2, 0)
    return np.minimum(np.minimum(points, 1 - points).min(1), np.hypot(*outside.T))


def remeshed(holes: HoledPoisson, sizes: tuple[float, ...]) -> Iterator[tuple[str, MeshData]]:
    """Each domain on its own mesh and on others, with one truth: quadratic elements, exact to about 2e-4."""
    for own in holes:
        corner = own.field_data["mu"].double().numpy()
        basis = skfem.Basis(grid(corner, 3000, "graded"), skfem.ElementTriP2())
        system = 0.1 * laplace.assemble(basis), unit_load.assemble(basis)
        solution = skfem.solve(*skfem.condense(*system, D=basis.get_dofs()))
        file = skfem.MeshTri(own.points[:, :2].double().numpy().T.copy(), own.cell_index.view(-1, 3).numpy().T.copy())
        meshes = {"file": file} | ({"file x 4": file.refined()} if 4 in sizes else {})
        for kind in ("moved", "even", "graded"):
            meshes |= {f"{kind} x {f:g}": grid(corner, f * own.num_nodes, kind) for f in sizes}
        for name, mesh in meshes.items():
            u, inner = np.zeros(mesh.nvertices), mesh.interior_nodes()
            u[inner] = basis.probes(mesh.p[:, inner]) @ solution
            fields = {"boundary": u == 0, "distance": distance(mesh.p.T, corner), "u": u}
            data = MeshData.from_cells(mesh.p.T, [5] * mesh.nelements, mesh.t.T.tolist(), point_data=fields)
            yield name, NodeMeasure()(data)


def learn(meshes: list[MeshData], measure: bool, out: Path, steps: int) -> Surrogate:
    """Train, or continue."""
    spec = FieldSpec(targets=(Field("u", "point"),), inputs=(Field("distance", "point"),), dim=2)
    train = [spec.pack(mesh) for mesh in meshes]
    for mesh in train:
        mesh.measure = mesh.measure if measure else None
    torch.manual_seed(0)
    model = CANO(spec.in_channels, 64, 4, spec.out_channels, heads=4, num_clusters=32)
    recipe = Recipe(epochs=max(steps // len(train), 1))
    return fit(Surrogate(model, spec, recipe=recipe), train, out=out, resume=True, device="cpu")


def main(path: str, out: str = "runs/refinement", steps: int = 6000) -> float:
    """Return the error on the worst of the meshes over that on the file's, with measure."""
    data = HoledPoisson(Path(out) / "data", path=path, pre_transform=NodeMeasure())
    train, tests = (list(remeshed(data.split(k), f)) for k, f in (("train", (1,)), ("test", (0.25, 1, 4))))
    table = ["measure,mesh,nodes,relative_l2,relative_l2_measure,ratio"]
    for measure in (False, True):
        model = learn([mesh for _, mesh in train], measure, Path(out, "measure" if measure else "plain"), steps)
        values: dict[str, list[list[float]]] = {}
        for name, test in tests:
            mesh = model.spec.pack(test)
            mesh.measure = mesh.measure if measure else None
            with torch.inference_mode():
                errors = [relative_l2(model(mesh), mesh.y, measure=m).item() for m in (None, test.measure)]
            values.setdefault(name, []).append([mesh.num_nodes, *errors])
        means = {name: np.mean(rows, axis=0) for name, rows in values.items()}
        ratios = {name: mean[2] / means["file"][2] for name, mean in means.items()}
        for name, (nodes, plain, weighted) in means.items():
            table.append(f"{measure:d},{name},{nodes:.0f},{plain:.4f},{weighted:.4f},{ratios[name]:.2f}")
    Path(out, "refinement.csv").write_text("\n".join([*table, ""]))
    print(*table, sep="\n")
    return float(max(ratios.values()))


if __name__ == "__main__":
    auto_cli(main)
