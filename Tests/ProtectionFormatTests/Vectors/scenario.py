"""A scenario as it is in its file: README.md."""


def read(path):
    """Its fields by name, as text."""
    return {name: value.strip() for name, _, value in (line.partition(":") for line in path.read_text().splitlines())}
