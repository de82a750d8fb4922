"""`python -m roamq` is the same command line as `roamq`."""

from roamq.cli.main import main

main()
