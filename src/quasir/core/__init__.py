"""What everything else stands on: types, items, arguments, scores, streams, files."""
