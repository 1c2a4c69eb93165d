"""The recipes: a YAML file for every published checkpoint and study; ``attnzoo train NAME`` finds them by name."""
