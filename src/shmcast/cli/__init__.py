"""The program ``shmcast``: one module per family of subcommands."""
