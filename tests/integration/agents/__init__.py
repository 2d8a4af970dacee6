"""The agents, each of whose folders has stores of its own."""
