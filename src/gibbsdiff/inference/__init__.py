"""p(x, φ | y): the observation model, starts, scores, chains, and one pipeline through them."""
