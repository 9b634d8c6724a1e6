"""*Copy as Python*: short scripts that import core and print what a card shows. A test runs every one of them."""
