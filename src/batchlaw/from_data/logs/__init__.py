"""Logs of training runs as ``bl.Run``: a file per format, and one for the rules of cleaning."""
