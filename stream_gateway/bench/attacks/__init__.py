"""`soltape bench attacks`: what other users notice during an attack."""
