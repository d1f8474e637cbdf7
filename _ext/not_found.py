"""Write 404.html, which a host shows in place of a page that is not there.

It is shown at any address, so that it brings its looks along, and its links start
from the path of the site's address: ``html: baseurl`` in ``_config.yml``, or the
host's top where that is not set.
"""

from pathlib import Path
from urllib.parse import urlsplit

HERE = Path(__file__).parent


def numbered_title(env, docname):
    numbers = env.toc_secnumbers.get(docname, {}).get("", ())
    return "".join(f"{number}. " for number in numbers) + env.titles[docname].astext()


def collect_page(app):
    address = app.builder.get_target_uri
    parts = [
        (part.caption, [(address(f), numbered_title(app.env, f)) for f in part.files()])
        for part in app.env.external_site_map.root.subtrees
    ]
    context = {
        "title": "Page not found",
        "book": app.config.html_title,
        "base": urlsplit(app.config.html_baseurl).path or "/",
        "home": address(app.config.root_doc),
        "logo": (Path(app.srcdir) / app.config.html_logo).read_text(encoding="utf-8"),
        "parts": parts,
    }
    yield "404", context, "not_found.html"


def find_template(app, config):
    config.templates_path.append(str(HERE))


def setup(app):
    app.connect("config-inited", find_template)
    app.connect("html-collect-pages", collect_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
