"""Runs that cannot succeed stop, and say why."""

import numpy as np
import pytest
import torch

import quasir as qr
from quasir.errors import TuningError
from tests.text.tiny import every_text
from tests.tuning.exact import dpg, model, noise, starts_with


def test_a_target_that_never_fires():
    base = model(limit=3)
    never = qr.Feature("never", lambda text: False)
    asked = []
    counted = qr.Feature("counted", lambda text: bool(asked.append(1)) or True)
    target = (base * never).watch(counted)
    with pytest.raises(TuningError, match="met by 0 of 3,000 draws") as caught:
        dpg(target, base, give_up=3000).run()
    assert len(asked) == 3000
    for advice in ("warm_start", "qr.tilt"):
        assert advice in str(caught.value)


@pytest.mark.parametrize("rate", [1e3, 1e30])
def test_an_absurd_rate_keeps_the_last_good_weights(tmp_path, rate):
    base = model(limit=3)
    texts = every_text(base)
    target = base * starts_with("a")
    run = dpg(target, base, rate=rate, out=tmp_path / "out", every=1)
    with pytest.raises(TuningError, match="diverged") as caught:
        run.run()
    assert "Lower the rate" in str(caught.value)
    kept = caught.value.tuned
    assert np.exp(kept.log_prob(texts)).sum() == pytest.approx(1, abs=1e-3)
    loaded = qr.text.CausalLM(str(tmp_path / "out"), max_tokens=3, device="cpu")
    np.testing.assert_allclose(loaded.log_prob(texts), kept.log_prob(texts), atol=1e-6)
    with pytest.raises(TuningError, match="diverged"):
        run.run()


def test_weights_that_are_no_number_are_never_kept(tmp_path, monkeypatch):
    """A good step, then NaN: what is kept is the good one."""
    base = model(limit=3)
    target = base * starts_with("a")
    from quasir.tuning.policy import Policy

    asked, plain = [], Policy.log_probs

    def breaks(policy, texts):
        asked.append(1)
        return plain(policy, texts) * (torch.nan if len(asked) > 35 else 1.0)

    monkeypatch.setattr(Policy, "log_probs", breaks)
    with pytest.raises(TuningError, match="at step 36 the loss was nan") as caught:
        dpg(target, base, rate=1e-2, out=tmp_path / "out").run()
    texts = every_text(base)
    fires = np.array([text.text.startswith("a") for text in texts])
    before, after = (np.exp(lm.log_prob(texts))[fires].sum() for lm in (base, caught.value.tuned))
    assert after > max(before, 0.9)


def test_weights_collapsed_to_one_text():
    """A tilt so steep that one text has all the weight."""
    base = model(words=("a", "b", "c"), limit=4)
    steep = qr.tilt(noise(1.0), 60.0)
    with pytest.raises(TuningError, match="a handful have all the weight"):
        dpg(base * steep, base, give_up=1000).run()


def test_no_improvement_is_said():
    base = model(limit=3)
    with pytest.warns(qr.errors.QuasirWarning, match="no evaluation in 20 steps was better"):
        dpg(base * qr.tilt(noise(1.0), 1.0), base, rate=1e-12, patience=2).run()


def test_a_warm_start_of_another_tokenizer():
    base, other = model(limit=3), model(words=("a", "b", "c"), limit=3)
    with pytest.raises(qr.errors.InputError, match="the warm start draws items"):
        dpg(base * starts_with("a"), base, warm_start=other).run()
