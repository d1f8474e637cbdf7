"""A student's process: it runs the cells, then calls functions when asked.

It is started with the number of its socket and knows neither the key nor the tests. It
locks and limits itself before the first cell runs.
"""

import builtins
import os
import socket
import sys

from grading import room, wire


def compiled(source, name):
    """Compile a cell without the lines that only a notebook understands."""
    try:
        return compile(source, name, "exec", dont_inherit=True)
    except SyntaxError:
        lines = source.split("\n")
        plain = [x for x in lines if not x.lstrip().startswith(("%", "!"))]
        return compile("\n".join(plain), name, "exec", dont_inherit=True)


def told(error):
    """Return an exception's nearest builtin kind and its text."""
    kinds = [kind.__name__ for kind in type(error).__mro__]
    nearest = next(name for name in kinds if hasattr(builtins, name))
    text = str(error)[:300]
    return [nearest, text if nearest == kinds[0] else f"{kinds[0]}: {text}"]


def run_cell(namespace, defined, name, source):
    """Run one cell; return the message of the reply.

    Names that an earlier version of the cell had defined are removed first.
    """
    for old in defined.pop(name, ()):
        namespace.pop(old, None)
    before = dict(namespace)
    reply = {}
    try:
        exec(compiled(source, name), namespace)
    except BaseException as error:
        reply = {"raised": told(error)}
    defined[name] = [k for k, v in namespace.items() if before.get(k, before) is not v]
    return reply


def call(namespace, name, tree, unpacker):
    """Call a function; return the message and the arrays of the reply."""
    if not callable(namespace.get(name)):
        return {"missing": True}, []
    positional, named = unpacker.unpack(tree)
    given = [array.tobytes() for array in unpacker.arrays]
    packer = wire.Packer()
    try:
        value = packer.pack(namespace[name](*positional, **named))
    except wire.Refused as refusal:
        return {"refused": str(refusal)}, []
    except BaseException as error:
        return {"raised": told(error)}, []
    pairs = enumerate(zip(unpacker.arrays, given, strict=True))
    changed = [i for i, (array, old) in pairs if array.tobytes() != old]
    rest = [packer.pack(unpacker.arrays[i]) for i in changed]
    return {"value": value, "changed": changed, "arrays": {"list": rest}}, packer.arrays


def main():
    """Serve until the judge hangs up."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    limits, _ = wire.receive(channel)
    room.set_limits(**limits)
    missing = room.lock(os.environ["PYTHONPATH"], os.getcwd())
    wire.send(channel, {"open": missing})
    defined = {}
    namespace = {"__name__": "__main__", "display": lambda *shown, **options: None}
    while True:
        request, unpacker = wire.receive(channel)
        if "cell" in request:
            reply, arrays = run_cell(namespace, defined, *request["cell"]), []
        else:
            reply, arrays = call(namespace, *request["call"], unpacker)
        try:
            wire.send(channel, reply | {"number": request["number"]}, arrays)
        except wire.Refused as refusal:
            reply = {"refused": str(refusal), "number": request["number"]}
            wire.send(channel, reply)


if __name__ == "__main__":
    try:
        main()
    except (EOFError, OSError):
        sys.exit(1)
