"""Our assignors in the shapes that other clients' plug-in points want. Each module needs the client whose name it bears."""
