"""Log-probs of some tokens and of the rest, in one chunked pass: against log_softmax, for every chunk size and
float type."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from verl.utils.torch_functional import entropy_from_logits, logprobs_from_logits, logprobs_from_logits_naive

from verl.dph.objective import f_divergences, topk_logprobs

VOCABULARY = 11


def case(device, seed, tokens, given_tokens, k, dtype=torch.float32):
    g = torch.Generator().manual_seed(seed)
    logits = (3 * torch.randn(tokens, VOCABULARY, generator=g)).to(dtype)
    labels = torch.randint(0, VOCABULARY, (tokens,), generator=g)
    positions = torch.randperm(tokens, generator=g)[:given_tokens].sort().values
    ids = torch.stack([torch.randperm(VOCABULARY, generator=g)[:k] for _ in range(given_tokens)]).int()
    weights = torch.randn(tokens, generator=g), torch.randn(given_tokens, k + 1, generator=g)
    return *(t.to(device) for t in (logits, labels, positions, ids)), [w.to(device) for w in weights]


def plain(logits, labels, positions, ids):
    log_softmax = logits.double().log_softmax(-1)
    rows = log_softmax[positions]
    rest = rows.scatter(1, ids.long(), -torch.inf).logsumexp(-1, keepdim=True)
    return log_softmax.gather(1, labels[:, None])[:, 0], torch.cat([rows.gather(1, ids.long()), rest], -1)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 1000),
    tokens=st.integers(1, 14),
    share=st.floats(0.1, 1.0),
    k=st.integers(1, VOCABULARY - 1),
    chunk=st.integers(1, 200),
    overwrite=st.booleans(),
)
def test_values_and_gradients_are_log_softmaxes(seed, tokens, share, k, chunk, overwrite, device):
    logits, labels, positions, ids, weights = case(device, seed, tokens, max(1, int(share * tokens)), k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(topk_logprobs.CHUNK_ELEMENTS, device, chunk)
        x = logits.clone().requires_grad_()
        found = topk_logprobs.LogProbs.apply(x * 1.0, labels, positions, ids, overwrite)
        sum((a * b).sum() for a, b in zip(found, weights, strict=True)).backward()
    y = logits.double().requires_grad_()
    expected = plain(y, labels, positions, ids)
    sum((a * b.double()).sum() for a, b in zip(expected, weights, strict=True)).backward()
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(x.grad.double(), y.grad, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("inplace", [True, False])
@pytest.mark.parametrize("verls", [logprobs_from_logits, logprobs_from_logits_naive])
def test_log_probs_of_labels_are_verls(dtype, inplace, verls, device, monkeypatch):
    """On a GPU verl's are taken under autocast, which makes its log-softmax float32; on a CPU the cast stands here."""
    if device == "cpu":  # flash-attn's kernel, where it is installed, takes no CPU tensors
        monkeypatch.setenv("VERL_DISABLE_FLASH_ATTN_CE", "1")
    logits, labels, _, _, (weights, _) = case(device, 3, 14, 2, 3, dtype)
    x, y = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    of_model = x * 1.0  # a last layer's output
    found, expected = topk_logprobs.log_probs_of(of_model, labels, inplace), verls(y.float(), labels)
    for log_probs in (found, expected):
        (log_probs * weights).sum().backward()
    assert found.dtype == torch.float32 and x.grad.dtype == dtype
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(x.grad, y.grad)
    assert of_model.equal(logits) != inplace


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_entropies_are_verls_for_every_chunk(dtype, device, monkeypatch):
    monkeypatch.setitem(topk_logprobs.CHUNK_ELEMENTS, device, 3 * VOCABULARY)
    logits = case(device, 5, 14, 1, 1, dtype)[0].unflatten(0, (2, 7))
    weights = torch.randn(2, 7, generator=torch.Generator().manual_seed(1)).to(device)
    x, y = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    found, expected = topk_logprobs.entropy_of(x), entropy_from_logits(y.float())
    for entropy in (found, expected):
        (entropy * weights).sum().backward()
    assert found.dtype == torch.float32 and x.grad.dtype == dtype
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-4 if dtype == torch.float32 else 1e-2, atol=1e-5)


def test_an_entropy_of_weight_0_has_no_backward_pass(device):
    logits = case(device, 5, 14, 1, 1)[0].requires_grad_()
    (0.0 * topk_logprobs.entropy_of(logits).sum()).backward()
    assert logits.grad is None


def test_a_rest_without_probability_keeps_its_gradient(device):
    """Where the policy gave up everything but one token, the forward KL still pulls the others up."""
    x = torch.tensor([[0.0, -150.0, -151.0, -152.0]], device=device, requires_grad=True)
    first = torch.tensor([0], device=device)
    _, log_q = topk_logprobs.LogProbs.apply(x, first, first, first[None], False)
    even = torch.tensor([[0.5, 0.5]], device=device)
    value = f_divergences.between_distributions(f_divergences.forward_kl, even.log(), log_q)
    value.sum().backward()
    rest = torch.tensor([-150.0, -151.0, -152.0], device=device).softmax(0)
    torch.testing.assert_close(x.grad[0, 1:], -0.5 * rest, rtol=1e-4, atol=1e-6)
    assert x.grad[0, 0].item() == pytest.approx(0.5)


def test_stored_distributions_are_the_same_under_bf16_autocast(device):
    """verl's engine computes in it, from the forward pass to the loss."""
    logits = case(device, 4, 20, 1, 1, dtype=torch.bfloat16)[0]
    found = []
    for enabled in (False, True):
        with torch.autocast(device, torch.bfloat16, enabled=enabled):
            ids, log_probs, rest = topk_logprobs.largest(logits, 4)
            found.append((ids, log_probs, rest, topk_logprobs.reference(log_probs, rest)))
    for plain_one, under_autocast in zip(*found, strict=True):
        assert under_autocast.dtype == plain_one.dtype and torch.equal(under_autocast, plain_one)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_language_models_vocabulary(dtype, device):
    """SmolLM2's 49,152 tokens, in several chunks on a CPU: the likeliest tokens, and the gradient."""
    g = torch.Generator().manual_seed(5)
    logits = (3 * torch.randn(50, 49_152, generator=g)).to(device, dtype)
    ids, log_probs, rest = topk_logprobs.largest(logits, 64)
    exact = logits.double().log_softmax(-1)
    values, expected_ids = exact.topk(64)
    assert ids.max() > 32_767 and (device != "cpu" or len(list(topk_logprobs.chunks(logits))) == 3)
    if dtype == torch.float32:  # in bfloat16 some are equally likely
        assert torch.equal(ids.long(), expected_ids)
    torch.testing.assert_close(log_probs.double(), values, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(rest.double(), torch.log1p(-values.exp().sum(-1)), rtol=1e-3, atol=1e-3)

    labels, positions = torch.randint(0, 49_152, (50,), generator=g).to(device), torch.arange(0, 50, 2, device=device)
    x, y = logits.clone().requires_grad_(), logits.double().requires_grad_()
    found = topk_logprobs.LogProbs.apply(x, labels, positions, ids[positions], False)
    for a, b in zip(found, plain(y, labels, positions, ids[positions]), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-4)
    (found[0].sum() + found[1].sum()).backward()
    sum(part.sum() for part in plain(y, labels, positions, ids[positions])).backward()
    torch.testing.assert_close(x.grad.double(), y.grad, rtol=1e-2 if dtype == torch.bfloat16 else 1e-4, atol=1e-4)


@pytest.mark.parametrize("k", [1, 4, VOCABULARY])
def test_stored_and_read_distributions_sum_to_one(k, device):
    logits = 4 * torch.randn(20, VOCABULARY, generator=torch.Generator().manual_seed(0)).to(device)
    ids, log_probs, rest = topk_logprobs.largest(logits, k)
    assert (ids.dtype, log_probs.dtype, rest.dtype) == (torch.int32, torch.float16, torch.float16)
    assert (log_probs.diff(dim=-1) <= 0).all()
    assert torch.isneginf(rest).all() == (k == VOCABULARY)
    log_p = topk_logprobs.reference(log_probs, rest)
    torch.testing.assert_close(log_p.exp().sum(-1), torch.ones(20, device=device))
    exact = logits.double().log_softmax(-1).gather(1, ids.long())
    torch.testing.assert_close(log_p[:, :-1].double(), exact, rtol=2e-3, atol=2e-3)  # float16: 11 bits


@pytest.mark.parametrize(
    "f", [f_divergences.forward_kl, f_divergences.reverse_kl, f_divergences.js_doubled, f_divergences.hellinger]
)
def test_k_of_the_whole_vocabulary_is_the_exact_divergence(f, device):
    """From logits to divergence and gradient; float16 of the stored log-probs is the only difference."""
    g = torch.Generator().manual_seed(3)
    reference, policy = ((2 * torch.randn(6, VOCABULARY, generator=g)).to(device) for _ in range(2))
    ids, log_probs, rest = topk_logprobs.largest(reference, VOCABULARY)
    x, y = policy.clone().requires_grad_(), policy.double().requires_grad_()
    rows = torch.arange(6, device=device)
    _, log_q = topk_logprobs.LogProbs.apply(x, torch.zeros_like(rows), rows, ids, False)
    found = f_divergences.between_distributions(f, topk_logprobs.reference(log_probs, rest), log_q)
    expected = f_divergences.between_distributions(f, reference.double().log_softmax(-1), y.log_softmax(-1))
    found.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(found, expected.float(), rtol=5e-3, atol=1e-3)
    torch.testing.assert_close(x.grad.double(), y.grad, rtol=2e-2, atol=2e-3)
