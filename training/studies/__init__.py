"""What the README and the docs measure, each by one command."""
