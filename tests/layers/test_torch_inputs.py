"""PyTorch's own test inputs of batch norm: torch's result, or torch's kind of error.

They lie in `torch.testing._internal`, which any release may change; if they are
missing, these tests are skipped.
"""

import functools
import importlib
import inspect
import warnings

import pytest
import torch
from refusals import refused

import bnlib


@functools.cache
def imported(module, name):
    """Return PyTorch's list of operators or modules; skip the test if it is not there.

    It is not imported at the top, since that takes seconds, and every worker
    collects every file.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return getattr(
                importlib.import_module(f"torch.testing._internal.{module}"), name
            )
        except ImportError as error:
            return pytest.skip(f"this torch comes without its test inputs: {error}")


def the_operator():
    every = imported("common_methods_invocations", "op_db")
    return next(each for each in every if each.name == "nn.functional.batch_norm")


def the_modules():
    """Return the name and PyTorch's entry of each module that bnlib has too."""
    every = imported("common_modules", "module_db")
    named = {info.name.removeprefix("nn."): info for info in every}
    # torch's own SyncBatchNorm takes nothing on a CPU.
    ours = set(bnlib.nn.__all__) & named.keys() - {"SyncBatchNorm"}
    return {name: named[name] for name in sorted(ours)}


DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
SIGNATURE = inspect.signature(torch.nn.functional.batch_norm)


def deliberate(arguments):
    """Return why bnlib refuses an input of torch's, or None if bnlib takes it too."""
    if not 0 <= arguments["momentum"] <= 1:
        # With weights outside [0, 1] it would be no average.
        return "momentum", arguments["momentum"], "[0, 1]"
    if arguments["input"].ndim < 2:
        # Nothing says which axis has the features.
        return "input", tuple(arguments["input"].shape), "(N, C)"
    return None


def tolerance(dtype):
    # The two round in different ways, and torch rounds half precision more than once.
    factor = 16 if dtype.itemsize == 2 else 1000
    return {
        "rtol": factor * torch.finfo(dtype).eps,
        "atol": factor * torch.finfo(dtype).eps,
    }


@pytest.fixture(autouse=True)
def seeded():
    """Fix the seed, since PyTorch draws its inputs again each time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def run(function, arguments):
    """Return output, gradients and buffers after the call."""
    own = {
        name: value.detach().clone() if isinstance(value, torch.Tensor) else value
        for name, value in arguments.items()
    }
    leaves = [
        own[name] for name in ("input", "weight", "bias") if own[name] is not None
    ]
    for leaf in leaves:
        leaf.requires_grad_()
    output = function(**own)
    upstream = torch.linspace(-1, 1, output.numel()).reshape(output.shape)
    gradients = torch.autograd.grad(output, leaves, upstream.to(output.dtype))
    buffers = [own[n] for n in ("running_mean", "running_var") if own[n] is not None]
    return [output.detach(), *gradients, *buffers]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_operators_samples_give_torchs_result(dtype):
    seen = {"same": 0, "refused": 0}
    for sample in the_operator().sample_inputs("cpu", dtype, requires_grad=False):
        bound = SIGNATURE.bind(sample.input, *sample.args, **sample.kwargs)
        bound.apply_defaults()
        if says := deliberate(bound.arguments):
            with refused(ValueError, *says):
                run(bnlib.functional.batch_norm, bound.arguments)
            seen["refused"] += 1
            continue
        ours = run(bnlib.functional.batch_norm, bound.arguments)
        theirs = run(torch.nn.functional.batch_norm, bound.arguments)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, **tolerance(dtype))
        seen["same"] += 1
    assert seen["same"] >= 5
    assert seen["refused"] >= 1


def test_the_operators_samples_have_right_derivatives_of_both_orders():
    checked = 0
    for sample in the_operator().sample_inputs(
        "cpu", torch.float64, requires_grad=False
    ):
        bound = SIGNATURE.bind(sample.input, *sample.args, **sample.kwargs)
        bound.apply_defaults()
        # Steps of a difference would move the buffers.
        arguments = bound.arguments | {"running_mean": None, "running_var": None}
        if deliberate(bound.arguments) or not arguments["training"]:
            continue
        names = [n for n in ("input", "weight", "bias") if arguments[n] is not None]
        leaves = [arguments[name].clone().requires_grad_() for name in names]

        def function(*leaves, names=names, arguments=arguments):
            return bnlib.functional.batch_norm(**arguments | dict(zip(names, leaves)))

        assert torch.autograd.gradcheck(function, leaves)
        assert torch.autograd.gradgradcheck(function, leaves, atol=1e-4)
        checked += 1
    assert checked >= 3


def test_the_operators_error_inputs_are_errors_of_the_same_kind():
    if the_operator().error_inputs_func is None:
        pytest.skip("this torch has no error inputs for it")
    for case in the_operator().error_inputs("cpu"):
        sample = case.sample_input
        with pytest.raises(case.error_type):
            bnlib.functional.batch_norm(sample.input, *sample.args, **sample.kwargs)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"])
def test_the_modules_inputs_give_torchs_result(name, training):
    info = the_modules()[name]
    cases = info.module_inputs_func(info, "cpu", torch.float32, True, training)
    for case in cases:
        ours, theirs = (
            trained(getattr(package, name), training, case)
            for package in (bnlib.nn, torch.nn)
        )
        if case.forward_input.args[0].numel() == 0:
            # torch counts an empty batch; here it changes nothing.
            assert theirs[-1] == int(training)
            assert ours.pop() == theirs.pop() * 0
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=case.desc)
    assert len(cases) >= 5


def trained(kind, training, case):
    """Return output, gradients and buffers after one backward pass."""
    made, called = case.constructor_input, case.forward_input
    layer = kind(*made.args, **made.kwargs).train(training)
    (x,) = called.args
    x = x.detach().clone().requires_grad_()
    output = layer(x)
    output.square().sum().backward()
    gradients = [parameter.grad for parameter in layer.parameters()]
    return [output.detach(), x.grad, *gradients, *layer.buffers()]


def test_the_modules_error_inputs_are_errors_of_the_same_kind():
    cases = [
        (name, case)
        for name, info in the_modules().items()
        if info.module_error_inputs_func
        for case in info.module_error_inputs_func(
            info, "cpu", torch.float32, True, True
        )
    ]
    if not cases:
        pytest.skip("this torch has no error inputs for them")

    def run_case(name, made, called):
        getattr(bnlib.nn, name)(*made.args, **made.kwargs)(*called.args)

    for name, case in cases:
        inputs = case.module_error_input
        if inputs.constructor_input.kwargs.get("eps") == 0:
            # The book's theorems are about eps = 0, so bnlib takes it.
            run_case(name, inputs.constructor_input, inputs.forward_input)
            continue
        with pytest.raises(case.error_type):
            run_case(name, inputs.constructor_input, inputs.forward_input)
