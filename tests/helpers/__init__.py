"""What tests share: builders, comparisons, damage, and real servers."""
