"""The paper's formulas, one beta at a time and as they are printed, in extended precision."""

import numpy as np

L = np.longdouble


def formulas(log_p, log_q, log_beta, log_base=None, features=None):
    """Return name -> (value, se) by Eqs. 2, 5-10 and appendix C; se by the influence function."""
    # The ratio is rounded to float64 once, as the draws keep it; all else is extended.
    w = np.exp((np.asarray(log_p) - np.asarray(log_q)).astype(L))
    n, beta = len(w), np.exp(L(log_beta))
    log_p, log_q = np.asarray(log_p, L), np.asarray(log_q, L)
    w_b = np.minimum(w, beta)
    z, z_b = w.mean(), w_b.mean()
    y, v = w / z, w_b / z_b
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(w > 0, y * np.log(np.where(w > 0, w / np.where(w > 0, w_b, 1), 1)), 0)
    k = gain.mean()
    c = y > v
    p_c, q_c = (y * c).mean(), (v * c).mean()
    above = w > beta
    bound = (y * above).mean()
    out = {
        "acceptance_rate": (z_b / beta, w_b / beta - z_b / beta),
        "log_z": (np.log(z), y - 1),
        "log_z_beta": (np.log(z_b), v - 1),
        "truncated_mass": ((w - w_b).mean() / z, z_b / z * (y - v)),
        "tvd_bound": (bound, y * (above - bound)),
        "tvd": (np.abs(y - v).mean() / 2, c * (y - v) - p_c * y + q_c * v),
        "kl": (np.log(z_b / z) + k, v - y + gain - k * y),
    }
    for name, f in (features or {}).items():
        f = np.asarray(f, L)
        mean = (v * f).mean()
        out[name] = (mean, v * (f - mean))
    if log_base is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            s = np.where(w > 0, np.minimum(log_p, L(log_beta) + log_q) - np.asarray(log_base, L), 0)
        value = -np.log(z_b) + (v * s).mean()
        out["kl_base"] = (value, v * (s - value - np.log(z_b) - 1) + 1)
    return {name: (value, np.sqrt((i**2).mean() / n)) for name, (value, i) in out.items()}


def exact(q, p_weights, beta):
    """Return the exact quantities on a finite space, by enumeration."""
    q, weights = np.asarray(q, L), np.asarray(p_weights, L)
    z = weights.sum()
    p_b = np.minimum(weights, L(beta) * q)
    z_b = p_b.sum()
    p, p_b = weights / z, p_b / z_b
    inside = p > 0
    return {
        "acceptance_rate": z_b / L(beta),
        "z": z,
        "z_beta": z_b,
        "tvd": np.abs(p - p_b).sum() / 2,
        "kl": (p[inside] * np.log(p[inside] / p_b[inside])).sum(),
        "truncated_mass": 1 - z_b / z,
        "tvd_bound": p[weights > L(beta) * q].sum(),
        "p_beta": p_b,
    }
