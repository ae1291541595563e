"""The basis of every other package: types, items, arguments, scores, streams, files."""
