"""Things to run, and to read as a first program against Tenure."""
