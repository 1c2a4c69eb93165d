"""Sources of data: files, the Hub and packages of a registry; one file per known data set."""
