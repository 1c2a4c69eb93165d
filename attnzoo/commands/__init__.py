"""The work of the commands: a module for each, imported when its command runs.

``parsers`` and ``exits`` import neither torch nor Transformers, so that ``--help`` and errors of arguments are quick.
"""
