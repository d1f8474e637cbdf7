"""The losses of t = z.w: their formulas, derivatives and constants."""

import numpy as np
import pytest
import torch
from halfspace_problems import slope_of
from refusals import refused

from bnlib import losses
from bnlib.halfspaces import FiniteHalfspace
from bnlib.losses import LOSSES

NAMES = pytest.mark.parametrize("name", LOSSES)
FORMULAS = {
    "logistic": lambda t: np.log(1 + np.exp(t)),
    "sigmoid": lambda t: 1 / (1 + np.exp(-t)),
    "shifted_sigmoid": lambda t: 1 / (1 + np.exp(1 - t)),
    "smoothed_hinge": lambda t: np.where(
        t < -1, 0, np.where(t < 0, (1 + t) ** 2 / 2, t + 0.5)
    ),
    "pseudo_huber": lambda t: np.sqrt(1 + (1 + t) ** 2) - 1,
}
T = np.linspace(-6.05, 6.03, 41)


@NAMES
def test_the_value_is_the_formula(name):
    np.testing.assert_allclose(LOSSES[name].value(T), FORMULAS[name](T), rtol=1e-12)


@NAMES
def test_the_derivatives_are_those_of_the_formula(name):
    loss = LOSSES[name]
    np.testing.assert_allclose(loss.d1(T), slope_of(FORMULAS[name], T, 1e-3), atol=1e-9)
    np.testing.assert_allclose(loss.d2(T), slope_of(loss.d1, T, 1e-3), atol=1e-9)


@NAMES
def test_both_derivatives_at_once_are_the_same(name):
    loss = LOSSES[name]
    first, second = loss.d1_d2(T)
    np.testing.assert_allclose(first, loss.d1(T), rtol=1e-13)
    np.testing.assert_allclose(second, loss.d2(T), rtol=1e-12, atol=1e-16)


@NAMES
def test_the_constants_are_the_largest_derivatives(name):
    loss, dense = LOSSES[name], np.linspace(-400, 400, 800_001)
    assert np.abs(loss.d1(dense)).max() == pytest.approx(loss.lipschitz, rel=1e-4)
    assert np.abs(loss.d2(dense)).max() == pytest.approx(loss.zeta, rel=1e-6)


@NAMES
def test_only_losses_that_always_rise_say_so(name):
    assert LOSSES[name].strictly_increasing is bool((LOSSES[name].d1(T) > 0).all())


@pytest.mark.parametrize("name", ["logistic", "sigmoid", "shifted_sigmoid"])
def test_small_tails_keep_their_digits(name):
    loss, t = LOSSES[name], -600.0
    shift = 1.0 if name == "shifted_sigmoid" else 0.0
    expected = np.exp(t - shift)
    for function in (loss.value, loss.d1, loss.d2):
        assert function(np.array([t]))[0] / expected == pytest.approx(1, rel=1e-12)


@NAMES
def test_extreme_arguments_give_numbers_and_no_warning(name):
    loss, t = LOSSES[name], np.array([-1e300, -800.0, 800.0, 1e150])
    for function in (loss.value, loss.d1, loss.d2):
        assert np.isfinite(function(t)).all()
    assert np.isfinite(loss.d1_d2(t)).all()


@NAMES
@pytest.mark.parametrize("method", ["value", "d1", "d2"])
def test_torch_gives_the_same(name, method):
    function = getattr(LOSSES[name], method)
    found = function(torch.tensor(T))
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found, function(T), rtol=1e-13, atol=1e-300)


# Losses of one's own.


class Square:
    def value(self, t):
        return t**2

    def d1(self, t):
        return 2 * t

    def d2(self, t):
        return 2 + 0 * t


class WrongSlope(Square):
    def d1(self, t):
        return t


class WrongCurvature(Square):
    def d2(self, t):
        return 3 + 0 * t


class Constant(Square):
    def d2(self, t):
        return 2.0


class NoCurvature:
    value = d1 = abs


Z = np.array([[1.0, 2.0], [-3.0, 0.5], [0.0, 1.0]])


@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_an_object_with_the_three_methods_is_a_loss(kind):
    problem = FiniteHalfspace(kind(Z), Square())
    w = np.array([0.3, -0.7])
    assert problem.value(kind(w)) == pytest.approx(np.mean((Z @ w) ** 2), rel=1e-13)
    np.testing.assert_allclose(
        problem.gradient(kind(w)), 2 * Z.T @ (Z @ w) / 3, rtol=1e-13
    )


def test_without_zeta_it_has_no_standard_step():
    with refused(ValueError, "loss", "not zeta", "attribute"):
        _ = FiniteHalfspace(Z, Square()).gradient_lipschitz


@pytest.mark.parametrize(
    ("loss", "error", "says"),
    [
        (
            "hinge",
            ValueError,
            (
                "loss",
                "'hinge'",
                "logistic, sigmoid, shifted_sigmoid",
            ),
        ),
        (
            None,
            TypeError,
            (
                "loss",
                "None, without value, d1, d2",
                "object with methods value, d1 and d2",
            ),
        ),
        (
            3,
            TypeError,
            (
                "loss",
                "3, without value, d1, d2",
                "object with methods value, d1 and d2",
            ),
        ),
        (
            Square,
            TypeError,
            (
                "loss",
                "Square without value d1 d2",
                "object with methods value, d1 and d2",
            ),
        ),
        (
            NoCurvature(),
            TypeError,
            ("loss", "without d2", "object with methods value, d1 and d2"),
        ),
        (WrongSlope(), ValueError, ("loss.d1", "not the derivative of loss.value")),
        (WrongCurvature(), ValueError, ("loss.d2", "not the derivative of loss.d1")),
        (Constant(), ValueError, ("loss.d2", "not elementwise")),
    ],
)
def test_what_is_no_loss_is_named(loss, error, says):
    with refused(error, *says):
        FiniteHalfspace(Z, loss)


def test_the_interface_has_no_loss_of_its_own():
    with refused(TypeError, "Loss", "abstract"):
        losses.Loss()
