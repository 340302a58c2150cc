"""The located readings of paper 002, and the queries over them."""
