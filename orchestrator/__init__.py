"""Many nodes: the command line, the lab, jobs and reports."""
