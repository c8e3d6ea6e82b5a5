"""Log-probs and entropies of a micro-batch, in one chunked pass: against log_softmax and verl's, for every chunk size
and float type."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from verl.utils.torch_functional import entropy_from_logits, logprobs_from_logits, logprobs_from_logits_naive

from verl.dph.objective import log_probs

VOCABULARY = 11


def case(device, seed, tokens, dtype=torch.float32):
    g = torch.Generator().manual_seed(seed)
    logits = (3 * torch.randn(tokens, VOCABULARY, generator=g)).to(dtype)
    labels = torch.randint(0, VOCABULARY, (tokens,), generator=g)
    return logits.to(device), labels.to(device), torch.randn(tokens, generator=g).to(device)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 1000), tokens=st.integers(1, 14), chunk=st.integers(1, 200), overwrite=st.booleans())
def test_values_and_gradients_are_log_softmaxes(seed, tokens, chunk, overwrite, device):
    logits, labels, weights = case(device, seed, tokens)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(log_probs.CHUNK_ELEMENTS, device, chunk)
        x = logits.clone().requires_grad_()
        found = log_probs.log_probs_of(x * 1.0, labels, overwrite)
        (found * weights).sum().backward()
    y = logits.double().requires_grad_()
    expected = y.log_softmax(-1).gather(1, labels[:, None])[:, 0]
    (expected * weights.double()).sum().backward()
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(x.grad.double(), y.grad, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("inplace", [True, False])
@pytest.mark.parametrize("verls", [logprobs_from_logits, logprobs_from_logits_naive])
def test_log_probs_of_labels_are_verls(dtype, inplace, verls, device, monkeypatch):
    """On a GPU verl's are taken under autocast, which makes its log-softmax float32; on a CPU the cast stands here."""
    monkeypatch.setitem(log_probs.CHUNK_ELEMENTS, device, 3 * VOCABULARY)
    if device == "cpu":  # flash-attn's kernel, where it is installed, takes no CPU tensors
        monkeypatch.setenv("VERL_DISABLE_FLASH_ATTN_CE", "1")
    logits, labels, weights = case(device, 3, 14, dtype)
    x, y = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    of_model = x * 1.0  # a last layer's output
    found, expected = log_probs.log_probs_of(of_model, labels, inplace), verls(y.float(), labels)
    for of_labels in (found, expected):
        (of_labels * weights).sum().backward()
    assert found.dtype == torch.float32 and x.grad.dtype == dtype
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(x.grad, y.grad)
    assert of_model.equal(logits) != inplace


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_entropies_are_verls_for_every_chunk(dtype, device, monkeypatch):
    monkeypatch.setitem(log_probs.CHUNK_ELEMENTS, device, 3 * VOCABULARY)
    logits = case(device, 5, 14, dtype)[0].unflatten(0, (2, 7))
    weights = torch.randn(2, 7, generator=torch.Generator().manual_seed(1)).to(device)
    x, y = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    found, expected = log_probs.entropy_of(x), entropy_from_logits(y.float())
    for entropy in (found, expected):
        (entropy * weights).sum().backward()
    assert found.dtype == torch.float32 and x.grad.dtype == dtype
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-4 if dtype == torch.float32 else 1e-2, atol=1e-5)
