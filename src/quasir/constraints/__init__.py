"""Constraints: from wanted moments to the target that has them."""
