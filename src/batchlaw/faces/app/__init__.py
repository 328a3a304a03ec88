"""The explorer: an interactive page of influence, schedules and risks, and its server."""
