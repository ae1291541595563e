"""The estimates for the user: the curve along beta, and the certificate at one beta."""
