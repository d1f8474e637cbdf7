"""Python imports this as it starts: in a notebook's kernel and in what that starts."""

import reads

reads.watch()
