"""Leave out the parts of the errata that wait for a statement.

The page has a part for each chapter, into which a chapter's authors put the statements
that only another text's slip calls for. A part that holds nothing but its heading is
not shown, and neither are all of them together if none holds anything.
"""

from docutils import nodes

PAGE = "chapters/errata"
PART = "From chapter "


def leave_out_empty(app, doctree):
    if app.env.docname != PAGE:
        return
    for section in list(doctree.findall(nodes.section)):
        own = section[0].astext().startswith(PART)
        if own and len(section) == 1:
            holder = section.parent
            holder.remove(section)
            if not any(isinstance(each, nodes.section) for each in holder):
                holder.parent.remove(holder)


def setup(app):
    # Before the contents of the page are collected.
    app.connect("doctree-read", leave_out_empty, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
