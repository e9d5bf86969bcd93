"""What lies beside the package in a wheel, so that Spark finds lancecy's data source by itself."""
