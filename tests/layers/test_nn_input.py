"""What the modules refuse: it is named, and nothing has changed."""

import numpy as np
import pytest
import torch
from common import assert_unchanged, pair, randn, snapshot
from refusals import refused

import bnlib.nn


def zeros(*shape, **options):
    return torch.zeros(*shape, **options)


BAD = {
    "rank 1": ("BatchNorm1d", zeros(3), ValueError, ("input", "1D", "2D 3D")),
    "rank 4": (
        "BatchNorm1d",
        zeros(1, 3, 4, 4),
        ValueError,
        ("input", "4D", "2D 3D"),
    ),
    "images": ("BatchNorm2d", zeros(3, 4, 4), ValueError, ("input", "3D", "4D")),
    "volumes": ("BatchNorm3d", zeros(2, 3, 4, 4), ValueError, ("input", "4D", "5D")),
    "features": ("BatchNorm1d", zeros(4, 2), ValueError, ("input", "(4, 2)", 3)),
    "one value": (
        "BatchNorm1d",
        zeros(1, 3),
        ValueError,
        ("input", "(1, 3), one value per feature", "larger batch"),
    ),
    "one pixel": (
        "BatchNorm2d",
        zeros(1, 3, 1, 1),
        ValueError,
        ("input", "(1, 3, 1, 1), one value per feature", "larger batch"),
    ),
    "int": (
        "BatchNorm1d",
        zeros(4, 3, dtype=torch.int32),
        TypeError,
        ("input", "int32", "real floating dtype"),
    ),
    "complex": (
        "BatchNorm1d",
        zeros(4, 3, dtype=torch.complex64),
        TypeError,
        ("input", "complex64", "real floating dtype"),
    ),
    "NumPy": (
        "BatchNorm1d",
        np.zeros((4, 3)),
        TypeError,
        ("input", "ndarray", "torch tensor"),
    ),
    "list": ("BatchNorm2d", [[1.0]], TypeError, ("input", "list", "torch tensor")),
    "None": ("BatchNorm3d", None, TypeError, ("input", "NoneType", "torch tensor")),
    "device": (
        "BatchNorm1d",
        zeros(4, 3, device="meta"),
        ValueError,
        ("input", "on meta but running_mean is on cpu", "both on one device"),
    ),
}


# One value per feature is enough for eval.
BAD_IN_EVAL = [bad for bad in BAD if not bad.startswith("one ")]


@pytest.mark.parametrize(
    ("bad", "training"),
    [*((bad, True) for bad in BAD), *((bad, False) for bad in BAD_IN_EVAL)],
)
def test_a_bad_call_is_named_and_changes_nothing(bad, training):
    kind, x, error, says = BAD[bad]
    for momentum in (0.1, None):
        ours, _ = pair(kind, momentum=momentum)
        before = snapshot(ours)
        with refused(error, *says):
            ours.train(training)(x)
        assert_unchanged(ours, before)


def test_one_value_a_feature_is_enough_for_eval_with_tracked_statistics():
    ours, theirs = pair("BatchNorm2d")
    for module in (ours, theirs):
        module.train()(randn(1, 3, 1, 4))
    x = randn(1, 3, 1, 1)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_one_value_a_feature_without_tracking_is_the_same_error_in_either_mode(
    training,
):
    ours = bnlib.nn.BatchNorm1d(3, track_running_stats=False).train(training)
    with refused(
        ValueError, "input", "(1, 3), one value per feature", "larger batch"
    ) as raised:
        ours(zeros(1, 3))
    assert "training" not in str(raised.value)


@pytest.mark.parametrize("lost", ["running_mean", "running_var"])
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_one_buffer_alone_is_an_error(training, lost):
    ours, _ = pair("BatchNorm1d")
    ours.train(training)
    setattr(ours, lost, None)
    with refused(ValueError, "running_mean running_var", "", "both"):
        ours(randn(4, 3))


BAD_ARGUMENTS = [
    ((0,), {}, ValueError, ("num_features", 0, "integer of at least 1")),
    ((-3,), {}, ValueError, ("num_features", -3, "integer of at least 1")),
    ((3.0,), {}, TypeError, ("num_features", 3.0, "integer")),
    (("3",), {}, TypeError, ("num_features", "'3'", "integer")),
    ((True,), {}, TypeError, ("num_features", True, "integer")),
    ((3, -1), {}, ValueError, ("eps", -1, "finite, at least 0")),
    ((3,), {"eps": float("nan")}, ValueError, ("eps", "nan", "finite, at least 0")),
    ((3,), {"eps": None}, TypeError, ("eps", None, "number")),
    ((3,), {"momentum": 1.5}, ValueError, ("momentum", 1.5, "finite number in [0, 1]")),
    (
        (3,),
        {"momentum": -0.1},
        ValueError,
        ("momentum", -0.1, "finite number in [0, 1]"),
    ),
    (
        (3,),
        {"momentum": float("nan")},
        ValueError,
        ("momentum", "nan", "finite number in [0, 1]"),
    ),
    ((3,), {"momentum": "0.1"}, TypeError, ("momentum", "'0.1'", "number")),
    ((3,), {"affin": False}, TypeError, ("affin",)),
]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "says"), BAD_ARGUMENTS, ids=str
)
@pytest.mark.parametrize("name", ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"])
def test_a_bad_argument_is_named(name, arguments, options, error, says):
    with refused(error, *says):
        getattr(bnlib.nn, name)(*arguments, **options)


@pytest.mark.parametrize(
    ("name", "value"), [("momentum", 1.5), ("momentum", float("nan")), ("eps", -1.0)]
)
def test_a_number_set_to_nonsense_later_is_named_and_changes_nothing(name, value):
    ours, _ = pair("BatchNorm1d")
    before = snapshot(ours)
    setattr(ours, name, value)
    with refused(ValueError, name, value):
        ours(randn(4, 3))
    assert_unchanged(ours, before)
