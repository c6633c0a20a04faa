"""A stand-in for the sequence archives: ENA, NCBI's E-utilities and SDL, and their files, over a made data set."""
