"""Write this folder's MSH files anew (needs gmsh): python make_gmsh.py."""

from pathlib import Path

here = Path(__file__).parent


def main() -> None:
    import gmsh

    def save(name: str, version: float, binary: int) -> None:
        gmsh.option.setNumber("Mesh.MshFileVersion", version)
        gmsh.option.setNumber("Mesh.Binary", binary)
        gmsh.write(str(here / name))
        gmsh.model.remove()

    def plate(name: str, version: float, binary: int) -> None:
        """The unit square in triangles, its rim in lines, both in named groups."""
        square = gmsh.model.occ.addRectangle(0, 0, 0, 1, 1)
        gmsh.model.occ.synchronize()
        gmsh.model.addPhysicalGroup(1, [1, 3], 5, "the walls")
        gmsh.model.addPhysicalGroup(2, [square], 9, "fluid")
        gmsh.option.setNumber("Mesh.MeshSizeMax", 0.4)
        gmsh.model.mesh.generate(2)
        save(name, version, binary)

    def layers(name: str, incomplete: int, recombine: bool, version: float, binary: int) -> None:
        """The unit cube in two layers of quadratic hexahedra or wedges."""
        square = gmsh.model.occ.addRectangle(0, 0, 0, 1, 1)
        gmsh.model.occ.extrude([(2, square)], 0, 0, 1, numElements=[2], recombine=True)
        gmsh.model.occ.synchronize()
        for curve in gmsh.model.getEntities(1):
            gmsh.model.mesh.setTransfiniteCurve(curve[1], 2)
        gmsh.model.mesh.setTransfiniteSurface(square)
        if recombine:
            gmsh.model.mesh.setRecombine(2, square)
        gmsh.option.setNumber("Mesh.SecondOrderIncomplete", incomplete)
        gmsh.model.mesh.generate(3)
        gmsh.model.mesh.setOrder(2)
        save(name, version, binary)

    gmsh.initialize()
    gmsh.option.setNumber("General.Terminal", 0)
    plate("plate_22_text.msh", 2.2, 0)
    plate("plate_22_binary.msh", 2.2, 1)
    plate("plate_41_text.msh", 4.1, 0)
    plate("plate_41_binary.msh", 4.1, 1)
    layers("hex20_22_text.msh", 1, True, 2.2, 0)
    layers("hex27_41_binary.msh", 0, True, 4.1, 1)
    layers("wedge15_41_text.msh", 1, False, 4.1, 0)
    layers("wedge18_22_binary.msh", 0, False, 2.2, 1)
    gmsh.finalize()


if __name__ == "__main__":
    main()
