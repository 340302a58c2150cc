"""What runs on Spark, observed: events of its bus made into facts for the loop."""
