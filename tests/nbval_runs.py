"""Let nbval judge the runs that ``make book`` kept: a plugin of these tests.

Each cell is a test of nbval's own, which compares strictly what is stored with what
came out. Only the kernel differs: it answers with the outputs of the kept run, so that
a notebook runs once for the site and the tests. With ``--nbval`` instead, nbval runs
the notebooks itself.
"""

from collections import deque

import pytest
from nbval.plugin import IPyNbCell, IPyNbFile

from tools import runs
from tools.cells import IMAGES, code_cells


class KeptKernel:
    """What nbval asks of a kernel, answered from a kept run.

    Parameters
    ----------
    cells : list of NotebookNode
        The code cells with their outputs.
    """

    def __init__(self, cells):
        self.cells = cells
        self.number = 0
        self._messages = deque()

    def is_alive(self):
        return True

    def stop(self):
        """Do nothing: there is no process."""

    def execute_cell_input(self, source, allow_stdin=None):
        """Queue what the kernel said in cell `number`; return the request's id."""
        for output in self.cells[self.number].outputs:
            self._say(output.output_type, without_images(output))
        self._say("status", {"execution_state": "idle"})
        return self.number

    def _say(self, kind, content):
        header = {"msg_id": self.number}
        message = {"msg_type": kind, "parent_header": header, "content": content}
        self._messages.append(message)

    def await_reply(self, request, timeout=None):
        """Do nothing: the reply is already there."""

    def get_message(self, stream, timeout=None):
        return self._messages.popleft()


def without_images(output):
    """Return an output as it is stored: a figure's images are drawn by each build."""
    if "data" not in output:
        return output
    data = {kind: value for kind, value in output.data.items() if kind not in IMAGES}
    return {**output, "data": data}


class KeptNotebook(IPyNbFile):
    """A notebook whose cells nbval compares with a kept run."""

    def setup(self):
        kept = runs.find(self.config.rootpath, self.path, self.nb)
        if kept is None:
            name = self.path.relative_to(self.config.rootpath)
            pytest.fail(f"{name}: no run of it is kept: run make book", pytrace=False)
        self.kernel = KeptKernel(code_cells(kept[0]))
        self.setup_sanitize_files()


def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".ipynb" and not parent.config.option.nbval:
        return KeptNotebook.from_parent(parent, path=file_path)


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item):
    if isinstance(item, IPyNbCell) and isinstance(item.parent, KeptNotebook):
        item.parent.kernel.number = item.cell_num
