"""Django's PostgreSQL, whose pool hands out no connection that its server has ended."""
