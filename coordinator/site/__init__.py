"""The site: settings, the web and Celery entry points, and everything that `up` runs."""
