"""How a plan is carried out: mini-migrations, their order, and transfer phases."""
