"""Something to try each of the console's jobs on: real work of a small office that waits for a person."""
