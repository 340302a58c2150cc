"""Response times around migrations, planner by planner: papers 000 (figure 13) and 001 (16)."""
