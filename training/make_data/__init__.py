"""Programs that write data: files to train on, and tables of the package. Each is a command."""
