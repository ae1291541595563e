"""Drawing with one guide and many prompts at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quasir.core.requests import Part, Request
from quasir.text.guided import Guided
from quasir.text.guided_decoding import GuidedChooser
from quasir.text.together import decode_together, same_family

__all__ = ["sample_guided"]


def sample_guided(models: Sequence[Any], requests: Sequence[Request]) -> list[Part] | None:
    """Draw rows of guided models that differ in the base's prompt alone; None if they do not."""
    if not all(type(q) is Guided for q in models):
        return None
    lead = models[0]
    alike = all(q.guide == lead.guide and q.share == lead.share for q in models)
    if not alike or not same_family([q.base for q in models]):
        return None
    each = [request.uniforms(lead.max_tokens + 1) for request in requests]
    by_base = torch.from_numpy(np.concatenate(each)[:, -1] < lead.share).to(lead.base.device)
    log_a = torch.zeros(len(by_base), dtype=torch.float64, device=lead.base.device)

    def chooser(draws: Tensor) -> GuidedChooser:
        return GuidedChooser(lead.machine, by_base[draws], lead.guide.below_one)

    def done(draws: Tensor, used: Any) -> None:
        log_a[draws] = used.log_a

    drawn = decode_together([q.base for q in models], [u[:, :-1] for u in each], chooser, done)
    logs = np.split(log_a.cpu().numpy(), np.cumsum([len(u) for u in each])[:-1])
    return [
        Part(texts, lead.mixed(log_base, log_q), log_base)
        for (texts, log_q), log_base in zip(drawn, logs, strict=True)
    ]
