"""Secondary indices."""
