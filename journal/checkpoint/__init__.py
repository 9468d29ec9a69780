"""What Spark keeps in a checkpoint, and whether it fits together, without Spark. Sees `records`."""
