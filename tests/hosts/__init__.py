"""Several hosts on this machine: namespaces on one bridge, with the installation spread over them."""
