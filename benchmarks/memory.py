"""The memory of a process, as Linux reports it."""


def gigabytes(name):
    """Return ``VmRSS`` (now) or ``VmHWM`` (the peak) of this process.

    Not ``ru_maxrss``: there a child begins with the peak of its parent.
    """
    with open("/proc/self/status") as lines:
        kibibytes = next(int(line.split()[1]) for line in lines if line.startswith(name))
    return 1024 * kibibytes / 1e9
