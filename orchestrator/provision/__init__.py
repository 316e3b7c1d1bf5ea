"""Making, changing, comparing and removing a fabric: the lab's, or one host's part."""
