"""The dashboard in Chromium: a package, for one `soltape up` serves all of its tests."""
