"""A volume of two shards in a small world: every order of its requests, a death at every step, each rule broken."""
