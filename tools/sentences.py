"""Put each sentence of Markdown on a line, so that a changed word changes one line.

A line break within a paragraph is a space to the reader. Only paragraphs are touched,
those of the prose in directives among them: no code, table, displayed formula,
heading or option of a directive. Each new paragraph is parsed again as MyST parses
it; if it would say anything else, the paragraph stays as it was.
"""

import functools
import re

from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

EXTENSIONS = ("amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath")
#: Directives whose bodies are prose.
PROSE = re.compile(
    r"\{(prf:[a-z]+|exercise|solution|dropdown|admonition|note|tip|hint|important|"
    r"warning|caution|seealso|margin|div)\}"
)
OPTION = re.compile(r":[\w-]+:")
PARAGRAPH = ["paragraph_open", "inline", "paragraph_close"]
LISTS = {"bullet_list_open", "ordered_list_open", "list_item_open"}
#: What stands before the first word of a paragraph: a list item's marker, or nothing.
LEAD = re.compile(r"\s*(?:(?:[-*+]|\d+[.)])\s+)?")
#: What is never broken, whatever it holds: code, formulas, links, roles.
WHOLE = re.compile(
    r"(`+)(?:.|\n)+?\1(?!`)|\$[^$]+\$|!?\[[^][]*\](?:\([^()\s]*(?:\s\"[^\"]*\")?\))?"
    r"|\([^()]*\)"
)
END = re.compile(r"(?<=[.!?])[\"'”’)*_]*( )(?=[\"'“‘(*_\[]*[A-Z0-9\x00])")
NO_END = re.compile(
    r"(?:\b(?:e\.g|i\.e|cf|vs|resp|approx|al|Figs?|Eqs?|Sec|Ch|No|Thm|Prop|Def|pp?|St)"
    r"|(?<![\w\x00$])[A-Za-z]|^\d+)\.[\"'”’)*_]*$"
)


@functools.cache
def _parser():
    return create_md_parser(MdParserConfig(enable_extensions=EXTENSIONS), RendererHTML)


def one_a_line(text):
    """Return Markdown with each sentence of its paragraphs on a line.

    Parameters
    ----------
    text : str

    Returns
    -------
    str
        It reads as before; a second call changes nothing.

    Examples
    --------
    >>> print(one_a_line("- One. Two $a. B$ is\\n  one, too.\\n\\n# One. Two."))
    - One.
      Two $a. B$ is one, too.
    <BLANKLINE>
    # One. Two.
    """
    lines = text.split("\n")
    for start, end, token in reversed(_places(text)):
        if token.type == "paragraph_open":
            lines[start:end] = _paragraph(lines[start:end])
        elif lines[start].strip() != "---":
            while start < end and OPTION.match(lines[start].strip()):
                start += 1
            lines[start:end] = one_a_line("\n".join(lines[start:end])).split("\n")
    return "\n".join(lines)


def _places(text):
    """List the lines of the paragraphs and of the directives' bodies, with tokens."""
    found, around = [], []
    for token in _parser().parse(text):
        in_lists = all(kind in LISTS for kind in around)
        if token.type == "paragraph_open" and in_lists:
            found.append((*token.map, token))
        elif token.type in ("fence", "colon_fence") and not around:
            start, end = token.map
            if PROSE.match(token.info.strip()) and end - start > 2:
                found.append((start + 1, end - 1, token))
        if token.nesting == 1:
            around.append(token.type)
        elif token.nesting == -1:
            around.pop()
    return found


def _paragraph(lines):
    lead = LEAD.match(lines[0])[0]
    words = [line.strip() for line in (lines[0][len(lead) :], *lines[1:])]
    broken = any(line.endswith(("  ", "\\")) for line in lines[:-1])
    sentences = _sentences(" ".join(words))
    before, after = _meaning("\n".join(words)), _meaning("\n".join(sentences))
    if broken or before is None or before != after:
        return lines
    indent = " " * len(lead)
    return [lead + sentences[0], *(indent + each for each in sentences[1:])]


def _sentences(text):
    masked = WHOLE.sub(lambda match: "\x00" * len(match[0]), text)
    starts = [0]
    for end in END.finditer(masked):
        if not NO_END.search(masked[starts[-1] : end.start(1)]):
            starts.append(end.end(1))
    return [text[a:b].rstrip() for a, b in zip(starts, [*starts[1:], len(text)])]


def _meaning(text):
    """Return what a paragraph says to a reader, or None if it is not one paragraph."""
    tokens = _parser().parse(text)
    if [token.type for token in tokens] != PARAGRAPH:
        return None
    said = ""
    for child in tokens[1].children:
        content = child.content.replace("\n", " ")
        if child.type == "softbreak":
            said += " "
        elif child.type == "text":
            said += content
        else:
            said += f"\x00{child.type} {child.tag} {child.attrs} {content}\x00"
    return said
