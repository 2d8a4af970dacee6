"""`soltape bench attacks`: what other users notice while somebody attacks a door."""
