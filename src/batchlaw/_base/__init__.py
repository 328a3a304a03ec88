"""What every room stands on: checks of input, files, the version, compiled loops."""
