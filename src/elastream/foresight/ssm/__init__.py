"""Single-step migration (SSM, paper 000, section 3): each node holds consecutive tasks."""
