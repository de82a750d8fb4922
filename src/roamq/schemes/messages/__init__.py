"""The messages of the mobility schemes, one file for each part that sends and handles them."""
