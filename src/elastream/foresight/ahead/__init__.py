"""Free placement that looks ahead: any tasks on any node, with the migrations to come in view."""
