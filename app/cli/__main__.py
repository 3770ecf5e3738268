"""`python -m app.cli`: how `cachescope up` starts its services, whatever the PATH."""

from app.cli import main

main()
