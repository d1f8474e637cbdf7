"""What several test files share: the built site, a browser, and its tests' option."""

import sys

import pytest

from tools import build

#: It lets nbval judge the kept runs of the notebooks named on the command line.
pytest_plugins = ["nbval_runs"]


def pytest_addoption(parser):
    parser.addoption(
        "--every-light",
        action="store_true",
        help="browser tests also in the dark, on a phone, by keyboard and on paper",
    )
    parser.addoption(
        "--instances",
        type=int,
        default=5,
        metavar="N",
        help="random instances on which each claim is checked (default: 5)",
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "every_light: a browser test that only --every-light runs"
    )
    config.addinivalue_line("markers", "slow: a test that make check leaves out")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--every-light"):
        return
    left_out = [item for item in items if item.get_closest_marker("every_light")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def seeds(request):
    """The seeds of the random instances on which a claim is checked."""
    return range(request.config.getoption("--instances"))


@pytest.fixture(autouse=True)
def figures():
    """Close the figures that a test or an example leaves, since others count them."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


@pytest.fixture
def two_gpus(monkeypatch):
    """Pretend that there are two GPUs; list those asked for their random state."""
    import torch

    asked = []
    monkeypatch.setattr(torch.random, "_fork_rng_warned_already", False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_rng_state", asked.append)
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: None)
    return asked


@pytest.fixture(scope="session")
def site():
    """The folder of the built site; a stale one would test yesterday's book."""
    if not build.is_current():
        pytest.fail(
            "the site is missing or older than its sources: run make book",
            pytrace=False,
        )
    return build.ROOT / "_build/html"


@pytest.fixture(scope="session")
def address(site):
    # Imported here, since only the tests in a browser need what it imports.
    from tools.browser import served

    with served(site) as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    from browsing import launched

    with launched() as browser:
        yield browser
