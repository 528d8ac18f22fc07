"""``python -m shmcast.cli`` is ``shmcast``."""

from shmcast.cli.main import main

main()
