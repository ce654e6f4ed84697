import base64
import json
import re
import shutil
import subprocess

import matplotlib
import matplotlib.image
import numpy as np
import pytest
import pyvista as pv

from meshop import InputError, MeshData
from meshop.cli import main
from meshop.render import limits, page

ANGLE = "--use-gl=angle --use-angle=swiftshader --enable-unsafe-swiftshader"
QUIET = "--disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync"


def bent():
    """A bent bar of hexahedra with fields on points and cells."""
    grid = pv.ImageData(dimensions=(7, 4, 3)).cast_to_unstructured_grid()
    grid.points = grid.points.astype(float)
    grid.points[:, 2] += 0.3 * np.sin(grid.points[:, 0])
    x, y, z = grid.points.T
    grid.point_data["p"] = 1e5 + np.sin(x) + y
    grid.point_data["p_pred"] = grid.point_data["p"] + 0.1 * z
    grid.point_data["u"] = np.column_stack([x, y * z, 0 * x])
    grid.cell_data["q"] = np.arange(grid.n_cells) ** 2.0
    return grid


def content(path):
    """What the page holds, with its arrays."""
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text())[1])
    mesh, index = data["mesh"], "<u4" if data["mesh"]["wide"] else "<u2"
    size = {"points": 3, "verts": 1, "lines": 2, "triangles": 3, "edges": 2}
    for key, columns in size.items():
        mesh[key] = unpack(mesh[key], "<f4" if key == "points" else index).reshape(-1, columns)
    for field in data["fields"]:
        for view in field["views"]:
            low, high = view["limits"]
            view["values"] = low + unpack(view["values"], "<f4").astype(float) * (high - low)
    return data


def unpack(text, kind):
    return np.frombuffer(base64.b64decode(text), kind)


def views(data):
    return {(field["name"], view["name"]): view for field in data["fields"] for view in field["views"]}


def test_a_page_has_the_surface_and_its_fields(tmp_path):
    grid = bent()
    page(grid, tmp_path / "bar.html", units={"p": "Pa"}, title="a bar")
    data = content(tmp_path / "bar.html")
    mesh, shown = data["mesh"], views(data)
    assert set(shown) == {
        *(("p [Pa]", name) for name in ("truth", "prediction", "error")),
        ("|u|", "field"),
        ("u_x", "field"),
        ("u_y", "field"),
        ("q", "field"),
    }
    surface = grid.extract_surface(algorithm="dataset_surface")
    assert len(mesh["points"]) == surface.n_points < grid.n_points
    assert len(mesh["triangles"]) == 2 * surface.n_cells
    assert len(mesh["edges"]) == surface.extract_all_edges().n_cells
    assert np.ptp(mesh["points"], axis=0).max() == pytest.approx(1)

    truth, guess, error = (shown["p [Pa]", name] for name in ("truth", "prediction", "error"))
    x = np.sort(surface["p"])
    np.testing.assert_allclose(np.sort(truth["values"]), x, atol=1e-6 * np.ptp(x))
    np.testing.assert_allclose(guess["values"] - truth["values"], error["values"], atol=1e-6)
    assert truth["limits"] == guess["limits"] == list(limits(grid["p"], grid["p_pred"]))
    assert error["limits"] == list(limits(grid["p_pred"] - grid["p"], symmetric=True))
    assert truth["label"] == "p [Pa]"
    assert error["label"] == "p_pred − p [Pa]"

    # values stand on the points and cells that they belong to, whatever the view: neighbours along an edge of x differ
    # by what they differ by in the mesh, and both triangles of a face have the value of its cell
    a, b = mesh["edges"].T
    steps = {
        round(float(s), 6) for s in np.abs(shown["u_x", "field"]["values"][a] - shown["u_x", "field"]["values"][b])
    }
    assert steps == {0.0, 1.0}
    cells = np.rint(shown["q", "field"]["values"]).reshape(-1, 2)
    assert (cells[:, 0] == cells[:, 1]).all()
    assert set(cells[:, 0]) == set(surface.cell_data["q"])


def test_positions_are_those_of_the_mesh(tmp_path):
    """The distances between points with given values are those of the mesh, but for the scale."""
    grid = bent()
    grid.point_data["id"] = np.arange(grid.n_points, dtype=float)
    page(grid, tmp_path / "bar.html", ["id"])
    data = content(tmp_path / "bar.html")
    order = np.rint(views(data)["id", "field"]["values"]).astype(int)
    found, known = data["mesh"]["points"], grid.points[order]
    ratio = np.linalg.norm(found - found[0], axis=1)[1:] / np.linalg.norm(known - known[0], axis=1)[1:]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-5)


def test_a_page_loads_nothing(tmp_path):
    page(bent(), tmp_path / "bar.html", title="</script><b>&")
    text = (tmp_path / "bar.html").read_text()
    assert "default-src 'none'" in text
    assert "<title>&lt;/script&gt;&lt;b&gt;&amp;</title>" in text
    assert text.count("</script>") == 3
    without = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
    assert not re.search(r"""(src|href)\s*=|@import|url\(|<link|<iframe|\{\{""", without)
    assert not re.search(r"\bfetch\(|XMLHttpRequest|WebSocket|importScripts|\bimport\(", text)
    assert "Copyright (c) 2016, Kitware Inc." in text


def test_names_cannot_leave_the_data(tmp_path):
    name = "</script><script>alert(1)</script>"
    mesh = MeshData.from_cells([[0.0, 0], [1, 0], [0, 1]], [5], [[0, 1, 2]], point_data={name: [0.0, 1, 2]})
    page(mesh, tmp_path / "odd.html")
    assert (tmp_path / "odd.html").read_text().count("<script>") == 2
    assert content(tmp_path / "odd.html")["fields"][0]["name"] == name


def test_a_prediction_alone_and_an_error_that_the_file_knows(tmp_path):
    mesh = MeshData.from_cells([[0.0, 0], [1, 0], [0, 1]], [5], [[0, 1, 2]])
    mesh.point_data["a_pred"] = [0.0, 1, 2]
    mesh.point_data["b"], mesh.point_data["b_pred"], mesh.point_data["b_error"] = [0.0, 1, 2], [0.0, 1, 2], [3.0, 0, 0]
    mesh.point_data["c_error"] = [0.0, 1, float("nan")]
    mesh.cell_data["word"] = ["steel"]
    page(mesh, tmp_path / "few.html")
    shown = views(content(tmp_path / "few.html"))
    assert set(shown) == {
        ("a", "prediction"),
        ("b", "truth"),
        ("b", "prediction"),
        ("b", "error"),
        ("c_error", "field"),
    }
    assert sorted(shown["b", "error"]["values"]) == [0, 0, 3]
    assert [view["gaps"] for view in shown.values()] == [False] * 4 + [True]
    assert np.isnan(shown["c_error", "field"]["values"]).sum() == 1


def test_errors_of_vectors(tmp_path):
    """That of the magnitude is the length of the difference, and never negative."""
    mesh = MeshData.from_cells([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]], [5], [[0, 1, 2]])
    mesh.point_data["u"] = np.eye(3)
    mesh.point_data["u_pred"] = -np.eye(3)
    page(mesh, tmp_path / "u.html", ["u"])
    shown = views(content(tmp_path / "u.html"))
    np.testing.assert_allclose(shown["|u|", "error"]["values"], [2, 2, 2])
    assert shown["|u|", "error"]["limits"] == [0, 2]
    assert shown["|u|", "error"]["label"] == "|u_pred − u|"
    assert shown["u_z", "error"]["limits"] == [-2, 2]
    assert sorted(shown["u_z", "error"]["values"]) == [-2, 0, 0]


def test_lines_points_and_polygons_with_a_notch(tmp_path):
    cloud = pv.PolyData(np.random.default_rng(0).normal(size=(5, 3)))
    cloud["h"] = np.arange(5.0)
    page(cloud, tmp_path / "cloud.html")
    assert content(tmp_path / "cloud.html")["mesh"]["verts"].tolist() == [[0], [1], [2], [3], [4]]
    wire = pv.Spline([[0, 0, 0], [1, 1, 0], [2, 0, 1]], 3).cast_to_unstructured_grid()
    wire.clear_data()
    wire["h"] = np.arange(3.0)
    page(wire, tmp_path / "wire.html")
    assert content(tmp_path / "wire.html")["mesh"]["lines"].tolist() == [[0, 1], [1, 2]]
    arrow = MeshData.from_cells([[2.0, -1], [0.5, 0], [2, 1], [0, 0]], [7], [range(4)], cell_data={"h": [1.0]})
    page(arrow, tmp_path / "arrow.html")
    mesh = content(tmp_path / "arrow.html")["mesh"]
    a, b, c = (mesh["points"][mesh["triangles"][:, i], :2] for i in range(3))
    (p, q), (r, s) = (b - a).T, (c - a).T
    area = np.abs(p * s - q * r).sum() / 2
    # of 0.5 in a box two wide; a fan from one end would cover the notch as well
    assert area == pytest.approx(0.5 / 4, rel=1e-5)
    assert len(mesh["edges"]) == 4


def test_what_cannot_be_shown(tmp_path):
    mesh = MeshData.from_cells([[0.0, 0], [1, 0], [0, 1]], [5], [[0, 1, 2]])
    path = tmp_path / "no.html"
    with pytest.raises(InputError, match="Expected a field of numbers to show"):
        page(mesh, path)
    mesh.point_data["p"], mesh.cell_data["p"], mesh.cell_data["word"] = [0.0, 1, 2], [1.0], ["steel"]
    with pytest.raises(InputError, match="Field 'p' is both a point and a cell field; say p:point or p:cell"):
        page(mesh, path, ["p"])
    with pytest.raises(InputError, match="Field 'q' is not in the mesh; it has p:point, p:cell, word:cell"):
        page(mesh, path, ["q"])
    with pytest.raises(InputError, match="Expected numbers in field 'word'"):
        page(mesh, path, ["word"])
    with pytest.raises(InputError, match="Expected the name of a matplotlib colour map"):
        page(mesh, path, ["p:cell"], cmap="virids")
    with pytest.raises(InputError, match="Expected a matplotlib colour"):
        page(mesh, path, ["p:cell"], nan_color="greyish")
    with pytest.raises(InputError, match="Cannot write"):
        page(mesh, "/proc/no/p.html", ["p:cell"])
    with pytest.raises(InputError, match="Expected a mesh with points"):
        page(pv.PolyData(), path)
    mesh.point_data["p_pred"] = [[0.0, 1]] * 3
    with pytest.raises(InputError, match="Expected p, p_pred and p_error of one shape"):
        page(mesh, path, ["p:point"])
    assert list(tmp_path.iterdir()) == []


def test_from_the_command_line(tmp_path, capsys):
    file, out = str(tmp_path / "bar.vtu"), tmp_path / "bar.html"
    bent().save(file)
    assert main(["render", file, "--html", str(out), "--field", "p", "--unit", "Pa", "--edges"]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    data = content(out)
    assert [field["name"] for field in data["fields"]] == ["p [Pa]"]
    assert data["edges"] is True
    assert main(["render", file, "--html", str(out)]) == 0
    assert {field["name"] for field in content(out)["fields"]} == {"p", "|u|", "u_x", "u_y", "q"}
    for options, says in (
        (["--unit", "Pa"], "Name the --field that has the --unit"),
        (["--out", "p.png"], "Give --html without --out"),
        (["--assignment", "a.ckpt"], "Give --html without --out"),
    ):
        assert main(["render", file, "--html", str(out), *options]) == 1
        assert says in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
def test_a_browser_shows_it(tmp_path):
    """A click shows the error in the colours of its map, and a drag turns a square out of its plane."""
    square = pv.Plane(i_resolution=20, j_resolution=20)
    square.clear_data()
    square["p"] = square.points[:, 0]
    square["p_pred"] = square["p"] * 1.1
    page(square, tmp_path / "p.html", ["p"])
    script = """<script>
        document.querySelectorAll('#views button')[2].click();
        const at = (kind, x) => document.querySelector('main').dispatchEvent(new PointerEvent(kind,
          {clientX: x, clientY: 300, pointerId: 1, pointerType: 'mouse', buttons: kind == 'pointerup' ? 0 : 1}));
        setTimeout(() => ['down', 'move', 'move', 'up'].forEach((kind, i) => at(`pointer${kind}`, 350 + 120 * i)));
    </script></body>"""
    (tmp_path / "driven.html").write_text((tmp_path / "p.html").read_text().replace("</body>", script))
    command = f"chromium --headless --no-sandbox --disable-gpu {ANGLE} {QUIET} --user-data-dir={tmp_path / 'browser'}"
    command += f" --window-size=1000,600 --virtual-time-budget=2000 --screenshot={tmp_path / 'seen.png'}"
    call = [*command.split(), (tmp_path / "driven.html").as_uri()]
    subprocess.run(call, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, start_new_session=True)
    seen = matplotlib.image.imread(tmp_path / "seen.png")[56:500, :, :3]
    blue, red = (np.abs(seen - matplotlib.colormaps["coolwarm"](x)[:3]).max(-1) < 0.06 for x in (0.05, 0.95))
    assert np.argwhere(blue)[:, 1].mean() < 500 < np.argwhere(red)[:, 1].mean()
    high, wide = np.ptp(np.argwhere(seen.min(-1) < 0.95), axis=0)
    assert 0.6 * high < wide < 0.75 * high  # 240 of 1000 pixels are 48 degrees
