"""Damaged mesh files: a small whole one of every format, mutations of it by a number, and what reading it comes to."""

import contextlib
import os
import random
import re
import signal
import struct
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import meshio
import pyvista as pv
from foreign import CELLS, POINTS, U
from gallery import CELLS as CODES
from gallery import mixed, single, surface
from test_corpus import CORPUS, plate

from meshop.data import InputError, MeshData
from meshop.io import SERIES_FORMATS, SeriesWriter, read_mesh, read_series, write_mesh

SECONDS, BYTES = 10, 2 << 30  # of computing that a small file may take, and of memory beside what is taken before
_COUNTS = (0, -1, 1, 2, 7, 255, 65535, 2**31 - 1, 2**31, -(2**31), 3_000_000_000, 2**32 - 1, 2**40, 2**62, 2**63 - 1)
_POLYHEDRON = next(code for code, name in CODES.items() if name == "Polyhedron")

Seed = Callable[[Path], Path]  # writes files into a folder, and says which one is read


def _written(name: str, make: Callable[[], MeshData], binary: bool) -> Seed:
    def write(folder: Path) -> Path:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write_mesh(folder / name, make(), binary=binary)
        return folder / name

    return write


def _series(name: str) -> Seed:
    def write(folder: Path) -> Path:
        with SeriesWriter(folder / name) as writer:
            for step in (0.0, 0.5):
                writer.write(single(12), step, point_data={"t": [step] * 17})
        return folder / name

    return write


def _xdmf(folder: Path) -> Path:
    with contextlib.chdir(folder), meshio.xdmf.TimeSeriesWriter("a.xdmf") as writer:
        writer.write_points_cells(POINTS, CELLS)
        for step in (0.0, 0.5):
            writer.write_data(step, {"u": U + step})
    return folder / "a.xdmf"


def _vtp(folder: Path) -> Path:
    pv.Plane(i_resolution=2, j_resolution=2).save(folder / "a.vtp", binary=False)
    return folder / "a.vtp"


def _raw(folder: Path) -> Path:
    plate().save(folder / "a.vtu")
    return folder / "a.vtu"


def _flat() -> MeshData:
    mesh = single(9)
    mesh.points[:, 2] = 0
    return mesh


def _triangles() -> MeshData:
    mesh = single(5)
    mesh.points = mesh.points[:6].float()
    mesh.point_data = type(mesh.point_data)()
    return mesh


def _exodus(name: str) -> Seed:
    def write(folder: Path) -> Path:
        CORPUS["Exodus .e"][0](folder)
        return (folder / "a.e").rename(folder / name)

    return write


SEEDS: dict[str, Seed] = {name: write for name, (write, _) in CORPUS.items() if not name.startswith("gmsh ")}
SEEDS.pop("meshio .e")  # needs netCDF4
for _binary in (True, False):
    for _suffix, _make in (
        (".vtu", mixed),
        (".vtu", lambda: single(_POLYHEDRON)),
        (".vtk", mixed),
        (".vtk", lambda: single(_POLYHEDRON)),
        (".vtp", lambda: single(9)),
        (".msh", mixed),
        (".msh2", mixed),
        (".ply", surface),
        (".stl", _triangles),
        (".bdf", lambda: single(25)),
        (".inp", lambda: single(25)),
        (".med", lambda: single(24)),
        (".xdmf", mixed),
        (".su2", _flat),
        (".obj", surface),
    ):
        SEEDS[f"written {_suffix} {len(SEEDS)}"] = _written(f"a{_suffix}", _make, _binary)
SEEDS |= {"raw .vtu": _raw, "text .vtp": _vtp, "XDMF series": _xdmf, "Exodus .ex2": _exodus("a.ex2")}
SEEDS |= {f"series {name}": _series(name) for name in ("a.pvd", "b.xdmf", "a.e")}


@dataclass
class Files:
    """The files of a seed by their places, and which one is read."""

    path: str
    content: dict[str, bytes] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        for name, content in self.content.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return folder / self.path


def whole(folder: Path) -> dict[str, Files]:
    """The files of all seeds."""
    out = {}
    for number, (name, write) in enumerate(SEEDS.items()):
        own = folder / str(number)
        own.mkdir()
        path = write(own)
        found = {str(f.relative_to(own)): f.read_bytes() for f in sorted(own.rglob("*")) if f.is_file()}
        out[name] = Files(str(path.relative_to(own)), found)
    return out


def damaged(files: dict[str, Files], number: int) -> tuple[str, Files]:
    """The seed's name and the files of a case, one of which is damaged."""
    draw = random.Random(number)
    name = list(files)[number % len(files)]
    own = files[name]
    target = draw.choice([key for key, content in own.content.items() if content])
    other = files[draw.choice([key for key in files if Path(files[key].path).suffix == Path(own.path).suffix])]
    spare = draw.choice([content for content in other.content.values() if content])
    content = own.content[target]
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        content = draw.choice(_MUTATIONS)(content, draw, spare)
    return name, Files(own.path, own.content | {target: content})


def _truncate(content: bytes, draw: random.Random, spare: bytes) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def _flip(content: bytes, draw: random.Random, spare: bytes) -> bytes:
    out = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8))):
        if out:
            out[draw.randrange(len(out))] ^= draw.choice((1 << draw.randrange(8), draw.randrange(1, 256)))
    return bytes(out)


def _blot(content: bytes, draw: random.Random, spare: bytes) -> bytes:
    start, size = draw.randrange(len(content) + 1), draw.choice((1, 4, 8, 64))
    return content[:start] + (draw.choice((b"\0", b"\xff")) * size) + content[start + size :]


def _number(content: bytes, draw: random.Random, spare: bytes) -> bytes:
    """Another number in a text, one of its first as a rule, where the counts are."""
    found = list(re.finditer(rb"(?<![\w.])-?\d+(?![\w.])", content))
    if not found:
        return _flip(content, draw, spare)
    one = draw.choice(found[: draw.choice((4, 12, len(found)))])
    own = int(one[0][:18])
    value = draw.choice((*_COUNTS, own + 1, own - 1, -own, own * 1000))
    return content[: one.start()] + str(value).encode() + content[one.end() :]


def _count(content: bytes, draw: random.Random, spare: bytes) -> bytes:
    """Another binary integer, one of those that are small, as counts are, as a rule."""
    size = draw.choice((4, 8))
    order = draw.choice("<>")
    letter = {4: "i", 8: "q"}[size]
    places = range(0, len(content) - size + 1, draw.choice((1, 4)))
    small = [at for at in places if 0 < struct.unpack_from(order + letter, content, at)[0] < 10_000]
    places = small if small and draw.random() < 0.8 else list(places)
    if not places:
        return _blot(content, draw, spare)
    at = draw.choice(places)
    own = struct.unpack_from(order + letter, content, at)[0]
    value = draw.choice((*_COUNTS, own + 1, own - 1, own * 1000)) % (1 << 8 * size)
    return content[:at] + struct.pack(order + letter.upper(), value) + content[at + size :]


def _slice(content: bytes, draw: random.Random, spare: bytes) -> bytes:
    start = draw.randrange(len(content) + 1)
    stop = min(len(content), start + draw.choice((1, 4, 16, 200)))
    return content[:start] + content[start:stop] * draw.choice((0, 2, 3)) + content[stop:]


def _line(content: bytes, draw: random.Random, spare: bytes) -> bytes:
    lines = content.split(b"\n")
    at = draw.randrange(len(lines))
    return b"\n".join(lines[:at] + [lines[at]] * draw.choice((0, 2)) + lines[at + 1 :])


def _splice(content: bytes, draw: random.Random, spare: bytes) -> bytes:
    return content[: draw.randrange(len(content) + 1)] + spare[draw.randrange(len(spare)) :]


_MUTATIONS = [_truncate, _flip, _flip, _blot, _number, _number, _count, _count, _slice, _line, _splice]


class Hang(BaseException):
    """What no reader may swallow."""


def outcome(path: Path) -> str:
    """What reading a file comes to: ``read``, ``refused``, or what is wrong with that."""

    def stop(*_: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 6 * SECONDS, 1)  # others may be computing as well
    start = computed()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            many = path.suffix == ".pvd" or (path.suffix in SERIES_FORMATS and path.stem == "b")
            mesh = read_series(path) if many else read_mesh(path)
        mesh.validate()
        if computed() > start + SECONDS:
            return f"it took {computed() - start:.0f} s"
        return "read" if mesh.num_nodes and mesh.num_points else "a mesh without nodes"
    except InputError as error:
        said = str(error)
        if "\n" in said or not said.startswith(f"Cannot read '{path}': "):
            return f"no sentence that names the file: {said!r}"
        if computed() > start + SECONDS:
            return f"it took {computed() - start:.0f} s"
        return "refused"
    except Hang:
        return "it hung"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def computed() -> float:
    """Seconds of computing of this process and of those that it has ended."""
    return sum(os.times()[:4])


def peak() -> int:
    """Bytes of the most memory that this process, or one that it has ended, ever had."""
    import resource

    return 1024 * max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def fuzz(numbers: Iterable[int], folder: Path) -> tuple[Counter[tuple[str, str]], dict[int, str]]:
    """Read the cases with these numbers; how often each seed came to what, and what is wrong by number."""
    (folder / "whole").mkdir()
    files = whole(folder / "whole")
    counts: Counter[tuple[str, str]] = Counter()
    faults: dict[int, str] = {}
    most = peak()
    for number in numbers:
        name, case = damaged(files, number)
        own = folder / str(number)  # what is left of it says which case has ended the process
        own.mkdir()
        said = outcome(case.write(own))
        if peak() > most + BYTES:
            said = f"{said}, with {(peak() - most) >> 20} MB"
            most = peak()
        counts[name, said if said in ("read", "refused") else "fault"] += 1
        if said not in ("read", "refused"):
            faults[number] = f"{name}: {said}"
    return counts, faults
