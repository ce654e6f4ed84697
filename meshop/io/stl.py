"""STL: triangles that do not know their neighbours, until their equal corners are made one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from meshop.data import Arrays, InputError, MeshData
from meshop.geometry import cell_name
from meshop.geometry.cells import row_numbers
from meshop.io.assemble import assemble, warn_left_out
from meshop.io.vtk import vtk_errors, write_poly


def read_stl(path: Path, dim: int) -> MeshData:
    """Read text or binary STL, welded: corners with equal coordinates are one point, in the order of appearance.

    The triangles stay as many as in the file, and in order.
    """
    from vtkmodules.util.numpy_support import vtk_to_numpy
    from vtkmodules.vtkIOGeometry import vtkSTLReader

    reader = vtkSTLReader()
    reader.MergingOff()
    reader.SetFileName(str(path))
    with vtk_errors():
        reader.Update()
    soup = reader.GetOutput()
    if soup.GetNumberOfPoints() == 0:
        raise InputError("it holds no triangles")
    corners = vtk_to_numpy(soup.GetPoints().GetData())[vtk_to_numpy(soup.GetPolys().GetConnectivityArray())]
    places = [torch.from_numpy(x).unique(return_inverse=True)[1] for x in corners.T.copy()]
    _, first, point = np.unique(row_numbers(torch.stack(places, 1)).numpy(), return_index=True, return_inverse=True)
    order = first.argsort()
    count = len(corners) // 3
    return assemble(
        corners[first[order]],
        np.full(count, 5),
        np.full(count, 3),
        order.argsort()[point],
        dim=dim,
    )


def write_stl(path: Path, data: MeshData, binary: bool) -> None:
    """Write triangles as STL, which holds float32 and no fields.

    Raises:
        InputError: a cell is no triangle.
    """
    others = data.cell_type[data.cell_type != 5]
    if others.numel():
        raise InputError(f"STL holds triangles only (got a {cell_name(int(others[0]))}); write VTU or VTP instead")
    warn_left_out("STL", [*data.point_data, *data.cell_data])
    bare: MeshData = data.__copy__()
    bare.point_data, bare.cell_data, bare.field_data = Arrays(), Arrays(), Arrays()
    write_poly(path, bare, binary)
