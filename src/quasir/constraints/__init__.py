"""From a wish to the target that meets it."""
