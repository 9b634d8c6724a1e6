"""Every optimizer against torch's own, step for step; its state in bytes; settings, closures, checkpoints."""

import copy
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core import optimizers
from core.models import Cruncher

TORCH = {
    "sgd": torch.optim.SGD,
    "momentum": lambda params, lr, **hyper: torch.optim.SGD(params, lr, **{"momentum": 0.9} | hyper),
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adafactor": torch.optim.Adafactor,
    "muon": torch.optim.Muon,
}
SETTINGS = [(name, {}) for name in TORCH] + [
    ("momentum", {"momentum": 0.5}),
    ("momentum", {"momentum": 0.0}),
    ("adagrad", {"eps": 0.1}),
    ("rmsprop", {"alpha": 0.5, "eps": 1e-3}),
    ("adam", {"betas": (0.5, 0.9), "eps": 1e-4, "weight_decay": 0.1}),
    ("adamw", {"betas": (0.0, 0.99), "weight_decay": 0.3}),
    ("adafactor", {"beta2_decay": -0.5, "d": 2.0, "weight_decay": 0.1}),
    ("muon", {"momentum": 0.5, "weight_decay": 0.0}),
]
ids = [f"{name} {hyper}" for name, hyper in SETTINGS]


def network(seed=0, vectors=True):
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(6, 10, bias=vectors), torch.nn.Tanh(), torch.nn.Linear(10, 3, bias=vectors)]
    return torch.nn.Sequential(*layers)


def train(model, optimizer, steps=100, seed=1):
    """Losses of a small regression, a new batch every step."""
    generator, losses = torch.Generator().manual_seed(seed), []
    for _step in range(steps):
        x = torch.randn(16, 6, generator=generator)
        loss = (model(x) - x[:, :3].sin()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_every_optimizer_is_compared():
    assert set(TORCH) == set(optimizers.OPTIMIZERS)


@pytest.mark.parametrize(("name", "hyper"), SETTINGS, ids=ids)
def test_a_hundred_steps_equal_torchs(name, hyper):
    ours, theirs = network(vectors=name != "muon"), network(vectors=name != "muon")
    theirs_hyper = {"ns_steps" if key == "steps" else key: value for key, value in hyper.items()}
    start = [p.detach().clone() for p in ours.parameters()]
    our_losses = train(ours, optimizers.make(name, ours.parameters(), 0.02, **hyper))
    their_losses = train(theirs, TORCH[name](theirs.parameters(), 0.02, **theirs_hyper))
    for before, p, q in zip(start, ours.parameters(), theirs.parameters(), strict=True):
        assert (p - before).abs().max() > 0.01  # it went somewhere
        torch.testing.assert_close(p, q, rtol=0, atol=1e-6)
    assert our_losses == pytest.approx(their_losses, abs=1e-6)


@pytest.mark.parametrize("name", TORCH)
def test_each_learns(name):
    model = network(vectors=name != "muon")
    losses = train(model, optimizers.make(name, model.parameters(), 0.02), steps=200)
    assert sum(losses[-20:]) < 0.8 * sum(losses[:20])


@pytest.mark.parametrize("name", TORCH)
def test_saved_and_loaded_it_goes_on_as_if_nothing_had_been(name):
    straight, first = network(vectors=name != "muon"), network(vectors=name != "muon")
    train(straight, optimizer := optimizers.make(name, straight.parameters(), 0.02), 10)
    train(straight, optimizer, 10, seed=2)
    train(first, optimizer := optimizers.make(name, first.parameters(), 0.02), 10)
    saved = copy.deepcopy((first.state_dict(), optimizer.state_dict()))
    second = network(seed=5, vectors=name != "muon")
    second.load_state_dict(saved[0])
    loaded = optimizers.make(name, second.parameters(), 0.5)
    loaded.load_state_dict(saved[1])
    train(second, loaded, 10, seed=2)
    for p, q in zip(straight.parameters(), second.parameters(), strict=True):
        assert torch.equal(p, q)


@pytest.mark.parametrize("name", ["momentum", "adam", "adamw", "adafactor", "muon"])
def test_the_state_of_torchs_own_can_be_loaded(name):
    """The names are the same; AdaGrad's and RMSProp's differ by torch's step, which nothing here needs."""
    theirs, ours = network(vectors=name != "muon"), network(vectors=name != "muon")
    train(theirs, their_optimizer := TORCH[name](theirs.parameters(), 0.02), 10)
    ours.load_state_dict(theirs.state_dict())
    our_optimizer = optimizers.make(name, ours.parameters(), 0.02)
    our_optimizer.load_state_dict(
        {
            "state": copy.deepcopy(their_optimizer.state_dict()["state"]),
            "param_groups": our_optimizer.state_dict()["param_groups"],
        }
    )
    train(theirs, their_optimizer, 10, seed=2)
    train(ours, our_optimizer, 10, seed=2)
    for p, q in zip(theirs.parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=1e-6)


def test_groups_have_their_own_settings():
    a, b, frozen = (torch.ones(3, requires_grad=True) for _ in range(3))
    optimizer = optimizers.SGD([{"params": [a]}, {"params": [b], "lr": 0.5}, {"params": [frozen], "lr": 0.0}], lr=0.1)
    (a + b + frozen).sum().backward()
    optimizer.step()
    assert (a[0].item(), b[0].item(), frozen[0].item()) == (pytest.approx(0.9), 0.5, 1.0)


def test_a_closure_computes_the_loss_with_gradients():
    w = torch.tensor([3.0], requires_grad=True)
    optimizer = optimizers.SGD([w], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = w.square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 9.0
    assert w.item() == 1.5
    assert optimizer.step() is None


def test_a_parameter_without_a_gradient_stays_and_has_no_state():
    used, unused = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimizer = optimizers.AdamW([used, unused], lr=0.1)
    used.sum().backward()
    optimizer.step()
    assert torch.equal(unused, torch.ones(2))
    assert list(optimizer.state) == [used]


def test_a_learning_rate_schedule_is_obeyed():
    w = torch.zeros(1, requires_grad=True)
    optimizer = optimizers.SGD([w], lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    for _step in range(3):
        w.grad = torch.ones(1)
        optimizer.step()
        schedule.step()
    assert w.item() == -1.75


SHAPES = st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=3), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.sampled_from(sorted(set(TORCH) - {"muon"})), st.sampled_from(["fp32", "bf16", "fp64"]))
def test_the_state_is_as_large_as_predicted(shapes, name, dtype):
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp64": torch.float64}[dtype]
    for implementation in optimizers.IMPLEMENTATIONS:
        params = [torch.ones(shape, dtype=kind, requires_grad=True) for shape in shapes]
        made = optimizers.make(name, params, 0.1) if implementation == "napkin" else TORCH[name](params, 0.1)
        for p in params:
            p.grad = torch.ones_like(p)
        for _step in range(2):
            made.step()
        measured = optimizers.measured_state_bytes(made)
        assert measured == optimizers.state_bytes(name, shapes, dtype, implementation)
        assert measured == optimizers.state_bytes(name, shapes, kind, implementation)


@pytest.mark.parametrize("implementation", optimizers.IMPLEMENTATIONS)
def test_muon_keeps_one_number_for_each(implementation):
    p = torch.ones(6, 4, requires_grad=True)
    made = optimizers.make("muon", [p], 0.1) if implementation == "napkin" else torch.optim.Muon([p], 0.1)
    p.grad = torch.ones_like(p)
    made.step()
    assert optimizers.measured_state_bytes(made) == optimizers.state_bytes("muon", [(6, 4)]) == 96


@pytest.mark.parametrize("name", sorted(TORCH))
@pytest.mark.parametrize("dtype", ["fp32", "bf16", torch.float64])
def test_the_state_of_a_large_model_without_its_memory(name, dtype):
    shapes = [(50257, 1600), (6400, 1600)] + ([(1600,)] if name != "muon" else [])
    comparison = optimizers.compare_state_bytes(name, shapes, dtype)
    assert comparison.difference == 0
    assert sum(term.value for term in comparison.prediction.terms) == comparison.prediction.value


def test_the_lectures_states_per_parameter():
    """CS336 §6.5: the Cruncher of width 4 has 36 parameters, and AdaGrad one number of state for each."""
    names = ("sgd", "momentum", "adagrad", "rmsprop", "adam", "adamw")
    assert [optimizers.OPTIMIZERS[name].state_per_parameter for name in names] == [0, 1, 1, 1, 2, 2]
    cruncher = Cruncher(dim=4, num_layers=2)
    shapes = [tuple(p.shape) for p in cruncher.parameters()]
    assert optimizers.state_bytes("adagrad", shapes) == 36 * 4
    assert optimizers.state_bytes("adamw", shapes) == 300  # 2 · 144, and a step for each of three tensors
    made = optimizers.AdaGrad(cruncher.parameters(), lr=0.01)
    cruncher(torch.ones(2, 4)).sum().backward()
    made.step()
    assert optimizers.measured_state_bytes(made) == 144


def test_shared_storage_is_counted_once():
    p, q = torch.ones(4, requires_grad=True), torch.ones(4, requires_grad=True)
    made = optimizers.SGD([p, q], lr=0.1)
    shared = torch.zeros(8)
    made.state[p]["view"], made.state[q]["view"] = shared[:4], shared[4:]
    assert optimizers.measured_state_bytes(made) == 32


@pytest.mark.parametrize(
    ("name", "lr", "hyper", "message"),
    [
        ("sgd", -0.1, {}, "lr must be a number of at least 0, for example 0.001; received -0.1"),
        ("sgd", float("nan"), {}, "received nan"),
        ("sgd", float("inf"), {}, "received inf"),
        ("sgd", "0.1", {}, "received '0.1'"),
        ("sgd", 10**400, {}, "lr must be a number of at least 0"),
        ("sgd", True, {}, "received True"),
        (
            "momentum",
            0.1,
            {"momentum": 1.0},
            "momentum must be a number from 0 to below 1, for example 0.9; received 1.0",
        ),
        ("momentum", 0.1, {"momentum": -0.1}, "received -0.1"),
        ("adagrad", 0.1, {"eps": -1e-8}, "eps must be a number of at least 0"),
        ("rmsprop", 0.1, {"alpha": 2}, "alpha must be a number from 0 to below 1"),
        ("adam", 0.1, {"betas": (0.9, 1.0)}, "beta2 must be a number from 0 to below 1"),
        ("adam", 0.1, {"betas": 0.9}, "betas must be two numbers, for example (0.9, 0.999); received 0.9"),
        ("adamw", 0.1, {"weight_decay": -1}, "weight_decay must be a number of at least 0"),
        ("adafactor", 0.1, {"beta2_decay": 0.5}, "−beta2_decay must be a number of at least 0"),
        ("adafactor", 0.1, {"d": 0.5}, "d at least 1"),
        ("muon", 0.1, {"steps": 0}, "steps must be a whole number from 1 to 99; received 0"),
        ("sgd", 0.1, {"momentum": 0.9}, "SGD has no setting momentum; it has lr"),
        ("adam", 0.1, {"amsgrad": True}, "Adam has no setting amsgrad; it has lr, betas, eps, weight_decay"),
        ("lion", 0.1, {}, "optimizer must be one of sgd, momentum"),
    ],
)
def test_wrong_settings_are_refused_in_words(name, lr, hyper, message):
    with pytest.raises(ValueError) as refused:
        optimizers.make(name, [torch.ones(2, 2, requires_grad=True)], lr, **hyper)
    assert message in str(refused.value)


def test_muon_refuses_what_is_no_matrix():
    with pytest.raises(ValueError, match="two axes; received a parameter of shape \\(3,\\)"):
        optimizers.Muon([torch.ones(3, requires_grad=True)])
    with pytest.raises(ValueError, match="two axes"):
        optimizers.state_bytes("muon", [(3,)])


@pytest.mark.parametrize(
    "arguments",
    [
        ("adam", [(2, -1)]),
        ("adam", [(2.5,)]),
        ("adam", [("2",)]),
        ("adam", [(2,)], "int4"),
        ("x", []),
        ("adam", [(2**70,)]),
    ],
)
def test_state_bytes_refuses_what_makes_no_sense(arguments):
    with pytest.raises(ValueError):
        optimizers.state_bytes(*arguments)


def test_orthogonalized_singular_values_are_near_one():
    torch.manual_seed(0)
    for shape in ((8, 8), (32, 8), (8, 32)):
        g = torch.randn(shape)
        u, _s, vh = torch.linalg.svd(g, full_matrices=False)
        orthogonal = optimizers.orthogonalize(g).float()
        assert orthogonal.shape == g.shape
        singular = torch.linalg.svdvals(orthogonal)
        assert singular.min() > 0.5
        assert singular.max() < 1.3
        along = u.T @ orthogonal @ vh.T  # along each of g's own directions, and no other
        assert (along - torch.diag(torch.diagonal(along))).abs().max() < 0.05


def test_torch_is_imported_with_the_first_optimizer():
    code = """
import sys
from core import optimizers
optimizers.state_bytes("adam", [(2,)])
assert "torch" not in sys.modules
optimizers.SGD
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    with pytest.raises(AttributeError, match="no attribute 'Lion'"):
        _ = optimizers.Lion
    assert all(hasattr(optimizers, name) for name in optimizers.__all__)
