"""What happened: days, swaps, candles, lots."""
