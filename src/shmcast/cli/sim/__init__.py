"""``shmcast sim``: ordering protocols in virtual time. `command.py` is the way in."""
