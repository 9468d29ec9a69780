"""A volume's copies, on servers and in directories: reading, comparing, mending. Sees `image` and below."""
