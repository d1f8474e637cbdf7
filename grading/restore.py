"""The notebook that is graded: the set's own cells with a student's answers in them."""

import copy

from grading import sets
from grading.sets import mark
from grading.submission import MAX_IMAGE, Unreadable, harmless, read_submission

MAX_REMARKS = 40


def restore(source, path):
    """Put a submission's answers into a set's own notebook.

    The order, the read-only cells, the points and the kinds of cells are the source's,
    whatever the submission says. The student's own cells follow the cell that they
    followed.

    Parameters
    ----------
    source : NotebookNode
        The rendered source, with hidden tests.
    path : path-like
        The submitted file.

    Returns
    -------
    notebook : NotebookNode
    remarks : list of str
        A line for each thing put right, or the one reason why nothing could be read.
    """
    student, checksums = sets.student_version(source)
    try:
        cells = read_submission(path)
    except Unreadable as reason:
        cells, answers, own = None, {}, {}
        remarks = [f"refused: {reason}"]
    else:
        # Some editors drop nbgrader's metadata and keep the ids.
        ids = {cell.id: _name(cell) for cell in student.cells if mark(cell)}
        for cell in cells:
            cell.name = cell.name or ids.get(cell.id)
        answers, own = _sorted_out(cells, student)
        remarks = _differences(cells, answers, student)
    notebook = copy.deepcopy(source)
    notebook.cells = own.get(None, [])
    for given, whole in zip(student.cells, source.cells, strict=True):
        cell = copy.deepcopy(whole)
        if mark(cell):
            cell.metadata.nbgrader.checksum = checksums[_name(cell)]
            _answer(cell, given.source, answers.get(_name(cell)), cells is not None)
        notebook.cells += [cell, *own.get(_name(cell), [])]
    for number, cell in enumerate(notebook.cells, 1):
        cell.id = f"cell-{number}"
    return notebook, limited(remarks)


def limited(remarks):
    """Return the first remarks, and a line with the number of the rest."""
    rest = len(remarks) - MAX_REMARKS
    return [*remarks[:MAX_REMARKS], f"and {rest} more"] if rest > 0 else remarks


def _name(cell):
    """Return the name that a source's cell is known by: texts have no grade_id."""
    return mark(cell).get("grade_id") or cell.id


def _answer(cell, stub, answer, readable):
    """Put a student's source, pictures and outputs into the set's own cell."""
    solution = mark(cell).get("solution")
    if answer is None:
        if solution:
            code = cell.cell_type == "code"
            missing = "# This cell was missing from the submission."
            cell.source = missing if code and readable else stub
        return
    if solution:
        cell.source = answer.source
        if cell.cell_type == "markdown" and answer.source != stub:
            cell.source = harmless(answer.source)
            cell.attachments = answer.attachments
    if cell.cell_type == "code" and not sets.is_test(cell):
        cell.outputs = _nodes(answer.outputs)


def _nodes(outputs):
    from nbformat import from_dict

    return [from_dict(output) for output in outputs]


def _sorted_out(cells, student):
    """Return the cells that answer the set's, by name, and the student's own.

    If a cell is there several times, the last one is the answer, as in a notebook that
    runs from top to bottom.
    """
    marked = {_name(cell) for cell in student.cells if mark(cell)}
    texts = {cell.source for cell in student.cells if not mark(cell)}
    answers, own, after = {}, {}, None
    for cell in cells:
        if cell.name in marked:
            answers[cell.name] = cell
            after = cell.name
        elif cell.kind == "code" or cell.source not in texts:
            own.setdefault(after, []).append(_own(cell))
        else:
            after = next(_name(c) for c in student.cells if c.source == cell.source)
    return answers, own


def _own(cell):
    """Return a student's own cell without anything that nbgrader would read."""
    from nbformat import v4

    if cell.kind == "code":
        return v4.new_code_cell(cell.source, outputs=_nodes(cell.outputs))
    made = v4.new_markdown_cell(harmless(cell.source))
    made.attachments = cell.attachments
    return made


def _differences(cells, answers, student):
    """Return a line for each change in a submission that was not allowed."""
    remarks = []
    named = [cell.name for cell in cells if cell.name]
    own = [cell for cell in student.cells if mark(cell)]
    known = [_name(cell) for cell in own]
    for name in dict.fromkeys(named):
        if name not in known:
            remarks.append(f"cell {name[:60]!r} is not of this set: kept as a cell")
        elif named.count(name) > 1:
            count = named.count(name)
            remarks.append(f"cell {name} is there {count} times: the last counts")
    for cell in own:
        remarks += _changed(cell, answers.get(_name(cell)))
    order = [name for name in answers if name in known]
    if order != [name for name in known if name in answers]:
        remarks.append("cells were moved: put back in order")
    return remarks


def _changed(cell, answer):
    name = _name(cell)
    if answer is None:
        solution = mark(cell).get("solution")
        fate = "is missing" if solution else "was deleted: put back"
        return [f"cell {name} {fate}"]
    found = []
    if answer.kind != cell.cell_type:
        found.append(f"cell {name} was made a {answer.kind} cell: put right")
    if not mark(cell).get("solution") and answer.source != cell.source:
        found.append(f"cell {name} is read-only and was changed: the original counts")
    if answer.left_out:
        most = MAX_IMAGE * 3 / 4 / 2**20
        found.append(
            f"pasted pictures left out of cell {name}: {answer.left_out}; PNG or JPEG "
            f"of at most {most:g} MB are taken"
        )
    flags = ("grade", "solution", "locked", "points")
    if any(answer.marks.get(flag) != mark(cell).get(flag) for flag in flags):
        found.append(f"cell {name} had its points or its kind changed: put right")
    return found
