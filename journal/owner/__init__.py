"""The one writer of a volume, from the change that is asked for to k members that have it. Sees all layers below it."""
