"""Where clients are: hexagonal cells, location areas and their borders, and the streets that join them."""
