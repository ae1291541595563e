"""Products by oneDNN: the numbers of torch's own, after every change of the weights."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.pytorch_utils import Conv1D

import quasir as qr
from quasir.core.products import PACKED, fixed, with_packed_products

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"), reason="torch without oneDNN"
)


def packed(layer):
    torch.manual_seed(1)
    for weight in layer.parameters():
        nn.init.normal_(weight)
    layer.__class__ = PACKED[type(layer)]
    return layer


def of_torch(layer, x):
    """Return the product in float64, by torch."""
    rows = layer.weight.T if isinstance(layer, Conv1D) else layer.weight
    made = x.double() @ rows.double().T
    return made if layer.bias is None else made + layer.bias.double()


def calls(layer, x):
    with torch.inference_mode():
        return layer(x)


@pytest.mark.parametrize("shape", [(1, 24), (130, 24), (3, 5, 24), (0, 24)])
@pytest.mark.parametrize("layer", [nn.Linear(24, 40), nn.Linear(24, 7, bias=False), Conv1D(9, 24)])
def test_products_are_those_of_torch(layer, shape):
    layer, x = packed(copy.deepcopy(layer)), torch.randn(*shape)
    torch.testing.assert_close(calls(layer, x).double(), of_torch(layer, x), atol=2e-5, rtol=1e-5)
    assert layer._copy is not None


def test_a_changed_weight_is_packed_anew():
    layer, x = packed(nn.Linear(24, 40)), torch.randn(3, 24)
    before = calls(layer, x)
    with torch.no_grad():
        layer.weight += 1.0
    changed = calls(layer, x)
    assert not torch.allclose(before, changed)
    torch.testing.assert_close(changed.double(), of_torch(layer, x), atol=2e-5, rtol=1e-5)
    layer.weight = nn.Parameter(torch.zeros_like(layer.weight))
    torch.testing.assert_close(calls(layer, x), layer.bias.expand(3, -1))


def test_a_model_made_in_inference_mode_has_products():
    with torch.inference_mode():
        layer = packed(nn.Linear(24, 40))
    x = torch.randn(3, 24)
    torch.testing.assert_close(calls(layer, x).double(), of_torch(layer, x), atol=2e-5, rtol=1e-5)


def test_gradients_are_those_of_torch():
    layer, x = packed(Conv1D(9, 24)), torch.randn(3, 24)
    layer(x).sum().backward()
    torch.testing.assert_close(layer.weight.grad, x.sum(0)[:, None].expand(-1, 9))


@pytest.mark.parametrize("layer", [nn.Linear(24, 40, bias=False), nn.Linear(24, 40)])
@pytest.mark.parametrize("kind", [packed, lambda layer: layer])
def test_a_fixed_layer_has_a_gradient_for_its_input_alone(layer, kind):
    layer = kind(copy.deepcopy(layer))
    x, to = torch.randn(3, 24, requires_grad=True), torch.randn(3, 40)
    made = fixed(layer)(x)
    (made * to).sum().backward()
    torch.testing.assert_close(made.double(), of_torch(layer, x), atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(x.grad, to @ layer.weight, atol=2e-5, rtol=1e-5)
    assert layer.weight.grad is None


@pytest.mark.parametrize("again", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_copies_have_their_own_weights(again):
    layer, x = packed(nn.Linear(24, 40)), torch.randn(3, 24)
    before = calls(layer, x)
    other = again(layer)
    with torch.no_grad():
        other.weight.zero_()
    torch.testing.assert_close(calls(other, x), other.bias.expand(3, -1))
    assert torch.equal(calls(layer, x), before)


def test_other_types_are_left_to_torch():
    layer = packed(nn.Linear(24, 40)).to(torch.bfloat16)
    assert calls(layer, torch.randn(2, 24).bfloat16()).dtype == torch.bfloat16


def test_a_loaded_model_has_packed_products_and_the_scores_of_torch():
    lm = qr.text.CausalLM("quasir/biographies", max_tokens=12)
    layers = [m for m in lm.model.modules() if isinstance(m, tuple(PACKED))]
    assert len(layers) > 10
    assert {type(m) for m in layers} == set(PACKED.values())
    items, _ = lm.sample(8, np.random.default_rng(0))
    ours = lm.log_prob(items)
    for layer in layers:
        layer.__class__ = type(layer).__mro__[2]
    assert ours == pytest.approx(lm.log_prob(items), abs=1e-3)


def test_large_models_keep_their_memory(monkeypatch):
    monkeypatch.setattr("quasir.core.products.MOST", 10)
    model = with_packed_products(GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=1)))
    assert not any(isinstance(m, tuple(PACKED.values())) for m in model.modules())
