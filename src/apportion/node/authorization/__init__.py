"""The permissions of callers: each request is checked before its handler sees it.

`table.py` has a check for each API, `gate.py` asks it. Handlers know nothing of ACLs: they get what
the caller may ask for, and what was refused is joined to their response on its way out.
"""
