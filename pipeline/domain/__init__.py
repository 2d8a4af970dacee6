"""Facts from events by arithmetic alone: values in, values out."""
