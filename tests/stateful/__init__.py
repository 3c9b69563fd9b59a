"""The API on a real PostgreSQL, step for step beside a model of it that is plain Python."""
