"""The basis of every other package: types, items, arguments, scores, streams, files."""

__version__ = "0.2.0"
