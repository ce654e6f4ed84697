from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from meshop.data import InputError
from meshop.nn.ssd import ssd


def recurrence(x, delta, A, B, C, initial_state=None, discretization="mamba") -> Tensor:
    """The definition, step by step: s_t = exp(delta_t A) s_(t-1) + w_t x_t B_t^T, y_t = s_t C_t."""
    S, L, H, P = x.shape
    G, N = B.shape[-2:]
    y = torch.empty_like(x)
    for i in range(S):
        for h in range(H):
            state = x.new_zeros(P, N)
            if initial_state is not None:
                state = (initial_state if initial_state.dim() == 3 else initial_state[i])[h]
            for t in range(L):
                decay = (delta[i, t, h] * A[h]).exp()
                weight = delta[i, t, h] if discretization == "mamba" else (decay - 1) / A[h]
                group = h * G // H
                state = decay * state + weight * torch.outer(x[i, t, h], B[i, t, group])
                y[i, t, h] = state @ C[i, t, group]
    return y


def problem(L: int, S: int = 2, H: int = 4, P: int = 3, G: int = 2, N: int = 5, dtype=torch.float64) -> list[Tensor]:
    x, B, C = torch.randn(S, L, H, P), torch.randn(S, L, G, N), torch.randn(S, L, G, N)
    return [t.to(dtype) for t in (x, torch.rand(S, L, H) + 0.01, -torch.rand(H) - 0.1, B, C)]


@pytest.mark.parametrize("discretization", ["mamba", "zoh"])
@pytest.mark.parametrize(("length", "chunk_size"), [(1, 64), (5, 64), (130, 64), (13, 5), (15, 5), (11, 5), (7, 1)])
def test_equals_the_recurrence(length, chunk_size, discretization):
    args, state = problem(length), torch.randn(4, 3, 5, dtype=torch.float64)
    for initial in (None, state, torch.stack([state, 2 * state])):
        y = ssd(*args, initial, discretization, chunk_size)
        expected = recurrence(*args, initial, discretization)
        assert (y - expected).abs().max() < 1e-12 * expected.abs().max()


def test_zero_order_hold_is_exact_for_inputs_that_are_constant_over_a_step():
    # Two half steps with the same input are one step for the exact solution, but not for Mamba's first-order rule.
    x, delta, A, B, C = problem(40)
    x2, delta2, B2, C2 = (t.repeat_interleave(2, dim=1) for t in (x, delta / 2, B, C))
    whole, halves = (ssd(*args, discretization="zoh") for args in ((x, delta, A, B, C), (x2, delta2, A, B2, C2)))
    assert (halves[:, 1::2] - whole).abs().max() < 1e-12 * whole.abs().max()
    whole, halves = (ssd(*args) for args in ((x, delta, A, B, C), (x2, delta2, A, B2, C2)))
    assert (halves[:, 1::2] - whole).abs().max() > 1e-3 * whole.abs().max()


def test_discretizations_agree_for_small_steps():
    x, delta, A, B, C = problem(40)
    mamba, zoh = (ssd(x, 1e-6 * delta, A, B, C, discretization=d) for d in ("mamba", "zoh"))
    assert (mamba - zoh).abs().max() < 1e-5 * zoh.abs().max()


@pytest.mark.parametrize("length", [60, 300])
def test_strong_decay_neither_overflows_nor_cancels(length):
    args = problem(length, dtype=torch.float32)
    args[1][:, ::7] = 1e6  # steps after which nothing of the past is left, between ordinary ones
    y = ssd(*args)
    expected = ssd(*(t.double() for t in args))
    assert y.isfinite().all()
    assert ((y - expected).abs() <= 1e-5 * expected.abs().amax((2, 3), keepdim=True)).all()


def test_gradient_of_strong_decay_is_finite():
    args = [t.requires_grad_() for t in problem(20, dtype=torch.float32)]
    with torch.no_grad():
        args[1][:, ::7] = 1e6
    gradients = torch.autograd.grad(ssd(*args, chunk_size=4).sum(), args)
    assert all(g.isfinite().all() for g in gradients)


@pytest.mark.parametrize("discretization", ["mamba", "zoh"])
def test_gradient(discretization):
    args = [t.requires_grad_() for t in problem(7, S=1, H=2, P=2, G=1, N=2)]
    state = torch.randn(2, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *a: ssd(*a, discretization, 3), (*args, state))


def test_half_precision_scans_in_float32():
    args = [t.bfloat16() for t in problem(200, dtype=torch.float32)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = ssd(*args)
    assert torch.equal(y, ssd(*(t.float() for t in args)).bfloat16())


def test_no_sequences():
    assert ssd(*problem(3, S=0)).shape == (0, 3, 4, 3)


def test_memory_is_linear_in_the_length():
    # the largest tensor is the decay within chunks, L x chunk_size a head
    x, delta, A, B, C = problem(4096, S=1, H=1, P=1, G=1, N=1, dtype=torch.float32)
    largest = 0

    def pack(t: Tensor) -> Tensor:
        nonlocal largest
        largest = max(largest, t.numel())
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        ssd(x.requires_grad_(), delta.requires_grad_(), A, B, C)
    assert largest == 4096 * 64


def test_errors():
    args = problem(3)
    with pytest.raises(InputError, match="'mamba' or 'zoh'"):
        ssd(*args, discretization="euler")
    with pytest.raises(InputError, match="3 groups divide"):
        ssd(*args[:3], torch.ones(2, 3, 3, 5), torch.ones(2, 3, 3, 5))


class Written(TorchDispatchMode):
    """How many numbers are made."""

    numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.numel += sum(t.numel() for t in (out if isinstance(out, (tuple, list)) else [out]) if torch.is_tensor(t))
        return out


def test_work_is_linear_in_the_length() -> None:
    """The backward pass, too, through the states that chunks hand on."""
    made = []
    for length in (1024, 4096):
        x = torch.randn(1, length, 2, 4, requires_grad=True)
        B = torch.randn(1, length, 1, 8, requires_grad=True)
        with Written() as written:
            ssd(x, torch.rand(1, length, 2), -torch.ones(2), B, B, chunk_size=16).sum().backward()
        made.append(written.numel)
    assert made[1] < 4.2 * made[0]
