"""The parsers of the commands, and how a command ends."""
