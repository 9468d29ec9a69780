"""What programs may rely on of the JSON that the commands print: schemas, and real output that is held against them."""
