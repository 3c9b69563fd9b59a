"""A review of a folder of files by a fleet: inventory → analyse each file → report."""
