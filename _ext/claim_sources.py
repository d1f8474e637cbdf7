"""Put the code of all claims among the pages of the package's code.

sphinx.ext.viewcode writes a page for each module that a page documents. Those of the
claims are documented nowhere: the ledger and the boxes of the chapters link to them.
Each function links back to its claim's row of the ledger.
"""

import importlib

from sphinx.pycode import ModuleAnalyzer

LEDGER = "chapters/ledger"


def add_claims(app, env):
    if LEDGER not in env.found_docs:
        return
    claims = importlib.import_module("bnlib.claims").all_claims()
    modules = env._viewcode_modules = getattr(env, "_viewcode_modules", {})
    for claim in claims:
        function = claim.functions["check"]
        name = function.__module__
        if not modules.get(name):
            analyzer = ModuleAnalyzer.for_module(name)
            analyzer.find_tags()
            modules[name] = (analyzer.code, analyzer.tags, {}, name)
        modules[name][2][function.__name__] = LEDGER


def setup(app):
    app.connect("env-check-consistency", add_claims)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
