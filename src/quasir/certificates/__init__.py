"""What is shown of the estimates: the curve along beta, and the certificate at one."""
