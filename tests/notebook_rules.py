"""The rules that every notebook of the book keeps, a small function for each.

A rule takes a notebook and yields a message for each place that breaks it. Code
cells are numbered from 0, as nbval numbers them.
"""

import re

from tools.cells import (
    IMAGES,
    KERNEL,
    code_cells,
    is_generated,
    output_text,
)
from tools.repository import colab_cell, current_address

MOST_LINES = 15
TAGS = {
    *("hide-cell", "hide-input", "hide-output", "nbval-ignore-output"),
    *("remove-cell", "remove-input", "remove-output", "show-code"),
}
SECTIONS = ("What goes wrong in practice", "Exercises", "Summary", "Sources")
WORDS = (1500, 3500)
FENCE = re.compile(r"^(`{3,}|:{3,})\{([\w:-]+)\}[ \t]*(.*)$")
OPTION = re.compile(r"^:([\w-]+):[ \t]*(.*)$")
EXERCISE_TITLE = re.compile(r"\S: (derive|code|explore), ★{1,3}, [1-9]\d* minutes$")
VERDICT = re.compile(r"\b(holds|fails): error \S+, allowed \S+$", re.MULTILINE)
CHECKS = re.compile(r"(?<!exercises)\.(check|control|printed_check)\(")
DRAWS = re.compile(r"\bplt\.(figure|subplots|subplot_mosaic)\(")
CHECKS_CHAPTER = re.compile(r"\bcheck_chapter\(\"[\w-]+\"\)$")
ANSWERS = re.compile(r"\bexercises\.answer\(\s*\"([\w-]+)\"")
PREDICTION = re.compile(r"\{admonition\} Predict|^\*\*Answer\.\*\*", re.MULTILINE)


def name(number, cell):
    """Name a code cell: its number and its first line."""
    return f"Cell {number} ({cell.source.partition(chr(10))[0]})"


def first_cell_installs_on_colab(notebook):
    """The first cell installs the package on Colab, and no page shows it."""
    first = notebook.cells[0]
    if first.cell_type != "code" or first.source != colab_cell(current_address()):
        yield "the first cell is not tools.repository.colab_cell"
    elif first.metadata.get("tags") != ["remove-cell"]:
        yield f"{name(0, first)}: its tags must be remove-cell alone"


def kernel_is_python3(notebook):
    """Any Jupyter has the kernel that a notebook asks for."""
    if notebook.metadata.get("kernelspec") != KERNEL:
        yield f"kernelspec is {notebook.metadata.get('kernelspec')}, not {KERNEL}"


def cells_are_short(notebook):
    """Machinery lives in the package; a cell states, computes or checks."""
    for number, cell in enumerate(code_cells(notebook)):
        lines = len(cell.source.splitlines())
        if lines > MOST_LINES:
            yield f"{name(number, cell)}: {lines} lines, at most {MOST_LINES}"


def no_line_ends_in_a_semicolon(notebook):
    """A trailing semicolon silences a value in Jupyter, but not in nbval."""
    for number, cell in enumerate(code_cells(notebook)):
        if any(line.rstrip().endswith(";") for line in cell.source.splitlines()):
            yield f"{name(number, cell)}: a line ends in ';', write _ = ..."


def tags_are_known(notebook):
    """A misspelt tag would be ignored without a word."""
    for cell in notebook.cells:
        unknown = set(cell.metadata.get("tags", [])) - TAGS
        if unknown:
            line = cell.source.partition("\n")[0]
            yield f"cell '{line}': unknown tags {sorted(unknown)}"


def no_image_is_stored(notebook):
    """Images are drawn again by every build."""
    for number, cell in enumerate(code_cells(notebook)):
        kinds = {kind for output in cell.outputs for kind in output.get("data", {})}
        if kinds & IMAGES:
            yield f"{name(number, cell)}: stores {sorted(kinds & IMAGES)}"


def no_error_is_stored(notebook):
    """Neither a traceback nor a warning belongs on a page."""
    for number, cell in enumerate(code_cells(notebook)):
        for output in cell.outputs:
            if output.output_type == "error" or output.get("name") == "stderr":
                yield f"{name(number, cell)}: stores an error or a warning"


def no_address_in_memory_is_stored(notebook):
    """A default repr differs from run to run."""
    for number, cell in enumerate(code_cells(notebook)):
        if re.search(r"\bat 0x[0-9a-f]+", output_text(cell)):
            yield f"{name(number, cell)}: stores an address in memory"


def cells_ran_once_in_order(notebook):
    """Outputs come from one run, top to bottom; generated pages store none."""
    for number, cell in enumerate(code_cells(notebook)):
        wanted = None if is_generated(notebook) else number + 1
        if cell.execution_count != wanted:
            count = cell.execution_count
            yield (
                f"{name(number, cell)}: execution count {count}, not {wanted}; "
                "run: python -m tools.notebooks"
            )
            return  # those after it are wrong for the same reason


def unchecked_outputs_are_not_stored(notebook):
    """An output that no test compares would go stale."""
    for number, cell in enumerate(code_cells(notebook)):
        ignored = "nbval-ignore-output" in cell.metadata.get("tags", [])
        if cell.outputs and (ignored or is_generated(notebook)):
            yield f"{name(number, cell)}: stores an output that no test compares"


def draws(cell):
    """Return whether a figure comes out of a code cell."""
    return "<Figure" in output_text(cell) or DRAWS.search(cell.source)


def mystnb(cell, part):
    """Return what a code cell's metadata tell the site of its image or its figure."""
    return cell.metadata.get("mystnb", {}).get(part, {})


def figures_have_alternative_text(notebook):
    """A reader who does not see a figure is told what it shows."""
    for number, cell in enumerate(code_cells(notebook)):
        if draws(cell) and not mystnb(cell, "image").get("alt", "").strip():
            yield f"{name(number, cell)}: no alt text in mystnb: image: alt"


def figures_have_captions(notebook):
    """A figure has a number and says what to see; its message is no pixels.

    A notebook none of whose figures has a caption is let pass, until all have.
    """
    cells = [(n, cell) for n, cell in enumerate(code_cells(notebook)) if draws(cell)]
    if not any(mystnb(cell, "figure") for _, cell in cells):
        return
    for number, cell in cells:
        figure = mystnb(cell, "figure")
        if not figure.get("caption", "").strip():
            yield f"{name(number, cell)}: no caption in mystnb: figure: caption"
        if not figure.get("name", "").startswith("fig-"):
            yield f"{name(number, cell)}: no name fig-... in mystnb: figure: name"


def is_converted(notebook):
    """Return whether a chapter's claims are checked by one cell, its last.

    The boxes on the page carry a sign for each; other chapters still show a line.
    """
    return any("check_chapter(" in cell.source for cell in code_cells(notebook))


def last_cell_checks_the_chapter(notebook):
    """One cell checks every claim of the chapter; the page does not show it."""
    if not is_converted(notebook):
        return
    last, number = notebook.cells[-1], len(code_cells(notebook)) - 1
    if last.cell_type != "code" or not CHECKS_CHAPTER.search(last.source.strip()):
        yield "the last cell does not end in bnlib.claims.check_chapter(...)"
    elif last.metadata.get("tags") != ["remove-cell"]:
        yield f"{name(number, last)}: its tags must be remove-cell alone"
    elif not VERDICT.search(output_text(last)):
        yield f"{name(number, last)}: prints no verdict line"


def predictions_are_answered(notebook):
    """After what is to be predicted has run, the text gives the answer in words."""
    if not is_converted(notebook):
        return
    asked, shown = None, False
    for cell in notebook.cells:
        if cell.cell_type == "code":
            shown = True
            continue
        for found in PREDICTION.finditer(cell.source):
            if found[0].startswith("**"):
                if asked and not shown:
                    yield f"the answer stands before the cell that gives it: {asked}"
                asked = None
            else:
                if asked:
                    yield f"no **Answer.** follows: {asked}"
                words = cell.source[found.end() :].replace(":class: tip", "")
                asked, shown = " ".join(words.split()[:9]), False
    if asked:
        yield f"no **Answer.** follows: {asked}"


def answers_belong_to_exercises(notebook):
    """The field for a reader's number stands under the exercise that is named."""
    text = markdown(notebook)
    labels = {o.get("label") for k, _, o, _ in directives(text) if k == "exercise"}
    within = None
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for kind, argument, _, _ in directives(cell.source):
                if kind in ("solution-start", "solution-end"):
                    within = argument or None
        for label in ANSWERS.findall(cell.source):
            if cell.cell_type != "code":
                continue
            if label not in labels:
                yield f"exercises.answer names {label!r}, which is no exercise"
            elif label != within:
                yield f"exercises.answer({label!r}) is not in that one's solution"


def checks_print_their_verdict(notebook):
    """The cell that checks a claim shows the verdict and the miss."""
    if is_converted(notebook):
        return
    for number, cell in enumerate(code_cells(notebook)):
        if CHECKS.search(cell.source) and not VERDICT.search(output_text(cell)):
            yield f"{name(number, cell)}: checks a claim, prints no verdict line"


def markdown(notebook):
    """Return all the prose of a notebook as one text."""
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    return "\n\n".join(texts)


def directives(text):
    """Yield (name, argument, options, body) of each directive, outermost first."""
    lines = iter(text.splitlines())
    for line in lines:
        opened = FENCE.match(line)
        if opened:
            fence, kind, argument = opened.groups()
            body = []
            for inner in lines:
                if inner.rstrip() == fence:
                    break
                body.append(inner)
            options = dict(m.groups() for m in map(OPTION.match, body) if m)
            yield kind, argument.strip(), options, "\n".join(body)
            yield from directives("\n".join(body))


def section(text, heading):
    """Return the text under a level-two heading, up to the next."""
    pattern = rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)"
    found = re.search(pattern, text, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def count_words(notebook):
    """Count the words of the prose, without folded blocks, exercises, displays."""
    text = markdown(notebook)
    text = text.replace(section(text, "Exercises"), "")
    for kind, _, options, body in directives(text):
        folded = kind == "dropdown" or "dropdown" in options.get("class", "")
        if folded or kind == "math":
            text = text.replace(body, "", 1)
    text = re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)
    text = re.sub(r"\$[^$]+\$", " formula ", text)
    text = re.sub(r"^(:[\w-]+:.*|[`:]{3,}.*|\(.*\)=)$", "", text, flags=re.MULTILINE)
    return len(re.findall(r"\w[\w'’-]*", text))


def chapter_opens_as_promised(notebook):
    """Title, what you will be able to do, what it builds on, how long it takes."""
    opening = next((c.source for c in notebook.cells if c.cell_type == "markdown"), "")
    if not opening.startswith("# "):
        yield "the first markdown cell does not start with a title"
    points = len(re.findall(r"^[-*] ", opening, re.MULTILINE))
    if "you will be able to" not in opening.lower() or not 3 <= points <= 5:
        yield f"'You will be able to' needs 3 to 5 list items, found {points}"
    for pattern in ("builds on", r"\d+ minutes to read", r"\d+ seconds to run"):
        if not re.search(pattern, opening, re.IGNORECASE):
            yield f"the first markdown cell does not say '{pattern}'"


def chapter_asks_for_a_prediction(notebook):
    """The reader predicts before running."""
    if not re.search(r"\bpredict", markdown(notebook), re.IGNORECASE):
        yield "no prediction is asked of the reader"


def chapter_has_its_sections(notebook):
    """Practice, exercises, summary and sources close a chapter, in this order."""
    headings = re.findall(r"^## (.+?)\s*$", markdown(notebook), re.MULTILINE)
    closing = tuple(headings[-len(SECTIONS) :])
    if closing != SECTIONS:
        yield f"the last sections are {closing}, not {SECTIONS}"


def chapter_has_the_right_length(notebook):
    """A chapter is read in one sitting."""
    words = count_words(notebook)
    if not WORDS[0] <= words <= WORDS[1]:
        yield f"{words} words of prose, not {WORDS[0]} to {WORDS[1]}"


def exercises_are_complete(notebook):
    """Five exercises or more, each with a title, a hint and a folded solution."""
    found = list(directives(section(markdown(notebook), "Exercises")))
    exercises = [(a, o) for kind, a, o, _ in found if kind == "exercise"]
    if len(exercises) < 5:
        yield f"{len(exercises)} exercises, at least 5"
    hints = sum(k == "dropdown" and a.startswith("Hint") for k, a, _, _ in found)
    if hints != len(exercises):
        yield f"{hints} folded hints for {len(exercises)} exercises"
    starts = {a: o for kind, a, o, _ in found if kind == "solution-start"}
    if len(starts) != sum(kind == "solution-end" for kind, *_ in found):
        yield "a solution-start has no solution-end"
    for title, options in exercises:
        label = options.get("label")
        if not label:
            yield f"exercise '{title}' has no label"
        if not EXERCISE_TITLE.search(title):
            yield f"exercise '{title}' must end in ': KIND, ★★, N minutes'"
        if "dropdown" not in starts.get(label, {}).get("class", ""):
            yield f"exercise '{label}' has no solution-start of class dropdown"


RULES = (
    *(first_cell_installs_on_colab, kernel_is_python3, cells_are_short),
    *(no_line_ends_in_a_semicolon, tags_are_known, no_image_is_stored),
    *(no_error_is_stored, no_address_in_memory_is_stored, cells_ran_once_in_order),
    *(unchecked_outputs_are_not_stored, figures_have_alternative_text),
    *(figures_have_captions, answers_belong_to_exercises),
)
CHAPTER_RULES = (
    *(chapter_opens_as_promised, chapter_asks_for_a_prediction),
    *(chapter_has_its_sections, chapter_has_the_right_length),
    *(exercises_are_complete, checks_print_their_verdict),
    *(last_cell_checks_the_chapter, predictions_are_answered),
)
