"""The command line and the page. No mathematics."""
