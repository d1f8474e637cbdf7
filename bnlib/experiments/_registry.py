"""The registry of experiments: what an experiment is, and how to find one."""

import importlib
import inspect
import itertools
import json
import math
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from bnlib import data as datasets
from bnlib.data import Dataset

_EXPERIMENTS: dict[str, "Experiment"] = {}

Function = TypeVar("Function", bound=Callable[..., dict[str, Any]])
SCALES = ("live", "paper")


class Context(NamedTuple):
    """What the runner passes to each unit besides its parameters.

    Attributes
    ----------
    device : torch.device
        The device to compute on.
    seed_sequence : numpy.random.SeedSequence
        The unit's only source of randomness: `spawn` a child for each use.
    datasets : dict
        The experiment's data sets (`bnlib.data.Dataset`) by name.
    """

    device: torch.device
    seed_sequence: np.random.SeedSequence
    datasets: dict[str, Dataset]


@dataclass(frozen=True)
class Experiment:
    """A registered experiment; `experiment` describes the fields."""

    id: str
    title: str
    chapter: str
    source: str
    sweep: dict[str, str]
    live: dict[str, Any]
    paper: dict[str, Any]
    paired: tuple[str, ...]
    data: tuple[str, ...]
    threads: int | None
    timed: tuple[str, ...] | bool
    function: Callable[..., dict[str, Any]]

    def parameters(
        self, scale: str, overrides: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the parameters of `scale` with `overrides` put in; check them.

        Parameters
        ----------
        scale : {"live", "paper"}
        overrides : dict, optional
            Values by parameter name, of the registered kind; an array counts as a
            list.

        Returns
        -------
        dict
            Plain Python values.

        Raises
        ------
        ValueError
            If the scale is unknown, a swept list has a value twice, or a value is not
            among those allowed.
        TypeError
            If a parameter is unknown or of another kind.
        """
        if scale not in SCALES:
            raise ValueError(f"scale is {' or '.join(SCALES)}, not {scale!r}")
        parameters = json.loads(json.dumps(getattr(self, scale)))
        for name, value in (overrides or {}).items():
            if name not in parameters:
                raise TypeError(
                    f"{self.id} takes no parameter {name!r}; "
                    f"it takes {', '.join(parameters)}"
                )
            parameters[name] = _matching(name, value, parameters[name])
        for name in self.sweep.values():
            self._check_swept(name, parameters[name])
        return parameters

    def _check_swept(self, name, values):
        if len({json.dumps(value) for value in values}) < len(values):
            raise ValueError(f"{name} holds a value twice: {values}")
        if isinstance(values[0], str):
            known = list(dict.fromkeys(self.paper[name] + self.live[name]))
            for value in values:
                if value not in known:
                    raise ValueError(
                        f"{name} are among {', '.join(known)}, not {value!r}"
                    )

    def units(self, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        """Return every combination of the swept parameters, the last one fastest."""
        axes = [parameters[name] for name in self.sweep.values()]
        return [
            dict(zip(self.sweep, values, strict=True))
            for values in itertools.product(*axes)
        ]


def _matching(name, given, registered):
    """Convert `given` into plain values of the registered parameter's kind."""
    value = given.tolist() if isinstance(given, np.ndarray | np.generic) else given
    if isinstance(registered, list):
        if isinstance(value, list | tuple | range) and len(value):
            return [_matching(name, item, registered[0]) for item in value]
    elif isinstance(registered, float) and type(value) in (int, float):
        if math.isfinite(value):
            return float(value)
    elif type(value) is type(registered):
        return value
    if isinstance(registered, list):
        kind = f"a list of {type(registered[0]).__name__}, not empty"
    else:
        kind = type(registered).__name__
    raise TypeError(f"{name} takes {kind} (such as {registered!r}), not {given!r}")


def experiment(
    *,
    id: str,
    title: str,
    chapter: str,
    source: str,
    sweep: dict[str, str],
    live: dict[str, Any],
    paper: dict[str, Any],
    paired: tuple[str, ...] = (),
    data: tuple[str, ...] = (),
    threads: int | None = None,
    timed: tuple[str, ...] | bool = (),
) -> Callable[[Function], Function]:
    """Register the decorated function as an experiment.

    The function computes one unit. It takes a `Context`, the unit's swept values except
    for the seed (which it gets as `Context.seed_sequence`) and the other parameters by
    name, and returns a dict of plain values with finite numbers. It raises ValueError
    if it cannot use a parameter.

    Parameters
    ----------
    id, title : str
        The name of the experiment and of its record; and a title for readers.
    chapter : str
        The file name of the chapter that shows it, without its ending.
    source : str
        The key in `references.bib` of the work that it repeats.
    sweep : dict
        Maps each swept argument of the function to the parameter that lists its values,
        the slowest first: ``{"arm": "arms", "seed": "seeds"}``. One of the arguments is
        ``seed``.
    live, paper : dict
        The parameters at the two scales, with the same names in both.
    paired : tuple of str
        Swept arguments that do not change the unit's randomness, so a comparison along
        them is between equal draws. All other arguments change it.
    data : tuple of str
        The data sets of `bnlib.data` that it reads.
    threads : int, optional
        The number of threads of torch on a CPU; torch chooses if it is not given. One
        is best for small networks: several wait for each other, long on a busy machine.
    timed : tuple of str, or True
        Results that measure time, which a second run does not repeat; True if the
        experiment is only about time.

    Returns
    -------
    callable
        A decorator that registers a function and returns it unchanged.

    Raises
    ------
    ValueError
        The decorator raises it, and registers nothing, if the function does not take
        these arguments, the scales differ in their parameters, a swept list is empty,
        seed is not swept over seeds, `paired`, `data` or `timed` names something that
        does not exist, or the id is taken.

    Examples
    --------
    >>> import numpy as np
    >>> from bnlib.experiments import experiment
    >>> def coin(context, bias, flips):
    ...     rng = np.random.default_rng(context.seed_sequence)
    ...     return {"heads": int(rng.binomial(flips, bias))}
    >>> register = experiment(
    ...     id="coin", title="Heads against bias", chapter="01-covariate-shift",
    ...     source="ioffe2015", sweep={"bias": "biases", "seed": "seeds"},
    ...     live={"biases": [0.5], "seeds": [0], "flips": 10},
    ...     paper={"biases": [0.1, 0.5], "seeds": [0, 1], "flips": 1000},
    ... )

    `register(coin)`, or the same written as a decorator, makes it known.
    """

    def register(function):
        entry = Experiment(
            id=id,
            title=title,
            chapter=chapter,
            source=source,
            sweep=sweep,
            live=live,
            paper=paper,
            paired=paired,
            data=data,
            threads=threads,
            timed=timed,
            function=function,
        )
        _check(entry)
        _EXPERIMENTS[id] = entry
        return function

    return register


def _check(entry):
    """Raise on an author's mistakes at import, not after hours of computing."""
    if entry.id in _EXPERIMENTS:
        raise ValueError(f"there is an experiment {entry.id!r} already")
    if entry.sweep.get("seed") != "seeds":
        raise ValueError(f"{entry.id} does not sweep seed over seeds: {entry.sweep}")
    if set(entry.live) != set(entry.paper):
        raise ValueError(f"{entry.id} has other parameters in live than in paper")
    _check_known(entry, "paired", set(entry.sweep) - {"seed"})
    _check_known(entry, "data", datasets.NAMES)
    _check_arguments(entry)
    _check_lists(entry)
    for scale in SCALES:
        entry.parameters(scale)


def _check_known(entry, field, known):
    given = getattr(entry, field)
    if set(given) - set(known):
        raise ValueError(
            f"{entry.id}: {field} is {given!r}; give a tuple of names among "
            f"{', '.join(sorted(known)) or 'none'}"
        )


def _check_arguments(entry):
    shared = set(entry.paper) - set(entry.sweep.values())
    taken = list(inspect.signature(entry.function).parameters)
    given = {"context", *entry.sweep, *shared} - {"seed"}
    if set(taken) != given:
        raise ValueError(
            f"{entry.id} takes {', '.join(taken)} and is given "
            f"{', '.join(sorted(given))}"
        )


def _check_lists(entry):
    for parameters, name in itertools.product(
        (entry.live, entry.paper), entry.sweep.values()
    ):
        values = parameters.get(name)
        if not isinstance(values, list) or not values:
            raise ValueError(
                f"{entry.id} sweeps over {name}, which is {values!r}: "
                "give a list that is not empty"
            )


def _import_all():
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if not module.name.startswith("_"):
            importlib.import_module(f"{__package__}.{module.name}")


def all_experiments() -> list[Experiment]:
    """Return every experiment, in the order of their ids.

    Returns
    -------
    list of Experiment

    Examples
    --------
    >>> import bnlib
    >>> "digits-learning-rate" in [e.id for e in bnlib.experiments.all_experiments()]
    True
    """
    _import_all()
    return [_EXPERIMENTS[id] for id in sorted(_EXPERIMENTS)]


def get(id: str) -> Experiment:
    """Return the experiment of that id.

    Parameters
    ----------
    id : str

    Returns
    -------
    Experiment

    Raises
    ------
    ValueError
        If there is none; the message lists all ids.

    Examples
    --------
    >>> import bnlib
    >>> bnlib.experiments.get("digits-learning-rate").chapter
    '02-transform'
    """
    _import_all()
    if id not in _EXPERIMENTS:
        raise ValueError(
            f"no experiment {id!r}; there are {', '.join(sorted(_EXPERIMENTS))}"
        )
    return _EXPERIMENTS[id]
