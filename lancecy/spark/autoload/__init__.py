"""What an installation puts beside the package, so that Spark finds lancecy's data source by itself."""
