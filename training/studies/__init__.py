"""What the docs measure, each by one command."""
