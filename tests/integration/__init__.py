"""Tests that talk to real parts."""
