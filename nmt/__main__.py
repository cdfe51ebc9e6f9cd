"""`python -m nmt` is `nmt`."""

from nmt.cli import main

main()
