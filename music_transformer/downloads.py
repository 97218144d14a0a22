"""Public corpora by name: fetched once with their checksum, unpacked in the user's cache."""

RECIPES = {}


def fetch(name):
    raise NotImplementedError
