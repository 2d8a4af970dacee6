"""Arithmetic that several protocols share: values in, values out, exact integers."""
