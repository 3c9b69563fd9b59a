"""The views, one module per noun: parse → call a service or selector → render."""
