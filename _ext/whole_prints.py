"""Join the prints of a cell as the kernel sent them.

MyST-NB ends a line wherever the kernel happened to flush its output, so that on a
busy machine a line may break in its middle. If the outputs are joined before, nothing
is left to break.
"""

from myst_nb.core import render


def joined(outputs):
    """Return the outputs with each stream's text in one piece, at its first place."""
    streams, kept = {}, []
    for output in outputs:
        name = output["name"] if output["output_type"] == "stream" else None
        if name in streams:
            streams[name]["text"] += output["text"]
            continue
        if name is not None:
            output = streams[name] = output.copy()
        kept.append(output)
    return kept


def setup(app):
    coalesce = render.coalesce_streams
    render.coalesce_streams = lambda outputs: coalesce(joined(outputs))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
