"""Constraints: from wished moments to the target that has them."""
