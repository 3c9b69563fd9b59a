"""What Tenure achieves, beside what PostgreSQL itself allows, in one run on one server: `python -m bench`."""
