"""Who owns a volume, and who keeps it: making, taking over, changing members. Sees `copies` and what lies below."""
