"""The package beside its peers: the same change streams, one process, one machine, one run."""
