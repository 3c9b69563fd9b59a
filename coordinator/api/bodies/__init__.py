"""The bodies that the API takes, one module per noun. Strict: no coercion, no unknown field."""
