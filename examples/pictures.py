"""Every kind of picture, of a bend in the plane and of one in space: those of the page Gallery."""

import sys
from pathlib import Path

import numpy as np
import pyvista as pv
from PIL import Image

from meshop import render
from meshop.render import Arrows, Clip, Contour, Slice, Streamlines, Threshold, Warp

FILTERS = {
    "surface": ("T", ()),
    "slice": ("T", Slice("z", 0.15)),
    "clip": ("T", Clip("x", 0.6)),
    "iso": ("T", Contour("T", 6)),
    "threshold": ("T", Threshold("T", 0.9, 1.6)),
    "warp": ("u", Warp("u", 0.2)),
    "arrows": ("u", Arrows("u", 0.06)),
    "streamlines": ("u", Streamlines("u")),
}


def bend(dim: int, inner: float = 0.5, n: int = 16) -> pv.UnstructuredGrid:
    """A quarter of a ring with a temperature T, a prediction of it, and a flow u around the corner."""
    size = (3 * n + 1, n + 1, n // 2 + 1 if dim == 3 else 1)
    image = pv.ImageData(dimensions=size, spacing=(1 / (3 * n), 1 / n, 1 / n))
    s, t, z = np.asarray(image.points, dtype=np.float64).T
    angle, radius = np.pi / 2 * (1 - s), inner + (1 - inner) * t
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    bent = pv.StructuredGrid()
    bent.points, bent.dimensions = np.column_stack([x, y, z]), size
    grid = bent.cast_to_unstructured_grid()  # quads and hexahedra; pixels and voxels may not be bent
    speed = 4 * t * (1 - t) * (1 if dim == 2 else 4 * z * (0.5 - z) * 4)
    grid.point_data["u"] = np.column_stack([speed * np.sin(angle), -speed * np.cos(angle), 0 * z])
    grid.point_data["T"] = 1 + s * (1 - t) + 0.3 * np.sin(6 * s) + z
    grid.point_data["T_pred"] = grid.point_data["T"] + 0.08 * np.sin(9 * x) * np.cos(7 * y)
    return grid


def with_boundary(mesh: pv.UnstructuredGrid) -> pv.UnstructuredGrid:
    """The plane bend with lines along its boundary, named as in a file of gmsh."""
    edge = mesh.extract_feature_edges(
        boundary_edges=True, feature_edges=False, manifold_edges=False, non_manifold_edges=False
    ).cast_to_unstructured_grid()
    x, y, _ = edge.cell_centers().points.T
    edge.cell_data["gmsh:physical"] = np.where(x < 1e-6, 1, np.where(y < 1e-6, 2, 3))
    mesh.cell_data["gmsh:physical"] = np.where(np.hypot(*mesh.cell_centers().points.T[:2]) < 0.75, 4, 5)
    both = pv.merge([mesh, edge], merge_points=True)
    groups = {"inlet": (1, 1), "outlet": (2, 1), "wall": (3, 1), "inner lane": (4, 2), "outer lane": (5, 2)}
    for name, pair in groups.items():
        both.field_data[name] = pair
    return both


def save(image: np.ndarray, path: Path, width: int = 760) -> int:
    """Write a picture in a size for a page, and return that of the file."""
    picture = Image.fromarray(image)
    picture.thumbnail((width, 10 * width), Image.Resampling.LANCZOS)
    picture.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    return path.stat().st_size


def main(out: str = "runs/gallery", kinds: list[str] | None = None) -> int:
    """Draw the pictures into a folder, and return how large the largest file is."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    flat, solid = bend(2), bend(3)
    draw = {}
    for kind, (name, steps) in FILTERS.items():
        plane = Slice("x", 0.6) if kind == "slice" else steps  # a plane mesh is cut along a line
        draw[kind] = lambda name=name, steps=steps, plane=plane: render.side_by_side(
            [render.field(flat, name, filters=plane), render.field(solid, name, filters=steps, view="iso")]
        )
    draw["compare"] = lambda: render.compare(solid, "T", filters=Slice("z", 0.15), unit="K", title="z = 0.15 m")
    camera = [(-0.6, 2.2, 1.4), (0.4, 0.4, 0.2), (0, 0, 1)]
    draw["camera"] = lambda: render.compare(solid, "T", view=camera, show_edges=True, unit="K")
    bends = [bend(2, inner) for inner in (0.2, 0.35, 0.5, 0.65, 0.8)]
    draw["sheet"] = lambda: render.gallery(bends, "u", columns=3, unit="m/s", title="five bends")
    draw["worst"] = lambda: render.gallery(bends[:2], "T", titles=["narrow", "wide"], unit="K")
    rng = np.random.default_rng(0)
    rows = [
        {"name": f"bend_{i}", "field": field, "relative_l2": median * np.exp(0.4 * rng.normal()), "mean_predictor": 0.3}
        for i in range(80)
        for field, median in (("T", 0.02), ("u", 0.06))
    ]
    draw["histogram"] = lambda: render.error_histogram(rows, title="errors of a test set")
    draw["regions"] = lambda: render.regions(with_boundary(flat))
    sizes = {kind: save(draw[kind](), folder / f"{kind}.png") for kind in kinds or draw}
    print(f"{folder}: {len(sizes)} pictures, {sum(sizes.values()) / 1000:.0f} kB")
    return max(sizes.values())


if __name__ == "__main__":
    main(*sys.argv[1:2])
