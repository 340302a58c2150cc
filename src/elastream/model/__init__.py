"""Frozen types of the problem domain: tasks, nodes, assignments, migrations, plans."""
