"""Shared foundations: input checks, errors, files, the version, compiled loops."""
