"""How networks are trained and calibrated."""
