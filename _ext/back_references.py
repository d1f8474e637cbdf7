"""Say under each work of the bibliography which pages cite it.

A citation in a cell's output counts as one in the text.
"""

from docutils import nodes

PAGE = "chapters/bibliography"


def short_name(env, docname):
    """Return a chapter's number, or a page's title."""
    if docname == env.config.root_doc:
        return "the first page"
    number = docname.rpartition("/")[2].partition("-")[0]
    return number if number.isdigit() else env.titles[docname].astext()


def citing_pages(env):
    """Return the pages that cite each work, by its key, in the order of the book."""
    pages = {}
    for reference in env.get_domain("cite").citation_refs:
        for target in reference.targets:
            pages.setdefault(target.key, set()).add(reference.docname)
    order = list(env.toctree_includes.get(env.config.root_doc, []))
    place = {docname: number for number, docname in enumerate(order)}
    return {
        key: sorted(found, key=lambda docname: (place.get(docname, -1), docname))
        for key, found in pages.items()
    }


def add_back_references(app, doctree, docname):
    if docname != PAGE:
        return
    env = app.env
    pages = citing_pages(env)
    keys = {each.citation_id: each.key for each in env.get_domain("cite").citations}
    for citation in doctree.findall(nodes.citation):
        key = next((keys[id_] for id_ in citation["ids"] if id_ in keys), None)
        line = nodes.paragraph(classes=["cited-in"])
        for number, page in enumerate(pages.get(key, [])):
            address = app.builder.get_relative_uri(docname, page)
            link = nodes.reference("", short_name(env, page), refuri=address)
            line += [nodes.Text(", " if number else "Cited in "), link]
        if len(line):
            citation += line


def setup(app):
    app.connect("doctree-resolved", add_back_references)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
