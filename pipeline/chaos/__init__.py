"""The proof: everything computed once more from the ground truth, and compared with the stores.

Nothing here knows `pipeline.domain`, `pipeline.decoding` or the agents: see `oracle`.
"""
