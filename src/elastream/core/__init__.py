"""The loop: all queries of an application observed, a goal asked, one migrator that carries out."""
