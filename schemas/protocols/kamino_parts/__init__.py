"""Parts of Kamino: lending and farms, each with kinds, routes and a reading of its own."""
