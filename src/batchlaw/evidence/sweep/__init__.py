"""Many cells, computed once each: results that survive a kill, and runs that resume."""
