"""Python imports this as it starts: in a notebook's kernel and in what that starts."""

from tools import reads

reads.watch()
