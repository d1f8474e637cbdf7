"""What bnlib.functional.batch_norm refuses: it is named, and nothing has changed."""

import numpy as np
import pytest
import torch
from common import assert_same, buffers, randn, torchs
from refusals import refused

from bnlib.functional import batch_norm


def ones(*shape, **options):
    return torch.ones(*shape, **options)


BAD = {
    "one value": (
        dict(input=ones(1, 3)),
        ValueError,
        ("input", "(1, 3), one value per feature", "larger batch"),
    ),
    "one position": (
        dict(input=ones(1, 3, 1, 1)),
        ValueError,
        ("input", "(1, 3, 1, 1), one value per feature", "larger batch"),
    ),
    "one axis": (
        dict(input=ones(3)),
        ValueError,
        ("input", (3,), "(N, C) or (N, C, *spatial)"),
    ),
    "no axis": (
        dict(input=ones(())),
        ValueError,
        ("input", (), "(N, C) or (N, C, *spatial)"),
    ),
    "features": (
        dict(input=ones(4, 2)),
        ValueError,
        ("running_mean", "(3,), input (4, 2)", "(2,)"),
    ),
    "integers": (
        dict(input=ones(4, 3, dtype=torch.int64)),
        TypeError,
        ("input", "int64", "real floating dtype"),
    ),
    "complex": (
        dict(input=ones(4, 3, dtype=torch.complex64)),
        TypeError,
        ("input", "complex64", "real floating dtype"),
    ),
    "booleans": (
        dict(input=ones(4, 3, dtype=torch.bool)),
        TypeError,
        ("input", "bool", "real floating dtype"),
    ),
    "NumPy": (
        dict(input=np.ones((4, 3))),
        TypeError,
        ("input", "ndarray", "torch tensor"),
    ),
    "list": (dict(input=[[1.0]]), TypeError, ("input", "list", "torch tensor")),
    "None": (dict(input=None), TypeError, ("input", "NoneType", "torch tensor")),
    "sparse": (
        dict(input=torch.eye(3).to_sparse()),
        TypeError,
        ("input", "sparse_coo", "dense tensor"),
    ),
    "float8": (
        dict(input=ones(4, 3).to(torch.float8_e5m2)),
        TypeError,
        ("input", "float8_e5m2", "real floating dtype"),
    ),
    "device": (
        dict(input=ones(4, 3, device="meta")),
        ValueError,
        ("input", "meta, running_mean cpu", "one device"),
    ),
    "weight": (
        dict(weight=ones(2)),
        ValueError,
        ("weight", "(2,), input (4, 3)", "(3,)"),
    ),
    "bias": (
        dict(bias=ones(3, 1)),
        ValueError,
        ("bias", "(3, 1), input (4, 3)", "(3,)"),
    ),
    "weight NumPy": (
        dict(weight=np.ones(3)),
        TypeError,
        ("weight", "ndarray", "torch tensor"),
    ),
    "weight float": (dict(weight=1.0), TypeError, ("weight", "float", "torch tensor")),
    "weight int": (
        dict(weight=ones(3, dtype=torch.int32)),
        TypeError,
        ("weight", "int32", "real floating dtype"),
    ),
    "weight meta": (
        dict(weight=ones(3, device="meta")),
        ValueError,
        ("input", "cpu, weight meta", "one device"),
    ),
    "var shape": (
        dict(running_var=ones(1)),
        ValueError,
        ("running_var", "(1,), input (4, 3)", "(3,)"),
    ),
    "var int": (
        dict(running_var=ones(3, dtype=torch.int32)),
        TypeError,
        ("running_var", "int32", "real floating dtype"),
    ),
    "one buffer": (
        dict(running_mean=None),
        ValueError,
        ("running_mean running_var", "", "both, neither"),
    ),
    "no var": (
        dict(running_var=None),
        ValueError,
        ("running_mean running_var", "", "both, neither"),
    ),
    "momentum high": (
        dict(momentum=1.5),
        ValueError,
        ("momentum", 1.5, "finite number in [0, 1]"),
    ),
    "momentum low": (
        dict(momentum=-0.1),
        ValueError,
        ("momentum", -0.1, "finite number in [0, 1]"),
    ),
    "momentum nan": (
        dict(momentum=float("nan")),
        ValueError,
        ("momentum", "nan", "finite number in [0, 1]"),
    ),
    "momentum None": (
        dict(momentum=None),
        TypeError,
        ("momentum", None, "number"),
    ),
    "eps low": (
        dict(eps=-1),
        ValueError,
        ("eps", -1, "finite, at least 0"),
    ),
    "eps nan": (
        dict(eps=float("nan")),
        ValueError,
        ("eps", "nan", "finite, at least 0"),
    ),
    "eps text": (dict(eps="small"), TypeError, ("eps", "'small'", "number")),
    "var written twice": (
        dict(running_var=ones(1).expand(3)),
        ValueError,
        ("running_var", "expanded", "can be written"),
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_input_is_named_and_nothing_changes(bad):
    changed, error, says = BAD[bad]
    mean, var = torch.zeros(3), torch.ones(3)
    given = dict(
        input=randn(4, 3, dtype=torch.float32), running_mean=mean, running_var=var
    )
    with refused(error, *says):
        batch_norm(**{**given, **changed}, training=True)
    assert (mean == 0).all()
    assert (var == 1).all()


def test_buffers_made_in_inference_mode_are_refused_before_either_changes():
    mean = torch.zeros(3)
    with torch.inference_mode():
        var = torch.ones(3)
    with refused((ValueError, RuntimeError), "running_var", "inference"):
        batch_norm(randn(4, 3), mean, var, training=True)
    assert (mean == 0).all()


def test_eval_without_statistics_is_an_error():
    with refused(
        ValueError,
        "running_mean running_var training",
        "None, False: no statistics",
    ):
        batch_norm(randn(4, 3), None, None)


def test_one_value_a_channel_is_enough_for_eval():
    for shape in ((1, 3), (1, 3, 1, 1)):
        assert_same(
            [batch_norm(randn(*shape), *buffers(3))],
            [torchs(randn(*shape), *buffers(3))],
        )
