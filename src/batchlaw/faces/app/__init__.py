"""The explorer: a page on which influence, schedules and risks can be seen, and its server."""
